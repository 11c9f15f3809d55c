from typing import Any

import pytest

from nixt_pipeline.fleet.selection import SelectionError, select

DAY_US = 86_400_000_000
ROWS: list[dict[str, Any]] = [
    {"run": "nightly-1", "tags": ["weekly", "old-driver"], "model": "7B", "first_dump_us": 0},
    {"run": "nightly-2", "tags": ["new-driver"], "model": "7B", "first_dump_us": 10 * DAY_US},
    {"run": "other", "tags": None, "model": None, "first_dump_us": None},
]


@pytest.mark.parametrize(
    ("selection", "chosen"),
    [
        ("other", ["other"]),
        ("nightly-*", ["nightly-1", "nightly-2"]),
        ("other,nightly-1", ["nightly-1", "other"]),
        ("tag:new-driver", ["nightly-2"]),
        ("model:7B,before:1970-01-05", ["nightly-1"]),
        ("nightly-*,since:1970-01-05", ["nightly-2"]),
    ],
)
def test_names_add_up_and_conditions_restrict(selection: str, chosen: list[str]) -> None:
    assert select(selection, ROWS) == chosen


@pytest.mark.parametrize("selection", ["missing", "tag:missing", "nightly-1,missing", ""])
def test_what_means_no_run_is_an_error_that_names_the_runs_there_are(selection: str) -> None:
    with pytest.raises(SelectionError, match="known runs: nightly-1, nightly-2, other"):
        select(selection, ROWS)


def test_a_date_that_is_none_says_how_to_write_one() -> None:
    with pytest.raises(SelectionError, match="write it as 2026-11-29"):
        select("since:yesterday", ROWS)
