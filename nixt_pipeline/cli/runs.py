"""Commands about one run: ingest its logs, diagnose it, report on it, ask it with SQL; and a synthetic one."""

import re
from pathlib import Path

import click
import duckdb

from nixt_pipeline import api
from nixt_pipeline.cli.output import InputError, format_option, input_errors, print_rows, say
from nixt_pipeline.cli.progress import progress
from nixt_pipeline.diagnosis.findings import SEVERITIES, Severity
from nixt_pipeline.diagnosis.text import as_markdown, as_text
from nixt_pipeline.errors import StorageError
from nixt_pipeline.inert import json_text, visible, visible_lines
from nixt_pipeline.inspector.operations import format_bytes
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog, unread
from nixt_pipeline.store.accounts import IngestSummary
from nixt_pipeline.store.fan_out import IngestError
from nixt_pipeline.store.files import explained
from nixt_pipeline.store.manifest import read_manifest

# Files that were left alone and are named after an ingest.
_SHOWN_FILES = 10
DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.argument("directory", type=DIRECTORY)
@click.option("--run", help="Name of the run; by default the directory's name.")
@format_option("text", "json")
@click.pass_obj
def ingest(settings: Settings, directory: Path, run: str | None, output_format: str) -> None:
    """Read the dump directory of one job into the store. Unchanged files are not read again."""
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
        say(f"and {len(left_alone) - _SHOWN_FILES:,} more, in the table files")


@click.command()
@click.argument("directory", type=DIRECTORY)
@click.option("--share", required=True, metavar="I/N", help="Which of N shares, counted from 0, for example 3/16.")
@click.option("--run", help="Name of the run; by default the directory's name.")
@click.pass_obj
def decode(settings: Settings, directory: Path, share: str, run: str | None) -> None:
    """Decode one share of a run's logs, where many machines see the same directories.

    In a job array: nixt decode DIRECTORY --share $SLURM_ARRAY_TASK_ID/16; then nixt ingest DIRECTORY, which takes what
    has been decoded and does the rest.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", share)
    if not match or int(match[1]) >= int(match[2]):
        raise click.BadOptionUsage("share", f"--share is I/N with I from 0 to N - 1, for example 3/16; not {share!r}")
    with input_errors():
        n_bytes = api.decode_share(directory, settings, int(match[1]), int(match[2]), run)
    click.echo(visible(f"share {share} of {directory}: {format_bytes(n_bytes)} of logs are decoded"))


@click.command()
@click.argument("run_or_directory", metavar="RUN|DIRECTORY")
@format_option("html", "pdf", "markdown")
@click.option(
    "--open", "open_browser", is_flag=True, help="Open the report in the browser, or whatever opens its kind."
)
@click.pass_obj
def report(settings: Settings, run_or_directory: str, output_format: api.ReportFormat, open_browser: bool) -> None:
    """Analyse a run and write its HTML report; a dump directory is ingested first. Prints the report's path.

    A PDF is printed by Chromium or Chrome; md is a page of Markdown with the findings, for a ticket.
    """
    with input_errors():
        run = run_with_records(run_or_directory, settings)
        try:
            path = analyse_and_report(run, settings, output_format)
        except StorageError as error:
            if output_format != "markdown":
                raise
            say(f"{error}. Here is the report instead:")
            click.echo(api.markdown_report(run, settings))
            return
    click.echo(path)
    if open_browser:
        click.launch(str(path))


@click.command()
@click.argument("run_or_directory", metavar="RUN|DIRECTORY")
@format_option("text", "json", "markdown")
@click.option("--fail-on", type=click.Choice(SEVERITIES), help="Exit with 1 when a finding is at least this urgent.")
@click.pass_context
def diagnose(context: click.Context, run_or_directory: str, output_format: str, fail_on: Severity | None) -> None:
    """Say who was late, whose transfers were slow, who hung, and how sure that is.

    A dump directory is ingested first. "Nothing found" and "not assessable" are different answers.
    """
    settings: Settings = context.obj
    with input_errors():
        diagnosis = api.diagnose_run(run_with_records(run_or_directory, settings), settings)
    words = {"json": lambda d: json_text(d.to_json(), indent=1), "markdown": as_markdown, "text": as_text}
    click.echo(words[output_format](diagnosis))
    if fail_on and diagnosis.at_least(fail_on):
        context.exit(1)


@click.command()
@click.argument("query")
@click.option("--run", help="Show one run only; by default the tables hold all runs.")
@format_option("text", "csv", "json")
@click.pass_obj
def sql(settings: Settings, query: str, run: str | None, output_format: str) -> None:
    """Ask the store with SQL, for example: nixt sql "SELECT coll, count(*) FROM events GROUP BY coll".

    Tables: events, collectives, p2p, cells, kernel_times, communicators, processes, hosts, membership, files, rejects,
    channels, auxiliary, and one for each analysis (hot_kernels, ...). Works while anything else reads or writes the
    store.
    """
    with input_errors():
        con = catalog.open_run(settings, run) if run else catalog.open_store(settings)
        try:
            result = con.execute(query)
            names = [column[0] for column in result.description or []]
            print_rows(names, result.fetchall(), output_format)
        except (duckdb.ProgrammingError, duckdb.DataError) as error:
            raise InputError(str(error)) from error
        except duckdb.Error as error:
            raise InputError(f"{error}; `nixt check` says whether a file is damaged") from error


@click.command()
@click.option("--seed", default=0, show_default=True, help="Another number makes another job.")
@click.pass_obj
def demo(settings: Settings, seed: int) -> None:
    """Write a synthetic job with one late host into the landing directory, ingest it, and write its report."""
    from nixt_pipeline.demo import write_demo_job

    directory = settings.landing_dir / f"nccl-inspector-demo-{seed}"
    with input_errors():
        marker = directory / settings.finished_markers[0]
        with explained(marker):
            job = write_demo_job(directory, seed=seed)
            marker.touch()
        say(f"Wrote {job.records:,} records of {len(job.hosts)} hosts to {directory}. {job.fault}")
        run = ingest_directory(directory, None, settings).run
        click.echo(analyse_and_report(run, settings))


def ingest_directory(directory: Path, run: str | None, settings: Settings) -> IngestSummary:
    """Ingest a dump directory, showing how far it has come. Raises `IngestError`."""
    with progress("Reading logs") as advance:
        return api.ingest_run(directory, settings, run, lambda done, total: advance(done, total, ""))


def run_with_records(run_or_directory: str, settings: Settings) -> str:
    """The run that an argument means; a dump directory is ingested first, or where nothing can be stored, taken as it
    was stored. Raises `InputError` when there is neither, or no record in it."""
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
        raise InputError(f"no such directory, and no run of that name: {visible(run_or_directory)}")
    else:
        run = run_or_directory
    if not read_manifest(settings, run).records["stored"]:
        raise InputError(unread.no_records(run, settings))
    return run


def analyse_and_report(run: str, settings: Settings, output_format: api.ReportFormat = "html") -> Path:
    """Analyse an ingested run and write its report, showing how far it has come; returns the report's path."""
    with progress("Analysing") as advance:
        api.renew_analyses(run, settings, advance)
    return api.report_run(run, settings, output_format)


def _describe(summary: IngestSummary) -> str:
    records, files = summary.records, {name: count for name, count in summary.files.items() if count}
    lines = [
        f"run {summary.run}: {records['stored']:,} records"
        f" ({records['collective']:,} collectives, {records['p2p']:,} P2P)",
        "files: " + (", ".join(f"{count:,} {name}" for name, count in files.items()) or "none"),
        f"bytes: {format_bytes(summary.bytes['read'])} read,"
        f" of them {format_bytes(summary.bytes['stored'])} in stored records",
    ]
    odd = {
        "duplicate records": records["duplicate"],
        "rejected lines": summary.rejected_lines,
        "foreign lines": summary.foreign_lines,
        "records lost by the plugin itself": summary.dropped_by_plugin,
    }
    lines += [f"{count:,} {name}" for name, count in odd.items() if count]
    if summary.incarnations > 1:
        lines.append(f"the directory holds {summary.incarnations} launches; they are kept apart (column incarnation)")
    return "\n".join(lines)
