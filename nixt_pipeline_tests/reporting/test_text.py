import pytest

from nixt_pipeline import inert, quantities
from nixt_pipeline.reporting import text


def test_shorten_keeps_both_ends_of_a_long_name() -> None:
    # 9 characters: 4 from the start, the ellipsis, 4 from the end.
    assert inert.shorten("node-0000001-pid77", 9) == "node…id77"


def test_shorten_leaves_a_name_that_fits() -> None:
    assert inert.shorten("node", 4) == "node"


def test_labels_that_become_equal_by_shortening_are_numbered() -> None:
    assert text.unique_labels(["ab-1-yz", "ab-2-yz"], 5) == ["ab…yz", "ab…yz (2)"]


@pytest.mark.parametrize(
    ("share", "words"),
    [(None, "–"), (0.0, "0 %"), (0.0004, "<0.1 %"), (0.1234, "12.3 %"), (0.9996, ">99.9 %"), (1.0, "100 %")],  # noqa: RUF001
)
def test_a_percentage_never_rounds_a_part_to_nothing_or_to_everything(share: float | None, words: str) -> None:
    assert quantities.percent(share) == words


@pytest.mark.parametrize(
    ("microseconds", "words"),
    [
        (870, "870 us"),
        (12_300, "12.3 ms"),
        (4_500_000, "4.5 s"),
        (200_000_000, "3 min 20 s"),
        (7_500_000_000, "2 h 5 min"),
        (273_600_000_000, "3 d 4 h"),
        (172_800_000_000, "2 d"),
    ],
)
def test_a_duration_is_worded_in_the_unit_that_suits_it(microseconds: float, words: str) -> None:
    assert quantities.duration(microseconds) == words


def test_a_time_is_shown_in_utc() -> None:
    # 1756585206 is 2025-08-30 20:20:06 UTC (`date -u -d @1756585206`).
    assert quantities.utc(1_756_585_206_999_999) == "2025-08-30T20:20:06Z"


def test_plural_takes_an_irregular_form() -> None:
    assert [quantities.plural(1, "process", "processes"), quantities.plural(2048, "process", "processes")] == [
        "1 process",
        "2,048 processes",
    ]
