"""Rules for the fleet: everything in the store is analysed, and listed in the overview."""

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape

import pyarrow as pa

from nixt_pipeline.fleet.catalog import RUN_CATALOG
from nixt_pipeline.quality.verdicts import Rule, Verdict
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.manifest import published_runs
from nixt_pipeline.store.reading import read_table

ALL_ANALYSED = Rule(
    "every_run_is_analysed",
    "A run in the store without results: its analysis failed, or has not run yet. Materialise it with the job "
    "`analyse_run`.",
)
NO_DATA_SHARED = Rule(
    "no_directory_is_ingested_twice",
    "Two runs from one directory are one run under two names; fleet figures count it twice.",
)
CATALOG_RULES = (ALL_ANALYSED, NO_DATA_SHARED)

ALL_LISTED = Rule(
    "the_overview_lists_every_run",
    "Every published run is on the page, and every report it links to exists.",
)
INDEX_RULES = (ALL_LISTED,)

RUNS_JUDGED_ONCE = Rule(
    "every_run_is_judged_once",
    "A run that is listed twice, or in no workload, is a baseline twice or compared with the wrong runs.",
)
BASELINE_RULES = (RUNS_JUDGED_ONCE,)

NONE_SLOWER = Rule(
    "the_latest_runs_are_as_fast_as_before",
    "The latest run of a workload is slower than the runs before it. Open its comparison to see what changed between "
    "them.",
)
COMPARISON_RULES = (NONE_SLOWER,)

NO_SUSPECTS = Rule(
    "no_host_is_named_again_and_again",
    "Findings flag a host in more runs than chance would explain, and in a recent one. Drain and test it.",
)
HOST_RULES = (NO_SUSPECTS,)

CAPTURED_TO_SCALE = Rule(
    "volumes_may_be_compared_across_sizes",
    "If records are missing, the bytes of a job size are those of a sample; configure the plugin to record more.",
)
SCALING_RULES = (CAPTURED_TO_SCALE,)

BENCHMARKS_READABLE = Rule(
    "every_benchmark_file_is_readable",
    "A file in the nccl-tests directory cannot be read as a benchmark. Correct or remove it.",
)
BENCHMARK_RULES = (BENCHMARKS_READABLE,)

NOTHING_STUCK = Rule(
    "no_run_is_kept_by_an_unfinished_ingest",
    "A run whose directory changed, but was not ingested again, keeps its events beyond the limits. Ingest it.",
)
RETENTION_RULES = (NOTHING_STUCK,)


def judge_catalog(settings: Settings) -> Iterator[Verdict]:
    """Apply `CATALOG_RULES` to the run catalog."""
    rows = read_table(RUN_CATALOG.path(settings)).to_pylist()
    waiting = [{"run": row["run"]} for row in rows if not row["analysed"]]
    yield ALL_ANALYSED.unless(waiting, f"{len(waiting)} of {len(rows)} runs have no results", runs=len(waiting))
    by_directory: dict[str, list[str]] = {}
    for row in rows:
        by_directory.setdefault(row["source_dir"], []).append(row["run"])
    shared = [{"directory": place, "runs": ", ".join(runs)} for place, runs in by_directory.items() if len(runs) > 1]
    summary = f"{len(shared)} directories were ingested under several names"
    yield NO_DATA_SHARED.unless(shared, summary, directories=len(shared))


def judge_index(settings: Settings) -> Iterator[Verdict]:
    """Apply `INDEX_RULES` to the overview page."""
    page = (settings.reports_dir / "index.html").read_text(encoding="utf-8")
    published = published_runs(settings)
    absent = [run for run in published if escape(run) not in page]
    unreported = [run for run in published if not (layout.report_dir(run, settings) / "index.html").exists()]
    yield ALL_LISTED.unless(
        [{"run": run} for run in (*absent, *unreported)],
        f"{len(absent)} of {len(published)} runs are missing from the page, {len(unreported)} have no report",
        runs_missing=len(absent),
        reports_missing=len(unreported),
    )


def judge_baselines(table: pa.Table) -> Iterator[Verdict]:
    """Apply `BASELINE_RULES` to the table of baselines."""
    runs = table["run"].to_pylist()
    twice = [{"run": run} for run, times in sorted(Counter(runs).items()) if times > 1]
    fit = sum(table["fit"].to_pylist())
    summary = f"{fit} of {len(runs)} runs are baselines of {len(set(table['workload'].to_pylist()))} workloads"
    yield RUNS_JUDGED_ONCE.unless(twice, summary, runs=len(runs), fit=fit)


def judge_comparisons(table: pa.Table) -> Iterator[Verdict]:
    """Apply `COMPARISON_RULES` to the table of comparisons, which is in the order of the runs' ids."""
    latest = {row["workload"]: row for row in table.sort_by("first_dump_us").to_pylist() if row["verdict"]}
    slower = [row for row in latest.values() if row["verdict"] == "regressed"]
    elsewhere = sum(row["verdict"] == "slower-other-hosts" for row in latest.values())
    yield NONE_SLOWER.unless(
        [{"run": row["run"], "reason": row["reason"]} for row in slower],
        f"{len(slower)} of {len(latest)} workloads became slower with their latest run, {elsewhere} on other hosts",
        workloads=len(latest),
        slower=len(slower),
        slower_on_other_hosts=elsewhere,
    )


def judge_host_health(table: pa.Table) -> Iterator[Verdict]:
    """Apply `HOST_RULES` to the table of hosts."""
    shown = ("hostname", "named", "runs", "lost_rank_seconds", "last_named_run")
    suspects = [{name: row[name] for name in shown} for row in table.to_pylist() if row["suspect"]]
    unknown = table.num_rows - table["caution"].null_count
    yield NO_SUSPECTS.unless(
        suspects,
        f"{len(suspects)} of {table.num_rows} hosts are flagged more often than chance would explain; {unknown} names "
        "are not machines and not judged",
        hosts=table.num_rows,
        suspects=len(suspects),
        no_machines=unknown,
    )


def judge_retention(table: pa.Table) -> Iterator[Verdict]:
    """Apply `RETENTION_RULES` to the table of what became of each run's events."""
    rows = table.to_pylist()
    failed = [{"run": row["run"], "reason": row["reason"]} for row in rows if row["action"] == "failed"]
    summary = f"{len(failed)} of {len(rows)} runs with events could not be handled"
    yield NOTHING_STUCK.unless(failed, summary, failed=len(failed))


def judge_scaling(totals: pa.Table) -> Iterator[Verdict]:
    """Apply `SCALING_RULES` to the totals of scaling."""
    withheld = {row["model"]: row["volume_note"] for row in totals.to_pylist() if row["volume_note"]}
    models = len(set(totals["model"].to_pylist()))
    rows = [{"model": model, "note": note} for model, note in withheld.items()]
    summary = f"volumes of {len(withheld)} of {models} models are withheld"
    yield CAPTURED_TO_SCALE.unless(rows, summary, models=models, withheld=len(withheld))


def judge_benchmarks(problems: Sequence[str]) -> Iterator[Verdict]:
    """Apply `BENCHMARK_RULES`, given what was wrong with files."""
    rows = [{"problem": problem} for problem in problems]
    yield BENCHMARKS_READABLE.unless(rows, f"{len(problems)} files could not be read", files=len(problems))
