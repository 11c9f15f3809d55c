"""What the command line and notebooks call: ingest a directory, analyse a run, write its report, ask it anything."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import duckdb
import pyarrow as pa

from nixt_pipeline import pipeline
from nixt_pipeline.analysis.cells import build_cells, cells_are_current
from nixt_pipeline.diagnosis.findings import Diagnosis
from nixt_pipeline.diagnosis.results import current_findings, store_findings, stored_diagnosis
from nixt_pipeline.errors import StorageError, is_full
from nixt_pipeline.fleet.against import compare_with_reference
from nixt_pipeline.fleet.catalog import catalog_rows
from nixt_pipeline.fleet.compare.compare import compare_runs
from nixt_pipeline.fleet.compare.comparison import Comparison
from nixt_pipeline.fleet.regression import with_regression
from nixt_pipeline.fleet.selection import select
from nixt_pipeline.inspector.runs import run_id
from nixt_pipeline.pipeline import StepProgress
from nixt_pipeline.settings import Settings, load_settings
from nixt_pipeline.store import catalog, ingest, layout
from nixt_pipeline.store.accounts import IngestSummary
from nixt_pipeline.store.checking import check_run, logs_directory, missing_logs
from nixt_pipeline.store.fan_out import IngestError, Progress
from nixt_pipeline.store.files import where_possible, write_text
from nixt_pipeline.store.identity import run_of
from nixt_pipeline.store.integrity import discard_damaged_results, require_files
from nixt_pipeline.store.locate import NoLogsError
from nixt_pipeline.store.manifest import Manifest, read_manifest, without_logs
from nixt_pipeline.store.reading import warn_once
from nixt_pipeline.store.seals import renew_damaged_note


def run_name(directory: Path, settings: Settings) -> str:
    """The id of the run in `directory`: its path below the landing directory, or its name when it lies elsewhere."""
    resolved, landing = directory.resolve(), settings.landing_dir.resolve()
    below_landing = resolved.is_relative_to(landing) and resolved != landing
    return run_id(resolved.relative_to(landing).as_posix() if below_landing else resolved.name)


def ingest_run(
    directory: Path, settings: Settings, run: str | None = None, progress: Progress | None = None
) -> IngestSummary:
    """Ingest a dump directory. Files that have not changed since the last ingest are not read again.

    `run` names the run (made safe where necessary) and defaults to the directory's name. A directory that has no file
    in common with the stored run of that name is stored under a name of its own. `progress` is called with the bytes
    done and the bytes in all. Raises `IngestError`.
    """
    return ingest.ingest(directory, _run_in(directory, run, settings), settings, progress)


def stored_run(directory: Path, settings: Settings) -> str | None:
    """The published run that holds the dump directory as it is now; None when it is new or has changed. Writes nothing.

    Raises `IngestError` for a directory that cannot be listed, and `DamagedError`.
    """
    run = _run_in(directory, None, settings)
    return run if ingest.is_published(directory, run, settings) else None


def decode_share(directory: Path, settings: Settings, share: int, shares: int, run: str | None = None) -> int:
    """Decode one of `shares` shares of a dump directory's logs, counted from 0, for `ingest_run` to find; returns its
    bytes.

    Machines that see the same directories can do so at the same time. Raises `IngestError`.
    """
    name = _run_in(directory, run, settings)
    ingest.take_inventory(directory, name, settings)
    return ingest.decode_share(name, settings, share, shares)


def _run_in(directory: Path, run: str | None, settings: Settings) -> str:
    """The id as which `directory` is ingested. Below the landing directory its path alone decides, as for the sensor:
    a partition is named before its files are opened."""
    if run:
        return run_id(run)
    name = run_name(directory, settings)
    if directory.resolve().is_relative_to(settings.landing_dir.resolve()):
        return name
    try:
        return run_of(directory, name, settings)
    except OSError as error:
        raise IngestError(f"cannot list {directory}: {error.strerror or error}") from error


def analyse_run(run: str, settings: Settings, progress: StepProgress | None = None, again: bool = False) -> None:
    """Compute and store the collectives (`cells`), every analysis and the findings of an ingested run.

    What is stored is reused when it would come out the same, unless `again`.
    A failed analysis has no result, and a finding reports it. A run whose events were dropped keeps its results.
    `progress` is called with the number of steps done, the number of steps, and the name of the next one. Raises
    `UnknownRunError`.
    """
    _tell_of_other_limits(read_manifest(run, settings), settings)
    pipeline.analyse(run, settings, progress, again)


def _tell_of_other_limits(manifest: Manifest, settings: Settings) -> None:
    if ingest.has_other_limits(manifest, settings):
        warn_once(
            f"run {manifest.run} was ingested with other thresholds of the ingest than those that are set;"
            f" nixt ingest {manifest.source_dir} applies these"
        )


def repair_run(run: str, settings: Settings) -> None:
    """Rebuild what is damaged of a run: from its logs what an ingest wrote, from the run its results, if it has any.

    Raises `NoLogsError` when logs are gone whose records would be lost, and `UnknownRunError`.
    """
    found = check_run(run, settings)
    damaged = [checked for checked in found if checked.state == "damaged"]
    if any(not checked.derived for checked in damaged):
        directory = logs_directory(run, settings)
        if directory is None:
            raise NoLogsError(without_logs(run, settings))
        if not directory.is_dir():
            raise NoLogsError(f"the logs are gone: {directory}; put them back, or nixt ingest DIR --run {run}")
        missing = missing_logs(run, settings, directory)
        if missing:
            raise NoLogsError(
                f"{len(missing)} logs are gone from {directory}, and their records would be lost:"
                f" {', '.join(missing[:5])}; put them back, or nixt ingest {directory} --run {run} stores what is left"
            )
        ingest.ingest(directory, run, settings)
    if any(checked.derived for checked in damaged):
        renew_damaged_note(run, settings)
    if damaged and any(checked.derived for checked in found):
        analyse_run(run, settings)


def renew_analyses(run: str, settings: Settings, progress: StepProgress | None = None, again: bool = False) -> None:
    """`analyse_run` for a reader: where nothing can be stored, what is stored of the run has to do. Raises
    `StorageError` when it was not analysed before."""
    try:
        analyse_run(run, settings, progress, again)
    except StorageError as error:
        if is_full(error) or stored_diagnosis(run, settings) is None:
            raise
        warn_once(f"{error}. The report shows what is stored")


def diagnose_run(run: str, settings: Settings, again: bool = False) -> Diagnosis:
    """Diagnose an ingested run and, if the caller may write, store the findings.

    Stored findings are reused when they would come out the same, unless `again`. Collectives (`cells`) that were not
    built yet are built first. Raises `UnknownRunError` and `DamagedError`.
    """
    manifest = read_manifest(run, settings)
    require_files(manifest, settings)
    _tell_of_other_limits(manifest, settings)
    with where_possible():
        discard_damaged_results(manifest, settings)
        if again or not cells_are_current(run, settings):
            build_cells(run, settings)
    found = current_findings(run, settings, with_regression, again=again)
    with where_possible():
        if not found.stored:
            store_findings(found, settings)
            catalog.publish_catalog(settings)
    return found.diagnosis


ReportFormat = Literal["html", "pdf", "markdown", "md"]


def report_run(run: str, settings: Settings, form: ReportFormat = "html", again: bool = False) -> Path:
    """Write the report of an analysed run and the index of all runs; returns the report's path.

    An HTML page that would come out the same is not drawn, unless `again`. With `form` `pdf` or `markdown` (`md`), that
    file is written next to it, and its path is returned. Raises `UnknownRunError`, and `PdfError` if no browser is
    found to print with.
    """
    from nixt_pipeline.reporting.pdf import print_pdf

    report = pipeline.report(run, settings, again)
    if form == "pdf":
        return print_pdf(report)
    if form in ("markdown", "md"):
        write_text(markdown_report(run, settings), report.with_suffix(".md"))
        return report.with_suffix(".md")
    return report


def markdown_report(run: str, settings: Settings) -> str:
    """The report of an analysed run as Markdown, from what is stored. Raises `UnknownRunError`."""
    from nixt_pipeline.reporting.content import load_content
    from nixt_pipeline.reporting.markdown import report_markdown

    return report_markdown(load_content(run, settings))


def compare(a: str | None, b: str, settings: Settings | None = None) -> Comparison:
    """Test whether the runs `b` are slower than the runs `a`, and by how much.

    Both are selections as in `nixt compare`: an id, a pattern, `tag:T`, `since:DATE`, ..., separated by commas. Without
    `a`, one run is compared with the baseline of its workload. Raises `SelectionError` and `ComparisonError`.

    >>> compare("nightly-41", "nightly-42").verdict     # doctest: +SKIP
    """
    settings = settings or load_settings()
    rows = catalog_rows(settings)
    chosen = select(b, rows)
    if a is None:
        return compare_with_reference(chosen, rows, settings)
    return compare_runs(select(a, rows), chosen, settings, (a, b))


@dataclass(frozen=True)
class Run:
    """One ingested run, opened for reading, for notebooks.

    >>> run = open_run("nccl-inspector-41012")                                            # doctest: +SKIP
    >>> run.sql("SELECT coll, count(*) AS n FROM events GROUP BY coll ORDER BY n").df()   # doctest: +SKIP
    """

    manifest: Manifest
    connection: duckdb.DuckDBPyConnection
    settings: Settings

    @property
    def name(self) -> str:
        """The run's id."""
        return self.manifest.run

    def sql(self, query: str, **parameters: object) -> duckdb.DuckDBPyRelation:
        """Query the run's tables with SQL; `$name` in the query is bound to the keyword argument `name`."""
        return self.connection.sql(query, params=parameters or None)

    def table(self, name: str) -> pa.Table:
        """A whole table or analysis result (`communicators`, `hot_kernels`, ...) as an Arrow table. Raises
        `LookupError`, which lists the names."""
        names = [
            row[0] for row in self.connection.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
        ]
        if name not in names:
            raise LookupError(f"run {self.name} has no table {name!r}; it has: {', '.join(sorted(names))}")
        return pa.table(self.connection.table(name).to_arrow_table())

    def findings(self, again: bool = False) -> Diagnosis:
        """Stragglers, slow links and hangs: as they are stored, or, when they would come out differently or `again`,
        computed now and, if the caller may write, stored for the report."""
        return diagnose_run(self.name, self.settings, again)

    @property
    def report_path(self) -> Path:
        """Path of the run's report, whether or not it has been written."""
        return layout.report_dir(self.name, self.settings) / "index.html"


def open_run(run: str, settings: Settings | None = None) -> Run:
    """Open an ingested run for reading. Raises `UnknownRunError`, whose message lists the stored runs."""
    settings = settings or load_settings()
    return Run(read_manifest(run, settings), catalog.open_run(run, settings), settings)
