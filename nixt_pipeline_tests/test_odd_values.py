"""Odd values end no analysis and no diagnosis; `benchmarks.odd_values` tries all of them."""

import pytest

from benchmarks.odd_values import SCOPES, VALUES, Combination, tried

ONE, _, ALL = SCOPES


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        [Combination("msg_size_bytes", "null", ALL)],
        [Combination("dump_timestamp_us", "null", ALL)],
        # One record for each value.
        [Combination("sn", value, ONE) for value in VALUES],
        [Combination("msg_size_bytes", value, ONE) for value in VALUES],
        [Combination("p2p_peer", value, ONE) for value in VALUES],
    ],
    ids=lambda changes: f"{changes[0].field} {changes[0].scope}",
)
def test_no_value_ends_an_analysis_or_a_diagnosis(changes: list[Combination]) -> None:
    assert tried(changes, report=False) == []
