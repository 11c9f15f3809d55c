"""The `nixt` command: the same functions as the Dagster assets, without Dagster.

Exit codes: 0 success, 1 findings at or above `--fail-on`, 2 a usage or input error, 70 a bug in nixt, 130 interrupted.
Results go to standard output, progress and messages to standard error.
"""

import click

from nixt_pipeline.cli import check, fleet, runs, ui, watch
from nixt_pipeline.cli.output import Commands, input_errors, say, show_log_inertly
from nixt_pipeline.settings import doubts, load_settings
from nixt_pipeline.store.reading import warn_once

_COMMANDS: tuple[click.Command, ...] = (
    runs.ingest, runs.decode, runs.report, runs.diagnose, runs.sql, runs.demo, ui.ui, watch.watch,
    fleet.runs, fleet.compare, fleet.baselines, fleet.hosts, fleet.retention, check.check,
)  # fmt: skip


@click.group(
    cls=Commands,
    commands=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(package_name="nixt-pipeline")
@click.pass_context
def main(context: click.Context) -> None:
    """Find stragglers, slow links and hangs in NCCL Inspector logs.

    NIXT_DATA_DIR, NIXT_REPORTS_DIR and NIXT_LANDING_DIR, or a nixt.toml in the working directory or above it, say where
    data is stored. Exit codes: 0 success, 1 findings at or above --fail-on, 2 a usage or input error, 70 a bug in nixt,
    130 interrupted.
    """
    show_log_inertly()
    warn_once.cache_clear()
    for doubt in doubts():
        say(f"Warning: {doubt}")
    with input_errors():
        context.obj = load_settings()
