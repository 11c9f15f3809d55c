"""Commands for many runs: list them, compare them, find bad hosts, free space."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

from nixt_pipeline import api
from nixt_pipeline.cli.output import format_option, input_errors, print_rows, say
from nixt_pipeline.errors import EXIT_FINDINGS
from nixt_pipeline.fleet.baselines import current_baselines, update_baselines
from nixt_pipeline.fleet.catalog import RUN_CATALOG, catalog_rows
from nixt_pipeline.fleet.compare.comparison import FAIL_ON, Comparison
from nixt_pipeline.fleet.compare.robust_stats import Change
from nixt_pipeline.fleet.compare.wording import as_markdown, as_text
from nixt_pipeline.fleet.decisions import Decision, decide
from nixt_pipeline.fleet.hosts import current_host_health, is_named_too_often
from nixt_pipeline.fleet.retention_policy import apply_retention, plan_retention
from nixt_pipeline.fleet.selection import meets
from nixt_pipeline.inert import json_text, visible_lines
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import unread
from nixt_pipeline.store.first_record import not_taken_up
from nixt_pipeline.store.manifest import read_manifest

_SORTABLE = tuple(column.name for column in RUN_CATALOG.columns if column.name not in ("state", "tags", "host_names"))
_SHOWN = (
    "run", "name", "gpus", "hosts", "parallelism", "duration_s", "records", "capture_rate", "verdict", "worst_severity",
    "ingested_at",
)  # fmt: skip

_HOST_COLUMNS = (
    "hostname", "suspect", "named", "runs", "expected", "chance", "late", "slow", "stopped", "lost_rank_seconds",
    "lost_share", "trend", "last_named_run",
)  # fmt: skip


@click.command()
@click.option("--name", help="Only runs whose id or name contains this text.")
@click.option("--model", help="Only runs of this model (run.json).")
@click.option("--tag", help="Only runs with this tag (run.json).")
@click.option("--host", help="Only runs on this host.")
@click.option(
    "--verdict", type=click.Choice(["findings", "none-found", "not-assessable"]), help="Only runs with this verdict."
)
@click.option("--since", metavar="DATE", help="Only runs that started on or after DATE (UTC).")
@click.option("--before", metavar="DATE", help="Only runs that started before DATE (UTC).")
@click.option(
    "--sort",
    type=click.Choice(_SORTABLE),
    default="first_dump_us",
    metavar="COLUMN",
    show_default=True,
    help="Column of the run catalog to sort by.",
)
@click.option("--descending/--ascending", default=True, show_default=True)
@click.option("--limit", type=click.IntRange(1), help="Show at most this many runs.")
@format_option("text", "csv", "json")
@click.pass_obj
def runs(
    settings: Settings, /, output_format: str, sort: str, descending: bool, limit: int | None, **wanted: str | None
) -> None:
    """List the stored runs, newest first.

    text shows the most important columns; csv and json have all of them.
    """
    with input_errors():
        rows = [row for row in catalog_rows(settings) if meets(row, wanted)]
    known = sorted((row for row in rows if row[sort] is not None), key=lambda row: row[sort], reverse=descending)
    rows = (known + [row for row in rows if row[sort] is None])[:limit]
    if output_format == "text":
        print_rows([*_SHOWN], [tuple(_short(row)[name] for name in _SHOWN) for row in rows], output_format)
        with input_errors():
            _tell_what_holds_no_record(settings)
        return
    names = [column.name for column in RUN_CATALOG.columns if column.name != "state"]
    print_rows(names, [tuple(row[name] for name in names) for row in rows], output_format)


def _tell_what_holds_no_record(settings: Settings) -> None:
    known = {row["run"]: row["records"] for row in catalog_rows(settings)}
    if not known:
        say(f"There is no run in {settings.data_dir.absolute()}; NIXT_DATA_DIR or a nixt.toml selects another store.")
    for run in (run for run, records in known.items() if not records):
        say(f"{run}: {unread.first_words(read_manifest(run, settings))}")
    for name, reason in not_taken_up(known, settings).items():
        say(f"{name}: not processed: {reason}")


def _short(row: dict[str, Any]) -> dict[str, Any]:
    parallelism = row["parallelism"]
    if row["parallelism_source"] == "inferred":
        parallelism = f"{parallelism} (inferred)"
    rate = row["capture_rate"]
    return {
        **row,
        "parallelism": parallelism,
        "duration_s": None if row["duration_us"] is None else round(row["duration_us"] / 1e6, 1),
        "capture_rate": None if rate is None else float(f"{rate:.4g}"),
    }


def _page(comparison: Comparison, settings: Settings) -> str:
    from nixt_pipeline.reporting.comparison_page import render_comparison

    return str(render_comparison(comparison, settings))


_COMPARISON_FORMS: dict[str, Callable[[Comparison, Settings], str]] = {
    "text": lambda comparison, _: as_text(comparison),
    "json": lambda comparison, _: json_text(comparison.to_json(), indent=1),
    "markdown": lambda comparison, _: as_markdown(comparison),
    "html": _page,
}


@click.command()
@click.argument("runs", metavar="[A] B", nargs=-1, required=True)
@click.option("--baseline", metavar="TAG", help="Compare B with the runs that have this tag.")
@format_option("text", "json", "markdown", "html")
@click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    default="regressed",
    show_default=True,
    help="Exit with 1 at this verdict or a worse one (listed worst first).",
)
@click.pass_context
def compare(
    context: click.Context, runs: tuple[str, ...], baseline: str | None, output_format: str, fail_on: Change
) -> None:
    """Test whether B is slower than A, and by how much.

    A and B select runs: an id, a pattern ("nightly-*"), tag:T, model:M, host:H, since:DATE, before:DATE, or several
    of these separated by commas. Four or more runs per side can separate a change of 5 % from noise; one run per
    side can only raise a suspicion. Without A, B is compared with the baseline of its workload, or with an earlier
    run of the same workload. --format html writes a page and prints its path.

    "slower-other-hosts" is a separate verdict: it says how much of the slowdown the findings of B explain, and how to
    settle the rest.

    Exit codes: 0 not regressed, 1 regressed (see --fail-on), 2 a usage or input error.
    """
    settings: Settings = context.obj
    if len(runs) > 2 or (baseline and len(runs) != 1):
        raise click.UsageError("give A and B, or B alone, with or without --baseline TAG")
    with input_errors():
        a = f"tag:{baseline}" if baseline else (runs[0] if len(runs) == 2 else None)
        comparison = api.compare(a, runs[-1], settings)
        click.echo(_COMPARISON_FORMS[output_format](comparison, settings))
    if comparison.fails(fail_on):
        context.exit(EXIT_FINDINGS)


@click.command()
@click.option("--pin", metavar="RUN", help="Make RUN a baseline, whatever the rules say.")
@click.option("--reject", metavar="RUN", help="Never use RUN as a baseline.")
@click.option("--reset", metavar="RUN", help="Undo --pin or --reject: let the rules decide again.")
@click.option("--reason", default="", help="Why; stored with the decision.")
@format_option("text", "csv", "json")
@click.pass_obj
def baselines(
    settings: Settings, pin: str | None, reject: str | None, reset: str | None, reason: str, output_format: str
) -> None:
    """List, pin or reject baseline runs.

    Lists the runs that new ones are compared with, and why others are not used. A new run is compared automatically
    with the baseline of its workload.
    """
    given = [(run, kind) for run, kind in ((pin, "pinned"), (reject, "rejected"), (reset, None)) if run]
    if len(given) > 1:
        raise click.UsageError("give only one of --pin, --reject and --reset")
    with input_errors():
        for run, kind in given:
            read_manifest(run, settings)
            decide(run, Decision.model_validate({"decision": kind, "reason": reason}) if kind else None, settings)
        judge = update_baselines if given else current_baselines
        rows = judge(catalog_rows(settings), settings).to_pylist()
    names = ["run", "workload", "fit", "reason", "decision", "mode", "level", "established"]
    rows.sort(key=lambda row: (row["workload"], row["first_dump_us"] or 0))
    shown = [{**row, "level": row["level"] and round(row["level"], 3)} for row in rows]
    print_rows(names, [tuple(row[name] for name in names) for row in shown], output_format)


@click.command()
@click.option("--all", "all_hosts", is_flag=True, help="List all hosts, not only the suspects.")
@format_option("text", "csv", "json")
@click.pass_obj
def hosts(settings: Settings, all_hosts: bool, output_format: str) -> None:
    """List the hosts to drain.

    These are flagged in more runs than chance would explain, and recently. How many jobs a host ran in is taken
    into account. Hosts are sorted by the time they cost other ranks; csv and json have all columns. Names of pods
    and containers are not machines to drain: if flagged too often, they are listed with a caution.
    docs/comparison.md explains how to map them to nodes.
    """
    with input_errors():
        table = current_host_health(catalog_rows(settings), settings)
    rows = table.to_pylist()
    cautioned = [row for row in rows if row["caution"] and is_named_too_often(row, settings.thresholds)]
    shown = [row for row in rows if all_hosts or row["suspect"] or row in cautioned]
    names = [*_HOST_COLUMNS] if output_format == "text" else table.column_names
    rounded = [{name: float(f"{v:.3g}") if isinstance(v, float) else v for name, v in row.items()} for row in shown]
    print_rows(names, [tuple(row[name] for name in names) for row in rounded], output_format)
    if output_format == "text":
        for row in cautioned:
            click.echo(
                visible_lines(
                    f"caution: {row['hostname']} is flagged in {row['named']} of {row['runs']} runs, but is not a"
                    f" machine to drain: {row['caution']}. Map it to its nodes in run.json (host_nodes), or set "
                    "NIXT_HOSTS_ARE_MACHINES=yes."
                )
            )


@click.command()
@click.option("--apply/--dry-run", "confirmed", default=False, show_default=True, help="Drop events, or list them.")
@click.option("--days", type=click.FloatRange(0), help="Overrides NIXT_RETENTION_DAYS.")
@click.option("--bytes", "size", type=click.IntRange(0), help="Overrides NIXT_RETENTION_BYTES.")
@format_option("text", "csv", "json")
@click.pass_obj
def retention(settings: Settings, confirmed: bool, days: float | None, size: int | None, output_format: str) -> None:
    """List or drop the raw events of old runs.

    Lists the runs whose raw events the retention policy would drop; with --apply, drops them. Results, reports and
    the logs themselves are never removed: such runs remain in `nixt runs` and can be compared. Baselines and runs
    with a P0 or P1 finding keep their events (NIXT_RETENTION_KEEP).
    """
    given = {"retention_days": days, "retention_bytes": size}
    settings = settings.model_copy(update={name: limit for name, limit in given.items() if limit is not None})
    now = datetime.now(UTC)
    with input_errors():
        steps = plan_retention(now, settings)
        steps = apply_retention(steps, now, settings) if confirmed else steps
    print_rows(
        ["run", "action", "event_bytes", "reason"],
        [(s.run, s.action, s.event_bytes, s.reason) for s in steps],
        output_format,
    )
