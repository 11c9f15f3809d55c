"""The steps of a run in their order, from its dump directory to its report.

`nixt_pipeline.api` runs them one after the other; `nixt_pipeline.defs` makes an asset of each, which is called as the
step and depends on what the step reads. A test compares the two.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from nixt_pipeline.analysis import ANALYSES, REPORTED
from nixt_pipeline.analysis.base import origin_of
from nixt_pipeline.analysis.cells import build_cells, cells_are_current
from nixt_pipeline.analysis.failures import result_is_current, try_to_materialise
from nixt_pipeline.analysis.run_kernels import RUN_KERNELS
from nixt_pipeline.diagnosis.attempts import Attempts
from nixt_pipeline.diagnosis.results import materialise_findings
from nixt_pipeline.fleet.baselines import update_baselines
from nixt_pipeline.fleet.catalog import catalog_rows
from nixt_pipeline.fleet.regression import with_regression
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import catalog, layout
from nixt_pipeline.store.dropped import dropped
from nixt_pipeline.store.integrity import require_files
from nixt_pipeline.store.manifest import read_manifest

# Called with the number of steps done, the number of steps, and the name of the step that follows.
StepProgress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Step:
    """A step by its name, which is that of its asset, and the steps whose results it reads."""

    name: str
    reads: tuple[str, ...] = ()


# What `store.ingest.ingest` does.
INGEST = (
    Step("raw_log_inventory"),
    Step("validated_records", ("raw_log_inventory",)),
    Step("typed_events", ("validated_records",)),
    Step("event_store", ("typed_events",)),
)
ANALYSE = (
    Step("collective_cells", ("event_store",)),
    *(Step(analysis.name, ("collective_cells",)) for analysis in ANALYSES),
    # A regression is a finding, and runs are compared by their kernels.
    Step("findings", ("collective_cells", RUN_KERNELS.name)),
)
REPORT = (Step("run_report", (*(analysis.name for analysis in REPORTED), "findings")),)

_READS = {step.name: step.reads for step in (*INGEST, *ANALYSE, *REPORT)}


def reads(name: str) -> list[str]:
    """The steps whose results the step called `name` reads."""
    return [*_READS[name]]


def analyse(run: str, settings: Settings, progress: StepProgress | None = None, again: bool = False) -> None:
    """The steps `ANALYSE` of an ingested run. Raises `UnknownRunError`.

    A step whose result is stored, and would come out the same, is not run, unless `again`. An analysis that fails
    leaves no result, and a finding that says so. A run whose events were dropped keeps the results it has.
    """
    manifest = read_manifest(run, settings)
    if dropped(manifest.directory(settings)):
        return
    require_files(manifest, settings)
    steps, attempts = iter(range(len(ANALYSE) + 1)), Attempts()

    def started(name: str) -> None:
        if progress:
            progress(next(steps), len(ANALYSE), name)

    started("collective_cells")
    if again or not cells_are_current(run, settings):
        build_cells(run, settings)
    # Before a connection is opened: see `materialise`.
    origins = {analysis.name: origin_of(analysis, run, settings) for analysis in ANALYSES}
    with ExitStack() as opened:
        con = None
        for analysis in ANALYSES:
            started(analysis.name)
            made_from = origins[analysis.name]
            if not again and result_is_current(analysis, run, made_from, settings):
                continue
            con = con or opened.enter_context(catalog.open_run(run, settings))
            failure = try_to_materialise(analysis, run, settings, con, made_from)
            if failure:
                attempts.failed.append(failure)
                # After an internal error, DuckDB refuses everything else on the same connection.
                con.close()
                con = None
    started("findings")
    # Without Dagster, nothing else decides which earlier runs this one is to be compared with.
    update_baselines(catalog_rows(settings), settings)
    materialise_findings(run, settings, with_regression, attempts, again)
    started("done")
    catalog.publish_catalog(settings)


def report(run: str, settings: Settings, again: bool = False) -> Path:
    """The step `REPORT` of an analysed run, and the index of all runs; returns the page. A report that would come out
    the same is not drawn, unless `again`. Raises `UnknownRunError`."""
    from nixt_pipeline.reporting.index import render_index
    from nixt_pipeline.reporting.report import current_report

    page = layout.report_dir(run, settings) / "index.html"
    # Made while the events were there, it says more than one that is made without them.
    if not (page.exists() and dropped(read_manifest(run, settings).directory(settings))):
        page = current_report(run, settings, again)
    render_index(settings)
    return page
