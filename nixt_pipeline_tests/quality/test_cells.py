import pyarrow as pa
import pytest

from nixt_pipeline.quality.cells import CELL_RULES, cell_profile, judge_cells
from nixt_pipeline.settings import Thresholds
from nixt_pipeline_tests.analysis.conftest import StoreRun, event

SOUND = {
    "complete_share": 1.0,
    "cells_with_too_many_ranks": 0,
    "cells_with_several_sizes": 0,
    "cells_with_disordered_times": 0,
    "cells_with_impossible_ranks": 0,
    "repeated_cells": 0,
    "records_gained_or_lost": 0,
    "clock_spread_us": 100_000.0,
}
FAULTS: dict[str, tuple[float, str]] = {
    "complete_share": (0.49, "most_collectives_have_every_rank"),
    "cells_with_too_many_ranks": (1, "every_rank_belongs_to_its_communicator"),
    "cells_with_several_sizes": (1, "ranks_agree_on_the_message_size"),
    "cells_with_disordered_times": (1, "no_rank_is_faster_than_the_fastest"),
    "cells_with_impossible_ranks": (1, "every_rank_belongs_to_its_communicator"),
    "repeated_cells": (1, "every_collective_is_one_row"),
    "records_gained_or_lost": (-1, "every_collective_is_one_row"),
    # Two seconds, where NTP keeps hosts within one.
    "clock_spread_us": (2_000_000.0, "the_clocks_of_the_hosts_agree"),
}


def failing(changes: dict[str, float]) -> set[str]:
    profile = pa.Table.from_pylist([SOUND | changes])
    return {verdict.rule for verdict in judge_cells(profile, Thresholds()) if not verdict.passed}


def test_sound_cells_pass_every_rule() -> None:
    assert failing({}) == set()


@pytest.mark.parametrize(("column", "value", "rule"), [(name, *fault) for name, fault in FAULTS.items()])
def test_one_fault_fails_exactly_its_rule(column: str, value: float, rule: str) -> None:
    assert failing({column: value}) == {rule}


def test_every_rule_has_a_fault_above() -> None:
    assert {rule for _, rule in FAULTS.values()} == {rule.name for rule in CELL_RULES}


def test_the_profile_counts_what_the_rules_judge(store_run: StoreRun) -> None:
    # Collective 0 is complete; of collective 1 only rank 0 logged; in collective 2 the ranks disagree about the size.
    run = store_run(
        [
            event(rank=0, coll_sn=0, coll_exec_time_us=100.0),
            event(rank=1, coll_sn=0, coll_exec_time_us=40.0),
            event(rank=0, coll_sn=1),
            event(rank=0, coll_sn=2),
            event(rank=1, coll_sn=2, coll_msg_size_bytes=2_000_000),
        ]
    )
    (row,) = cell_profile(run.con).to_pylist()
    assert row["cells"] == 3
    assert row["complete_cells"] == 2
    assert row["cells_with_several_sizes"] == 1
    assert row["records_gained_or_lost"] == 0
    assert row["repeated_cells"] == 0
    # 60 us in collective 0, none in the others.
    assert row["wait_rank_s"] == pytest.approx(60e-6)
    assert failing(row) == {"ranks_agree_on_the_message_size"}


def test_a_run_without_collectives_loses_none(store_run: StoreRun) -> None:
    run = store_run([event(kind="p2p", coll="Send", p2p_peer=1)])
    (row,) = cell_profile(run.con).to_pylist()
    assert failing(row) == set()
