"""Jobs of the second simulation in which innocents were named once, each by a mistake of another kind."""

import pytest

from evaluation.independent.judging import judge_job

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("slow-nic", 1305),  # four logs had lost their tails; a fifth was left aside, and who met only these had "hung"
        ("dead-process", 1223),  # the embedding of the first and the last stage was behind, and the second stage hung
        ("late-without-log", 1193),  # peers of a rank without a log, which exchanged tokens with it unseen
        ("thermal-ramp", 1344),  # the peer of a late rank, of which no Send is recorded, beside it
        ("healthy-losses", 1361),  # a pipeline stage in containers, without Sends
        ("late-host", 1585),  # another stage of its interleaved pipeline
        ("healthy-congested", 1319),  # bursts of congestion that were over
    ],
)
def test_no_innocent_is_named_at_p0_or_p1(kind: str, seed: int) -> None:
    assert judge_job(kind, seed).innocents == 0
