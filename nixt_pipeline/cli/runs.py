"""Commands for one run: ingest its logs, diagnose it, report on it, query it with SQL; and a synthetic job."""

import re
from pathlib import Path

import click
import duckdb

from nixt_pipeline import api
from nixt_pipeline.cli.output import InputError, format_option, input_errors, print_rows, say
from nixt_pipeline.cli.progress import progress
from nixt_pipeline.diagnosis.findings import SEVERITIES, Severity
from nixt_pipeline.diagnosis.wording.text import as_markdown, as_text
from nixt_pipeline.errors import EXIT_FINDINGS, StorageError
from nixt_pipeline.inert import json_text, visible, visible_lines
from nixt_pipeline.inspector.operations import format_bytes
from nixt_pipeline.inspector.runs import run_id
from nixt_pipeline.settings import Settings
from nixt_pipeline.simulation.demo import DEMO_JOBS, write_demo_job
from nixt_pipeline.store import catalog, unread
from nixt_pipeline.store.accounts import IngestSummary
from nixt_pipeline.store.fan_out import IngestError
from nixt_pipeline.store.files import explained
from nixt_pipeline.store.manifest import read_manifest

# Ignored files that are listed after an ingest.
_SHOWN_FILES = 10
DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)
AGAIN = click.option("--again", is_flag=True, help="Compute everything again, even what would come out the same.")


@click.command()
@click.argument("directory", type=DIRECTORY)
@click.option("--run", help="Name of the run  [default: the directory's name]")
@format_option("text", "json")
@click.pass_obj
def ingest(settings: Settings, directory: Path, run: str | None, output_format: str) -> None:
    """Validate and store the logs of one job. Files that have not changed since the last ingest are skipped."""
    _say_if_renamed(run)
    with input_errors():
        summary = ingest_directory(directory, run, settings)
        nothing = None if summary.records["stored"] else unread.no_records(summary.run, settings)
        left_alone = unread.set_aside(summary.run, settings)
    click.echo(json_text(summary.to_json()) if output_format == "json" else visible_lines(_describe(summary)))
    if nothing is not None:
        raise InputError(nothing)
    for line in left_alone[:_SHOWN_FILES]:
        say(line)
    if len(left_alone) > _SHOWN_FILES:
        say(f"and {len(left_alone) - _SHOWN_FILES:,} more; the table files lists them all")


@click.command()
@click.argument("directory", type=DIRECTORY)
@click.option(
    "--shard", "--share", required=True, metavar="I/N", help="Shard I of N, counted from 0, for example 3/16."
)
@click.option("--run", help="Name of the run  [default: the directory's name]")
@click.pass_obj
def decode(settings: Settings, directory: Path, shard: str, run: str | None) -> None:
    """Decode one shard of a very large run.

    Spreads the work over machines that share a file system. In a job array: nixt decode DIRECTORY --shard
    $SLURM_ARRAY_TASK_ID/16. Then nixt ingest DIRECTORY, which picks up the decoded shards and does the rest.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", shard)
    if not match or int(match[1]) >= int(match[2]):
        raise click.BadOptionUsage(
            "shard", f"--shard takes I/N with I from 0 to N - 1, for example 3/16, not {shard!r}"
        )
    _say_if_renamed(run)
    with input_errors():
        n_bytes = api.decode_share(directory, settings, int(match[1]), int(match[2]), run)
    click.echo(visible(f"shard {shard} of {directory}: decoded {format_bytes(n_bytes)} of logs"))


@click.command()
@click.argument("run_or_directory", metavar="RUN|DIRECTORY")
@format_option("html", "pdf", "markdown")
@click.option("--open", "open_browser", is_flag=True, help="Open the report in the default application.")
@AGAIN
@click.pass_obj
def report(
    settings: Settings, run_or_directory: str, output_format: api.ReportFormat, open_browser: bool, again: bool
) -> None:
    """Analyse a run and write its report.

    Prints the report's path. A dump directory is ingested first. html is the full report. pdf needs Chromium or
    Chrome. markdown is one page with the findings, for a ticket.
    """
    with input_errors():
        run = run_with_records(run_or_directory, settings)
        try:
            path = analyse_and_report(run, settings, output_format, again)
        except StorageError as error:
            if output_format != "markdown":
                raise
            say(f"{error}. Printing the report instead:")
            click.echo(api.markdown_report(run, settings))
            return
    click.echo(path)
    if open_browser:
        click.launch(str(path))


@click.command()
@click.argument("run_or_directory", metavar="RUN|DIRECTORY")
@format_option("text", "json", "markdown")
@click.option("--fail-on", type=click.Choice(SEVERITIES), help="Exit with 1 if a finding is at least this severe.")
@AGAIN
@click.pass_context
def diagnose(
    context: click.Context, run_or_directory: str, output_format: str, fail_on: Severity | None, again: bool
) -> None:
    """Find stragglers, slow links and hangs.

    Each finding has evidence and a severity. A dump directory is ingested first. "not assessable" means that too
    little was recorded to tell; it does not mean healthy.
    """
    settings: Settings = context.obj
    with input_errors():
        diagnosis = api.diagnose_run(run_with_records(run_or_directory, settings), settings, again)
    words = {"json": lambda d: json_text(d.to_json(), indent=1), "markdown": as_markdown, "text": as_text}
    click.echo(words[output_format](diagnosis))
    if fail_on and diagnosis.at_least(fail_on):
        context.exit(EXIT_FINDINGS)


@click.command()
@click.argument("query")
@click.option("--run", help="Query one run  [default: all runs]")
@format_option("text", "csv", "json")
@click.pass_obj
def sql(settings: Settings, query: str, run: str | None, output_format: str) -> None:
    """Query the store with SQL.

    For example: nixt sql "SELECT coll, count(*) FROM events GROUP BY coll"

    Tables: events, collectives, p2p, cells, kernel_times, communicators, processes, hosts, membership, files, rejects,
    channels, auxiliary, and one per analysis (hot_kernels, ...). Safe to run while other processes read or write the
    store.
    """
    with input_errors():
        con = catalog.open_run(run, settings) if run else catalog.open_store(settings)
        try:
            result = con.execute(query)
            names = [column[0] for column in result.description or []]
            print_rows(names, result.fetchall(), output_format)
        except (duckdb.ProgrammingError, duckdb.DataError) as error:
            raise InputError(str(error)) from error
        except duckdb.Error as error:
            raise InputError(f"{error}; run `nixt check` to find damaged files") from error


@click.command()
@click.option("--job", type=click.Choice(tuple(DEMO_JOBS)), default="straggler", show_default=True, help="Kind of job.")
@click.option("--seed", default=0, show_default=True, help="Seed of the simulation; the same seed gives the same logs.")
@click.pass_obj
def demo(settings: Settings, job: str, seed: int) -> None:
    """Simulate a job and report on it.

    Writes its logs to the landing directory, ingests them and writes the report. The job has 4 hosts with 8 GPUs
    each. The run is called nccl-inspector-demo-SEED, or nccl-inspector-demo-JOB-SEED unless the job is straggler.
    """
    suffix = f"{seed}" if job == "straggler" else f"{job}-{seed}"
    directory = settings.landing_dir / f"nccl-inspector-demo-{suffix}"
    with input_errors():
        marker = directory / settings.finished_markers[0]
        with explained(marker):
            written = write_demo_job(directory, seed=seed, **DEMO_JOBS[job])
            marker.touch()
        say(f"Wrote {written.records:,} records of {len(written.hosts)} hosts to {directory}")
        say(f"Planted fault: {written.fault or 'none'}")
        run = ingest_directory(directory, None, settings).run
        click.echo(analyse_and_report(run, settings))


def ingest_directory(directory: Path, run: str | None, settings: Settings) -> IngestSummary:
    """Ingest a dump directory and show progress. Raises `IngestError`."""
    with progress("Reading logs") as advance:
        return api.ingest_run(directory, settings, run, lambda done, total: advance(done, total, ""))


def run_with_records(run_or_directory: str, settings: Settings) -> str:
    """The run that an argument names. A dump directory is ingested first; if nothing can be written, its stored run is
    used. Raises `InputError` if there is neither, or if it has no records."""
    directory = Path(run_or_directory)
    if directory.is_dir():
        try:
            run = ingest_directory(directory, None, settings).run
        except IngestError:
            stored = api.stored_run(directory, settings)
            if stored is None:
                raise
            run = stored
    elif "/" in run_or_directory:
        raise InputError(f"no directory and no run of that name: {visible(run_or_directory)}")
    else:
        run = run_or_directory
    if not read_manifest(run, settings).records["stored"]:
        raise InputError(unread.no_records(run, settings))
    return run


def analyse_and_report(
    run: str, settings: Settings, output_format: api.ReportFormat = "html", again: bool = False
) -> Path:
    """Analyse an ingested run, show progress and write its report; returns the report's path."""
    with progress("Analysing") as advance:
        api.renew_analyses(run, settings, advance, again)
    return api.report_run(run, settings, output_format, again)


def _say_if_renamed(run: str | None) -> None:
    if run and run_id(run) != run:
        say(
            f"run {run} is stored as {run_id(run)}: a run's name is also that of a directory and consists of letters,"
            " digits, _, . and -"
        )


def _describe(summary: IngestSummary) -> str:
    records, files = summary.records, {name: count for name, count in summary.files.items() if count}
    lines = [
        f"run {summary.run}: {records['stored']:,} records"
        f" ({records['collective']:,} collectives, {records['p2p']:,} P2P)",
        "files: " + (", ".join(f"{count:,} {name}" for name, count in files.items()) or "none"),
        f"bytes: {format_bytes(summary.bytes['read'])} read,"
        f" {format_bytes(summary.bytes['stored'])} of them in stored records",
    ]
    odd = {
        "duplicate records": records["duplicate"],
        "rejected lines": summary.rejected_lines,
        "foreign lines": summary.foreign_lines,
        "records dropped by the plugin, by its own count": summary.dropped_by_plugin,
    }
    lines += [f"{count:,} {name}" for name, count in odd.items() if count]
    if summary.incarnations > 1:
        lines.append(f"the directory holds {summary.incarnations} launches, stored separately (column incarnation)")
    return "\n".join(lines)
