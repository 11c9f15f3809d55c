"""The `nixt` command: the same functions as the Dagster assets, without Dagster.

Exit codes: 0 fine, 1 findings as urgent as `--fail-on`, 2 usage or input error, 70 a defect of this program,
130 interrupted.
Results go to standard output, progress and messages to standard error.
"""

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import duckdb

from nixt_pipeline import api, fleet_commands
from nixt_pipeline.check_command import check
from nixt_pipeline.diagnosis.findings import SEVERITIES, Severity
from nixt_pipeline.diagnosis.text import as_markdown, as_text
from nixt_pipeline.errors import StorageError
from nixt_pipeline.inert import json_text, visible, visible_lines
from nixt_pipeline.inspector.operations import format_bytes
from nixt_pipeline.inspector.runs import RunDirectory
from nixt_pipeline.settings import Settings, load_settings
from nixt_pipeline.store import catalog, unread
from nixt_pipeline.store.accounts import IngestSummary
from nixt_pipeline.store.fan_out import IngestError
from nixt_pipeline.store.files import explained
from nixt_pipeline.store.manifest import read_manifest
from nixt_pipeline.store.reading import warn_once
from nixt_pipeline.terminal import Commands, InputError, input_errors, print_rows, say, show_log_inertly
from nixt_pipeline.watch import look

# Files that were left alone and are named after an ingest.
_SHOWN_FILES = 10
_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="nixt-pipeline")
@click.pass_context
def main(context: click.Context) -> None:
    """Understand collective communication from NCCL Inspector logs.

    Where things are kept is set by NIXT_DATA_DIR, NIXT_REPORTS_DIR, NIXT_LANDING_DIR or a nixt.toml in the working
    directory.
    """
    show_log_inertly()
    warn_once.cache_clear()
    with input_errors():
        context.obj = load_settings()


@main.command()
@click.argument("directory", type=_DIRECTORY)
@click.option("--run", help="Name of the run; by default the directory's name.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_obj
def ingest(settings: Settings, directory: Path, run: str | None, form: str) -> None:
    """Read the dump directory of one job into the store. Unchanged files are not read again."""
    with input_errors():
        summary = _ingest(directory, run, settings)
        nothing = None if summary.records["stored"] else unread.no_records(summary.run, settings)
        left_alone = unread.set_aside(summary.run, settings)
    click.echo(json_text(summary.to_json()) if form == "json" else visible_lines(_describe(summary)))
    if nothing is not None:
        raise InputError(nothing)
    for line in left_alone[:_SHOWN_FILES]:
        say(line)
    if len(left_alone) > _SHOWN_FILES:
        say(f"and {len(left_alone) - _SHOWN_FILES:,} more, in the table files")


@main.command()
@click.argument("directory", type=_DIRECTORY)
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


@main.command()
@click.argument("run_or_directory", metavar="RUN|DIRECTORY")
@click.option("--format", "form", type=click.Choice(["html", "pdf", "md"]), default="html", show_default=True)
@click.option("--open", "opens", is_flag=True, help="Open the report in the browser, or whatever opens its kind.")
@click.pass_obj
def report(settings: Settings, run_or_directory: str, form: api.ReportForm, opens: bool) -> None:
    """Analyse a run and write its HTML report; a dump directory is ingested first. Prints the report's path.

    A PDF is printed by Chromium or Chrome; md is a page of Markdown with the findings, for a ticket.
    """
    with input_errors():
        run = _run_with_records(run_or_directory, settings)
        try:
            path = _analyse_and_report(run, settings, form)
        except StorageError as error:
            if form != "md":
                raise
            say(f"{error}. Here is the report instead:")
            click.echo(api.markdown_report(run, settings))
            return
    click.echo(path)
    if opens:
        click.launch(str(path))


@main.command()
@click.argument("run_or_directory", metavar="RUN|DIRECTORY")
@click.option("--format", "form", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True)
@click.option("--fail-on", type=click.Choice(SEVERITIES), help="Exit with 1 when a finding is at least this urgent.")
@click.pass_context
def diagnose(context: click.Context, run_or_directory: str, form: str, fail_on: Severity | None) -> None:
    """Say who was late, whose transfers were slow, who hung, and how sure that is.

    A dump directory is ingested first. "Nothing found" and "not assessable" are different answers.
    """
    settings: Settings = context.obj
    with input_errors():
        diagnosis = api.diagnose_run(_run_with_records(run_or_directory, settings), settings)
    words = {"json": lambda d: json_text(d.to_json(), indent=1), "markdown": as_markdown, "text": as_text}
    click.echo(words[form](diagnosis))
    if fail_on and diagnosis.at_least(fail_on):
        context.exit(1)


@main.command()
@click.argument("query")
@click.option("--run", help="Show one run only; by default the tables hold all runs.")
@click.option("--format", "form", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True)
@click.pass_obj
def sql(settings: Settings, query: str, run: str | None, form: str) -> None:
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
            print_rows(names, result.fetchall(), form)
        except (duckdb.ProgrammingError, duckdb.DataError) as error:
            raise InputError(str(error)) from error
        except duckdb.Error as error:
            raise InputError(f"{error}; `nixt check` says whether a file is damaged") from error


@main.command()
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
        run = _ingest(directory, None, settings).run
        click.echo(_analyse_and_report(run, settings))


@main.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=3000, show_default=True, type=click.IntRange(1, 65535))
@click.option("--read-only", is_flag=True, help="Show everything, and let nobody start, stop or remove anything.")
@click.pass_obj
def ui(settings: Settings, host: str, port: int, read_only: bool) -> None:
    """Start Dagster's web interface, and with it the sensor that picks up finished jobs from the landing directory.

    It asks for no login. Only this machine reaches it, unless --host says otherwise.
    """
    from nixt_pipeline.defs.guard import is_loopback
    from nixt_pipeline.defs.home import listen, serve

    with input_errors():
        with explained(settings.landing_dir):
            settings.landing_dir.mkdir(parents=True, exist_ok=True)
        sockets = listen(host, port)
        if not is_loopback(host) and not read_only:
            say(
                f"Warning: everybody who reaches {host}:{port} can start, stop and remove runs. Put a reverse proxy"
                " with login and TLS before it (docs/operations.md), or add --read-only."
            )
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        say(f"{address}  (drop dump directories into {settings.landing_dir}; Ctrl-C stops)")
        serve(settings, sockets, host, read_only)


@main.command()
@click.argument("directory", type=_DIRECTORY, required=False)
@click.option("--once", is_flag=True, help="Look once and stop, for cron; exit code 2 when a run failed.")
@click.pass_context
def watch(context: click.Context, directory: Path | None, once: bool) -> None:
    """Ingest, analyse and report the finished runs below DIRECTORY as they appear, without Dagster, until stopped.

    By default DIRECTORY is the landing directory. Use this or `nixt ui`, not both.
    """
    settings: Settings = context.obj
    if directory is not None:
        settings = settings.model_copy(update={"landing_dir": directory})

    def take_up(found: RunDirectory) -> None:
        click.echo(_analyse_and_report(_ingest(found.path, found.run, settings).run, settings))

    given_up: dict[str, str] = {}
    shown: dict[str, str] = {}
    while True:
        with input_errors():
            seen = look(settings, take_up, given_up)
        for run, reason in {**seen.failed, **seen.waiting}.items():
            if run in seen.failed or run not in shown:
                say(visible(f"{run}: {'failed' if run in seen.failed else 'waits'}: {reason}"))
        shown = dict(seen.waiting)
        if once:
            context.exit(2 if seen.failed else 0)
        time.sleep(settings.sensor_interval_s)


def _ingest(directory: Path, run: str | None, settings: Settings) -> IngestSummary:
    with _progress("Reading logs") as advance:
        return api.ingest_run(directory, settings, run, lambda done, total: advance(done, total, ""))


def _run_with_records(run_or_directory: str, settings: Settings) -> str:
    """The run that an argument means; a dump directory is ingested first, or where nothing can be stored, taken as it
    was stored. Raises `InputError` when there is neither, or no record in it."""
    directory = Path(run_or_directory)
    if directory.is_dir():
        try:
            run = _ingest(directory, None, settings).run
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


def _analyse_and_report(run: str, settings: Settings, form: api.ReportForm = "html") -> Path:
    with _progress("Analysing") as advance:
        api.renew_analyses(run, settings, advance)
    return api.report_run(run, settings, form)


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


@contextmanager
def _progress(title: str) -> Iterator[api.StepProgress]:
    """A progress bar on a terminal, plain lines at each tenth otherwise."""
    if not sys.stderr.isatty():
        yield _PlainProgress(title)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total, name: bar.update(
            task, completed=done, total=total, description=f"{title} {name}".rstrip()
        )


class _PlainProgress:
    def __init__(self, title: str) -> None:
        self._title, self._tenth = title, 0

    def __call__(self, done: int, total: int, name: str) -> None:
        tenth = 10 * done // total if total else 10
        if tenth > self._tenth:
            self._tenth = tenth
            say(f"{self._title}: {10 * tenth} % {name}".rstrip())


main.add_command(fleet_commands.runs)
main.add_command(fleet_commands.compare)
main.add_command(fleet_commands.baselines)
main.add_command(fleet_commands.hosts)
main.add_command(fleet_commands.retention)
main.add_command(check)

if __name__ == "__main__":
    main()
