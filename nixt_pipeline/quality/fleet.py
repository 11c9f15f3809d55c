"""Rules for the fleet: everything in the store is analysed, and listed in the overview."""

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

_SHOWN = 12


def judge_catalog(settings: Settings) -> Iterator[Verdict]:
    """Apply `CATALOG_RULES` to the run catalog."""
    rows = read_table(RUN_CATALOG.path(settings)).to_pylist()
    waiting = [row["run"] for row in rows if not row["analysed"]]
    yield Verdict(
        ALL_ANALYSED.name,
        not waiting,
        f"{len(waiting)} of {len(rows)} runs have no results",
        {"runs": len(waiting)},
        tuple({"run": run} for run in waiting[:_SHOWN]),
    )
    by_directory: dict[str, list[str]] = {}
    for row in rows:
        by_directory.setdefault(row["source_dir"], []).append(row["run"])
    shared = {directory: runs for directory, runs in by_directory.items() if len(runs) > 1}
    yield Verdict(
        NO_DATA_SHARED.name,
        not shared,
        f"{len(shared)} directories were ingested under several names",
        {"directories": len(shared)},
        tuple({"directory": directory, "runs": ", ".join(runs)} for directory, runs in list(shared.items())[:_SHOWN]),
    )


def judge_index(settings: Settings) -> Iterator[Verdict]:
    """Apply `INDEX_RULES` to the overview page."""
    page = (settings.reports_dir / "index.html").read_text(encoding="utf-8")
    published = published_runs(settings)
    absent = [run for run in published if escape(run) not in page]
    unreported = [run for run in published if not (layout.report_dir(settings, run) / "index.html").exists()]
    yield Verdict(
        ALL_LISTED.name,
        not absent and not unreported,
        f"{len(absent)} of {len(published)} runs are missing from the page, {len(unreported)} have no report",
        {"runs_missing": len(absent), "reports_missing": len(unreported)},
        tuple({"run": run} for run in [*absent, *unreported][:_SHOWN]),
    )


def judge_baselines(table: pa.Table) -> Iterator[Verdict]:
    """Apply `BASELINE_RULES` to the table of baselines."""
    runs = table["run"].to_pylist()
    twice = sorted({run for run in runs if runs.count(run) > 1}) if len(set(runs)) < len(runs) else []
    fit = sum(table["fit"].to_pylist())
    yield Verdict(
        RUNS_JUDGED_ONCE.name,
        not twice,
        f"{fit} of {len(runs)} runs are baselines of {len(set(table['workload'].to_pylist()))} workloads",
        {"runs": len(runs), "fit": fit},
        tuple({"run": run} for run in twice[:_SHOWN]),
    )


def judge_comparisons(table: pa.Table) -> Iterator[Verdict]:
    """Apply `COMPARISON_RULES` to the table of comparisons, which is in the order of the runs' ids."""
    latest = {row["workload"]: row for row in table.sort_by("first_dump_us").to_pylist() if row["verdict"]}
    slower = [row for row in latest.values() if row["verdict"] == "regressed"]
    elsewhere = sum(row["verdict"] == "slower-other-hosts" for row in latest.values())
    yield Verdict(
        NONE_SLOWER.name,
        not slower,
        f"{len(slower)} of {len(latest)} workloads became slower with their latest run, {elsewhere} on other hosts",
        {"workloads": len(latest), "slower": len(slower), "slower_on_other_hosts": elsewhere},
        tuple({"run": row["run"], "reason": row["reason"]} for row in slower[:_SHOWN]),
    )


def judge_host_health(table: pa.Table) -> Iterator[Verdict]:
    """Apply `HOST_RULES` to the table of hosts."""
    suspects = [row for row in table.to_pylist() if row["suspect"]]
    unknown = table.num_rows - table["caution"].null_count
    shown = ("hostname", "named", "runs", "lost_rank_seconds", "last_named_run")
    yield Verdict(
        NO_SUSPECTS.name,
        not suspects,
        f"{len(suspects)} of {table.num_rows} hosts are flagged more often than chance would explain; {unknown} names "
        "are not machines and not judged",
        {"hosts": table.num_rows, "suspects": len(suspects), "no_machines": unknown},
        tuple({name: row[name] for name in shown} for row in suspects[:_SHOWN]),
    )


def judge_retention(table: pa.Table) -> Iterator[Verdict]:
    """Apply `RETENTION_RULES` to the table of what became of each run's events."""
    failed = [row for row in table.to_pylist() if row["action"] == "failed"]
    yield Verdict(
        NOTHING_STUCK.name,
        not failed,
        f"{len(failed)} of {table.num_rows} runs with events could not be handled",
        {"failed": len(failed)},
        tuple({"run": row["run"], "reason": row["reason"]} for row in failed[:_SHOWN]),
    )


def judge_scaling(totals: pa.Table) -> Iterator[Verdict]:
    """Apply `SCALING_RULES` to the totals of scaling."""
    withheld = {row["model"]: row["volume_note"] for row in totals.to_pylist() if row["volume_note"]}
    models = set(totals["model"].to_pylist())
    yield Verdict(
        CAPTURED_TO_SCALE.name,
        not withheld,
        f"volumes of {len(withheld)} of {len(models)} models are withheld",
        {"models": len(models), "withheld": len(withheld)},
        tuple({"model": model, "note": note} for model, note in list(withheld.items())[:_SHOWN]),
    )


def judge_benchmarks(problems: Sequence[str]) -> Iterator[Verdict]:
    """Apply `BENCHMARK_RULES`, given what was wrong with files."""
    yield Verdict(
        BENCHMARKS_READABLE.name,
        not problems,
        f"{len(problems)} files could not be read",
        {"files": len(problems)},
        tuple({"problem": problem} for problem in problems[:_SHOWN]),
    )
