from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from nixt_pipeline.fleet.against import COMPARISONS
from nixt_pipeline.fleet.baselines import BASELINES
from nixt_pipeline.fleet.catalog import RUN_CATALOG
from nixt_pipeline.fleet.hosts import HOST_HEALTH
from nixt_pipeline.fleet.scaling import SCALING_TOTALS
from nixt_pipeline.inspector.taxonomy import Column, schema
from nixt_pipeline.quality.fleet import (
    judge_baselines,
    judge_benchmarks,
    judge_catalog,
    judge_comparisons,
    judge_host_health,
    judge_index,
    judge_retention,
    judge_scaling,
)
from nixt_pipeline.quality.verdicts import Verdict
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.files import write_table, write_text
from nixt_pipeline.store.manifest import write_manifest
from nixt_pipeline_tests.quality.examples import MANIFEST

RUN: dict[str, Any] = {
    "run": "job",
    "source_dir": "/logs/job",
    "ingested_at": "2026-01-01T00:00:00+00:00",
    "incarnations": 1,
    "baseline": False,
    "gpus": 1,
    "hosts": 1,
    "processes": 1,
    "communicators": 1,
    "records": 1,
    "bytes_read": 1,
    "rejected_lines": 0,
    "analysed": True,
    "state": "s",
}


BLANKS: dict[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0, "double": 0.0}


def rows_of(columns: tuple[Column, ...], *rows: dict[str, Any]) -> pa.Table:
    """A table with the given values, and something where nothing is not allowed."""
    blank = {column.name: None if column.nullable else BLANKS[str(column.type)] for column in columns}
    return pa.Table.from_pylist([blank | row for row in rows], schema=schema(columns))


def told(verdicts: Iterator[Verdict]) -> tuple[bool, str, list[dict[str, Any]]]:
    """Whether the only rule passed, its sentence and its rows."""
    (verdict,) = verdicts
    return verdict.passed, verdict.summary, [dict(row) for row in verdict.rows]


def failing_catalog(settings: Settings, *rows: dict[str, Any]) -> set[str]:
    write_table(pa.Table.from_pylist(list(rows), schema=schema(RUN_CATALOG.columns)), RUN_CATALOG.path(settings))
    return {verdict.rule for verdict in judge_catalog(settings) if not verdict.passed}


def failing_index(settings: Settings, page: str) -> set[str]:
    write_text(page, settings.reports_dir / "index.html")
    return {verdict.rule for verdict in judge_index(settings) if not verdict.passed}


def test_a_sound_catalog_passes(settings: Settings) -> None:
    assert failing_catalog(settings, RUN, RUN | {"run": "other", "source_dir": "/logs/other"}) == set()


def test_a_run_without_results_is_found(settings: Settings) -> None:
    assert failing_catalog(settings, RUN | {"analysed": False}) == {"every_run_is_analysed"}


def test_one_directory_under_two_names_is_found(settings: Settings) -> None:
    assert failing_catalog(settings, RUN, RUN | {"run": "copy"}) == {"no_directory_is_ingested_twice"}


def test_an_overview_with_every_run_and_its_report_passes(settings: Settings) -> None:
    write_manifest(MANIFEST, settings)
    write_text("", layout.report_dir("job", settings) / "index.html")
    assert failing_index(settings, "<td>job</td>") == set()


def test_a_run_missing_from_the_overview_is_found(settings: Settings) -> None:
    write_manifest(MANIFEST, settings)
    write_text("", layout.report_dir("job", settings) / "index.html")
    assert failing_index(settings, "<td></td>") == {"the_overview_lists_every_run"}


def test_a_run_without_a_report_is_found(settings: Settings) -> None:
    write_manifest(MANIFEST, settings)
    assert failing_index(settings, "<td>job</td>") == {"the_overview_lists_every_run"}


def test_a_run_that_is_judged_twice_is_found() -> None:
    a, b = ({"run": run, "workload": "w", "fit": run == "a"} for run in "ab")
    assert told(judge_baselines(rows_of(BASELINES.columns, a, b))) == (
        True,
        "1 of 2 runs are baselines of 1 workloads",
        [],
    )
    passed, _, rows = told(judge_baselines(rows_of(BASELINES.columns, a, b, a)))
    assert (passed, rows) == (False, [{"run": "a"}])


def test_only_the_latest_run_of_each_workload_is_asked_whether_it_is_slower() -> None:
    def compared(run: str, workload: str, began_us: int, verdict: str | None) -> dict[str, Any]:
        return {"run": run, "workload": workload, "first_dump_us": began_us, "verdict": verdict, "reason": f"of {run}"}

    before = compared("a", "v", 1, "regressed"), compared("c", "w", 1, "equivalent"), compared("e", "x", 9, None)
    sound = rows_of(COMPARISONS.columns, *before, compared("b", "v", 2, "equivalent"))
    assert told(judge_comparisons(sound))[0]
    slower = compared("b", "v", 2, "regressed"), compared("d", "w", 2, "slower-other-hosts")
    assert told(judge_comparisons(rows_of(COMPARISONS.columns, *before, *slower))) == (
        False,
        "1 of 2 workloads became slower with their latest run, 1 on other hosts",
        [{"run": "b", "reason": "of b"}],
    )


def test_a_suspect_is_named_with_what_it_cost_and_a_pod_is_none() -> None:
    host = {
        "hostname": "gpu-1",
        "suspect": True,
        "named": 3,
        "runs": 4,
        "lost_rank_seconds": 60.0,
        "last_named_run": "r",
    }
    pod = host | {"hostname": "trainer-0", "suspect": False, "caution": "a pod"}
    assert told(judge_host_health(rows_of(HOST_HEALTH.columns, pod)))[0]
    passed, summary, rows = told(judge_host_health(rows_of(HOST_HEALTH.columns, host, pod)))
    assert (passed, rows) == (False, [{name: host[name] for name in host if name != "suspect"}])
    assert summary == (
        "1 of 2 hosts are flagged more often than chance would explain; 1 names are not machines and not judged"
    )


def test_a_run_that_cannot_be_retained_is_named() -> None:
    rows = pa.Table.from_pylist(
        [{"run": "a", "action": "kept", "reason": ""}, {"run": "b", "action": "failed", "reason": "x"}]
    )
    assert told(judge_retention(rows)) == (
        False, "1 of 2 runs with events could not be handled", [{"run": "b", "reason": "x"}]
    )  # fmt: skip
    assert told(judge_retention(rows.slice(0, 1)))[0]


def test_a_model_whose_volumes_are_withheld_is_named() -> None:
    rows = [{"model": "7B", "volume_note": "withheld"}, {"model": "7B", "volume_note": "withheld"}, {"model": "70B"}]
    assert told(judge_scaling(rows_of(SCALING_TOTALS.columns, *rows))) == (
        False, "volumes of 1 of 2 models are withheld", [{"model": "7B", "note": "withheld"}]
    )  # fmt: skip
    assert told(judge_scaling(rows_of(SCALING_TOTALS.columns, rows[2])))[0]


def test_an_unreadable_benchmark_is_named() -> None:
    assert told(judge_benchmarks(["a.txt: no table"])) == (
        False, "1 files could not be read", [{"problem": "a.txt: no table"}]
    )  # fmt: skip
    assert told(judge_benchmarks([]))[0]
