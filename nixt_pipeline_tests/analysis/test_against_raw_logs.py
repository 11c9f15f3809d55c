"""The analyses of a real job's logs, against the same numbers worked out from the raw JSON with pandas alone."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from nixt_pipeline.analysis import analysis_named, compute
from nixt_pipeline.analysis.cells import build_cells
from nixt_pipeline.settings import Settings, load_settings
from nixt_pipeline.store import catalog
from nixt_pipeline.store.ingest import ingest
from nixt_pipeline_tests.conftest import FIXTURES

JOB = FIXTURES / "job_2.30.7_8ranks"
CELL = ["id", "coll", "coll_sn"]
KERNEL = ["kind", "coll", "n_ranks", "nnodes", "coll_msg_size_bytes"]
SYNC = ["AllGather", "AllReduce", "ReduceScatter"]


def _records(directory: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(directory.glob("*.log")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            kind = "p2p" if "p2p_perf" in record else "collective"
            body = record["p2p_perf"] if kind == "p2p" else record["coll_perf"]
            named = {"coll": body.pop("p2p")} if kind == "p2p" else {}
            named |= {name.replace("p2p_", "coll_"): value for name, value in body.items()}
            yield {"kind": kind, **record["header"], **record["metadata"], **named}


@pytest.fixture(scope="module")
def raw() -> pd.DataFrame:
    """Every line of the logs."""
    frame = pd.DataFrame(_records(JOB))
    assert len(frame) > 1000
    return frame


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[duckdb.DuckDBPyConnection, Settings]]:
    """The job, ingested."""
    settings = load_settings(data_dir=tmp_path_factory.mktemp("data"), workers=1)
    ingest(JOB, "job", settings)
    build_cells("job", settings)
    with catalog.open_run("job", settings) as con:
        yield con, settings


def _result(store: tuple[duckdb.DuckDBPyConnection, Settings], name: str) -> pd.DataFrame:
    con, settings = store
    frame: pd.DataFrame = compute(analysis_named(name), con, settings).to_pandas()
    return frame


def _agree(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(np.asarray(ours, float), np.asarray(theirs, float), rtol=1e-9, atol=1e-6)


def test_cells_find_the_two_last_arrivals_and_the_waiting(
    raw: pd.DataFrame, store: tuple[duckdb.DuckDBPyConnection, Settings]
) -> None:
    cells = store[0].sql("SELECT * FROM cells").df().set_index(CELL).sort_index()
    ordered = raw[raw["kind"] == "collective"].sort_values(["coll_exec_time_us", "rank"]).groupby(CELL)
    first = ordered.nth(0).set_index(CELL).sort_index()
    second = ordered.nth(1).set_index(CELL).reindex(first.index)
    assert len(cells) == len(first)
    assert list(cells["min_hostname"]) == list(first["hostname"])
    _agree(cells["min_rank"], first["rank"])
    _agree(cells["min_pid"], first["pid"])
    _agree(cells["second_min_exec_time_us"], second["coll_exec_time_us"])
    _agree(cells["second_min_rank"], second["rank"])
    times, size = ordered["coll_exec_time_us"], ordered.size()
    _agree(cells["wait_us"], times.sum() - times.min() * size)
    assert list(cells["complete"]) == list(size == first["n_ranks"])
    transfers = ordered["coll_busbw_gbs"].max().where(cells["complete"] & first.index.isin(SYNC, level="coll"))
    _agree(cells["transfer_busbw_gbs"].round(6), transfers)  # the plugin writes six decimals


def test_hot_kernels_agree(raw: pd.DataFrame, store: tuple[duckdb.DuckDBPyConnection, Settings]) -> None:
    kernels = _result(store, "hot_kernels").set_index(KERNEL).sort_index()
    groups = raw.groupby(KERNEL)
    bandwidth, times = groups["coll_busbw_gbs"], groups["coll_exec_time_us"]
    _agree(kernels["records"], groups.size())
    _agree(kernels["payload_bytes"], groups["coll_msg_size_bytes"].sum())
    _agree(kernels["rank_time_us"], times.sum())
    _agree(kernels["busbw_p10_gbs"], bandwidth.quantile(0.1))
    _agree(kernels["busbw_p90_gbs"], bandwidth.quantile(0.9))
    _agree(kernels["busbw_cv"], bandwidth.std(ddof=0) / bandwidth.mean())
    _agree(kernels["exec_time_p99_us"], times.quantile(0.99))
    _agree(kernels["communicators"], groups["id"].nunique())


def test_operations_and_hosts_agree(raw: pd.DataFrame, store: tuple[duckdb.DuckDBPyConnection, Settings]) -> None:
    summary = _result(store, "summary_histogram").groupby(["kind", "coll"])
    _agree(summary["records"].sum(), raw.groupby(["kind", "coll"]).size())
    _agree(summary["exec_time_us"].sum(), raw.groupby(["kind", "coll"])["coll_exec_time_us"].sum())
    place = ["hostname", "pid", "coll", "coll_type"]
    spatial = _result(store, "spatial_correlation")
    processes = spatial[spatial["level"] == "process"].set_index(place).sort_index()
    placed = raw.assign(
        coll_type=np.select([raw.nnodes == 1, raw.n_ranks == raw.nnodes], ["nvlink-only", "nic-only"], "mixed")
    )
    large = placed["coll_busbw_gbs"].where(placed["coll_msg_size_bytes"] >= 1_000_000)
    _agree(processes["busbw_p50_gbs"], large.groupby([placed[name] for name in place]).median())


def test_coverage_agrees(raw: pd.DataFrame, store: tuple[duckdb.DuckDBPyConnection, Settings]) -> None:
    coverage = _result(store, "coverage").set_index(["id", "coll"]).sort_index()
    groups = raw[raw["kind"] == "collective"].groupby(["id", "coll"])
    span = groups["coll_sn"].max() - groups["coll_sn"].min() + 1
    _agree(coverage["sn_seen"], groups["coll_sn"].nunique())
    _agree(coverage["capture_rate"], groups.size() / (groups["n_ranks"].first() * span))


def test_distributions_agree(raw: pd.DataFrame, store: tuple[duckdb.DuckDBPyConnection, Settings]) -> None:
    curves = _result(store, "bandwidth_ecdf")
    curves = curves[curves["measure"] == "busbw_gbs"]
    for key, curve in curves.groupby(KERNEL):
        values = raw.groupby(KERNEL).get_group(key)["coll_busbw_gbs"]
        _agree(curve["value"], np.quantile(values, np.arange(101) / 100))
    assert curves["rank_by_bytes"].nunique() >= 3
