"""Four ranks of one communicator, six hundred collectives, lags drawn from a model whose carried share is known."""

import duckdb
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from nixt_pipeline.diagnosis.detectors.deficits import deficits
from nixt_pipeline.diagnosis.detectors.lateness import find_late
from nixt_pipeline.diagnosis.evidence.overlap import measure_overlap
from nixt_pipeline.settings import Thresholds
from nixt_pipeline_tests.diagnosis.examples import A1, A2, B1, B2, HALF, communicator, last, observations

RANKS, COLLECTIVES = 4, 600


def lags(carried: float, seed: int) -> NDArray[np.float64]:
    """By collective and rank, in microseconds: `carried` times the lag before, and something new."""
    new = np.random.default_rng(seed).normal(0, 100, (COLLECTIVES, RANKS))
    result = new.copy()
    for number in range(1, COLLECTIVES):
        result[number] += carried * result[number - 1]
    return result


def fresh_share(lag_us: NDArray[np.float64], per_pulse: int = 1) -> float:
    """The share of the waiting that is new in a communicator whose ranks wait for one another like this."""
    return measured(lag_us, per_pulse)[0]


def measured(lag_us: NDArray[np.float64], per_pulse: int = 1) -> tuple[float, float]:
    """What `measure_overlap` says of it: that share, and how much of one wait is carried over at most."""
    times = 1_000 + lag_us.max(axis=1, keepdims=True) - lag_us
    events = pd.DataFrame(
        {
            "id": "0xc", "comm_name": "dp", "n_ranks": RANKS, "nnodes": 1, "coll": "AllReduce",
            "writer": np.tile(np.arange(RANKS), COLLECTIVES),
            "coll_sn": np.repeat(np.arange(COLLECTIVES), RANKS), "coll_exec_time_us": times.ravel(),
        }
    )  # fmt: skip
    cells = pd.DataFrame(
        {
            "comm": 0, "coll": "AllReduce", "coll_sn": np.arange(COLLECTIVES), "ranks_seen": RANKS,
            "min_exec_time_us": times.min(axis=1), "max_exec_time_us": times.max(axis=1),
        }
    )  # fmt: skip
    series = pd.DataFrame(
        {
            "comm": [0], "coll": ["AllReduce"], "n_ranks": [RANKS], "shape": [7], "cells": [COLLECTIVES],
            "lo": [0.0], "hi": [COLLECTIVES - 1.0], "per_pulse": [per_pulse],
        }
    )  # fmt: skip
    with duckdb.connect() as con:
        con.register("records", events)
        con.execute(
            "CREATE VIEW ordered_records AS SELECT *, hash(id, comm_name, n_ranks, nnodes) AS comm_key FROM records"
        )
        con.register("usable_cells", cells)
        con.register("usable_series", series)
        con.execute(
            "CREATE TABLE diagnosed_communicators AS"
            " SELECT 0 AS comm, hash('0xc', 'dp', 4, 1) AS comm_key, 4 AS n_ranks, 7 AS shape"
        )
        measure_overlap(con)
        [(fresh, most_us)] = con.sql("SELECT fresh, most_us FROM fresh_shares").fetchall()
    return float(fresh), float(most_us)


def test_of_a_wait_no_more_is_carried_over_than_some_usual_waits() -> None:
    # Rank 0 of four is 100 us behind the others, and in every tenth collective 50 ms: that is no lag to be overlapped.
    lag_us = np.zeros((COLLECTIVES, RANKS))
    lag_us[:, 0] = 100.0
    lag_us[::10, 0] = 50_000.0
    assert measured(lag_us)[1] == 400.0


@pytest.mark.parametrize("seed", range(3))
def test_all_waiting_is_fresh_where_a_collective_holds_up_its_ranks(seed: int) -> None:
    assert fresh_share(lags(0.0, seed)) == 1


@pytest.mark.parametrize("seed", range(3))
def test_what_is_carried_over_is_not_fresh(seed: int) -> None:
    # Two hundred independent changes of each of four ranks: the share is known to about a tenth.
    assert fresh_share(lags(0.6, seed)) == pytest.approx(0.4, abs=0.2)
    assert fresh_share(lags(1.0, seed)) == pytest.approx(0.15, abs=0.1)


def test_a_rank_that_is_late_from_some_point_on_carries_nothing_over() -> None:
    lag_us = lags(0.0, seed=4)
    lag_us[COLLECTIVES // 2 :, 2] += 5_000
    assert fresh_share(lag_us) == 1


def test_a_rank_that_is_ever_later_in_the_course_of_each_step_carries_nothing_over() -> None:
    lag_us = lags(0.0, seed=5)
    lag_us[:, 2] += 1_000 * (np.arange(COLLECTIVES) % 6)
    assert fresh_share(lag_us, per_pulse=6) == 1


def test_who_waits_where_it_is_carried_over_is_not_late_for_those_who_wait_elsewhere() -> None:
    # b1 waits for a1 all the same, in a collective in which most of the waiting is carried over.
    seen = observations(
        [communicator(0, A1, A2, B1, B2)],
        wait_us={A2: HALF, B1: [0.2 * wait for wait in HALF], B2: HALF},
        carried_us={B1: [0.8 * wait for wait in HALF]},
        arrivals=last(0, A1),
        blocks=40,
    )
    late, _ = deficits(seen, Thresholds())
    b1 = seen.processes.index(B1)
    assert late[b1].max() <= 0
    assert [entity.processes for entity in find_late(seen, Thresholds())] == [(A1,)]
