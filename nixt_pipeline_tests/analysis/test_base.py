"""The contract of an analysis: parameters, columns, exact quantiles, passes, stored results."""

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nixt_pipeline.analysis import ANALYSES, Analysis, analysis_named, base, compute, materialise
from nixt_pipeline.inspector.operations import format_bytes
from nixt_pipeline.inspector.taxonomy import RUN, schema
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.catalog import connect
from nixt_pipeline_tests.analysis.conftest import StoredRun, StoreRun, event

# Two ranks on two hosts, three collectives and one P2P record: something for every analysis.
EVENTS = [
    event(rank=rank, coll_sn=sn, coll_exec_time_us=100.0 + 10 * rank + sn, hostname=f"gpu-{rank}", nnodes=2)
    for rank in range(2)
    for sn in range(3)
] + [event(kind="p2p", coll="Send", p2p_peer=1, coll_sn=1, nnodes=2, hostname="gpu-0")]


def test_an_analysis_is_found_by_its_name() -> None:
    assert analysis_named("hot_kernels").name == "hot_kernels"


def test_an_unknown_name_is_answered_with_the_names_there_are() -> None:
    with pytest.raises(KeyError, match=r"no analysis named 'hot'.*summary_histogram.*coverage"):
        analysis_named("hot")


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda analysis: analysis.name)
def test_every_analysis_describes_itself(analysis: Analysis) -> None:
    assert analysis.columns[0] == RUN
    assert analysis.question.endswith("?")
    assert analysis.title
    assert analysis.reading.endswith(".")
    assert all(column.meaning for column in analysis.columns)


def results(run: StoredRun) -> dict[str, pa.Table]:
    """Every analysis of the run by name."""
    return {analysis.name: compute(analysis, run.con, run.settings) for analysis in ANALYSES}


def test_every_analysis_of_an_empty_run_is_an_empty_table_with_its_schema(store_run: StoreRun) -> None:
    for name, table in results(store_run([])).items():
        assert table.num_rows == 0, name
        assert table.schema.equals(schema(analysis_named(name).columns), check_metadata=True), name


def test_every_analysis_works_without_any_collective(store_run: StoreRun) -> None:
    empty = [name for name, table in results(store_run([EVENTS[-1]])).items() if table.num_rows == 0]
    # Who waits for whom, and the gaps in sequence numbers, are known of collectives only.
    of_hosts = ["waiting_over_time", "waiting_by_progress", "host_lateness", "rank_times"]
    assert empty == [*of_hosts, "variation", "coverage"]


def test_the_order_of_the_records_does_not_change_a_result(store_run: StoreRun) -> None:
    expected = results(store_run(EVENTS))
    shuffled = random.Random(1).sample(EVENTS, len(EVENTS))
    for name, table in results(store_run(shuffled)).items():
        assert table.equals(expected[name]), name


def test_several_passes_give_the_result_of_one(store_run: StoreRun, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = results(store_run(EVENTS))
    monkeypatch.setattr(base, "RECORDS_PER_PASS", 2)
    for name, table in results(store_run(EVENTS)).items():
        assert table.equals(expected[name]), name


def test_the_number_of_passes_is_rounded_up(store_run: StoreRun) -> None:
    run = store_run(EVENTS)  # 7 records
    assert base.number_of_passes(run.con) == 1
    assert base.number_of_passes(run.con, 3) == 3


def test_a_materialised_result_is_a_view_of_the_run_and_a_parquet_file_with_meanings(store_run: StoreRun) -> None:
    run = store_run(EVENTS)
    materialise(analysis_named("coverage"), "job", run.settings)
    table = compute(analysis_named("coverage"), run.con, run.settings)
    stored = pq.read_table(layout.results_path("coverage", "job", run.settings), partitioning=None)
    assert stored.equals(table)
    assert stored.schema.field("capture_rate").equals(table.schema.field("capture_rate"), check_metadata=True)
    reopened = store_run(EVENTS)
    assert reopened.sql("SELECT run, sn_seen FROM coverage") == [("job", 3)]


def test_materialising_twice_writes_the_same_bytes(store_run: StoreRun) -> None:
    run = store_run(EVENTS)
    path = layout.results_path("hot_kernels", "job", run.settings)
    materialise(analysis_named("hot_kernels"), "job", run.settings)
    first = path.read_bytes()
    materialise(analysis_named("hot_kernels"), "job", run.settings)
    assert path.read_bytes() == first


def test_a_parameter_can_be_replaced_by_name(store_run: StoreRun) -> None:
    run = store_run(EVENTS)
    table = compute(analysis_named("temporal_correlation"), run.con, run.settings, large_message_bytes=2_000_000)
    assert set(table["min_message_bytes"].to_pylist()) == {0}  # nothing is that large, so every message counts


def test_an_unknown_parameter_is_answered_with_the_known_ones(store_run: StoreRun) -> None:
    run = store_run([])
    with pytest.raises(ValueError, match=r"no parameter colour; it has: bins, implausible, large_message_bytes"):
        compute(analysis_named("temporal_correlation"), run.con, run.settings, colour="red")


def test_sql_that_does_not_give_the_declared_columns_is_an_error(store_run: StoreRun) -> None:
    run = store_run([])
    wrong = replace(analysis_named("coverage"), sql="SELECT 'job' AS run")
    with pytest.raises(ValueError, match=r"the SQL of coverage gives columns \['run'\]"):
        compute(wrong, run.con, run.settings)


@pytest.mark.parametrize("q", [0.0, 0.1, 0.25, 0.5, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("values", [[3.0], [1.0, 2.0], [1.0, 1.0, 1.0, 5.0], [4.0, 1.0, 3.0, 3.0, 2.0, 8.0, 8.0]])
def test_a_quantile_of_counts_is_numpys_quantile_of_the_values(
    q: float, values: list[float], settings: Settings
) -> None:
    with base.prepare(connect(settings)) as con:
        con.register("samples", pa.table({"value": [*values, None]}))  # a missing value does not count
        rows = con.sql(
            """
            WITH counts AS (SELECT value, count(*) AS n FROM samples GROUP BY value),
            ranked AS (
                SELECT
                    value,
                    sum(n) OVER (ORDER BY value NULLS LAST) AS upto,
                    sum(n) FILTER (WHERE value IS NOT NULL) OVER () AS total
                FROM counts
            )
            SELECT quantile_of_counts(value, upto, total, $q) FROM ranked
            """,
            params={"q": q},
        ).fetchall()
    assert rows[0][0] == pytest.approx(np.quantile(values, q))


@pytest.mark.parametrize("size_bytes", [0, 4, 672, 1000, 1024, 13_492_224, 999_499, 2_097_152, 48 * 10**9, 3 * 10**12])
def test_a_size_in_sql_reads_like_a_size_in_python(size_bytes: int, settings: Settings) -> None:
    with base.prepare(connect(settings)) as con:
        [(text,)] = con.sql("SELECT message_size($size_bytes)", params={"size_bytes": size_bytes}).fetchall()
    assert text == format_bytes(size_bytes)
