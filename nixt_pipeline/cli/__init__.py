"""The `nixt` command: the same functions as the Dagster assets, without Dagster.

Exit codes: 0 success, 1 findings at or above `--fail-on`, 2 a usage or input error, 70 a bug in nixt, 130 interrupted.
Results go to standard output, progress and messages to standard error.
"""

import click

from nixt_pipeline.cli.commands import Commands, Lazy
from nixt_pipeline.cli.output import input_errors, say, show_log_inertly

_COMMANDS = {
    "ingest": Lazy("runs", "Validate and store the logs of one job."),
    "decode": Lazy("runs", "Decode one shard of a very large run."),
    "report": Lazy("runs", "Analyse a run and write its report."),
    "diagnose": Lazy("runs", "Find stragglers, slow links and hangs."),
    "sql": Lazy("runs", "Query the store with SQL."),
    "demo": Lazy("runs", "Simulate a job and report on it."),
    "ui": Lazy("ui", "Start Dagster's web interface."),
    "watch": Lazy("watch", "Process finished runs as they appear."),
    "runs": Lazy("fleet", "List the stored runs, newest first."),
    "compare": Lazy("fleet", "Test whether B is slower than A, and by how much."),
    "baselines": Lazy("fleet", "List, pin or reject baseline runs."),
    "hosts": Lazy("fleet", "List the hosts to drain."),
    "retention": Lazy("fleet", "List or drop the raw events of old runs."),
    "check": Lazy("check", "Verify and repair the stored files."),
}


@click.group(
    cls=Commands,
    lazy=_COMMANDS,
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
    # `nixt --help` needs neither.
    from nixt_pipeline.settings import doubts, load_settings
    from nixt_pipeline.store.reading import warn_once

    show_log_inertly()
    warn_once.cache_clear()
    for doubt in doubts():
        say(f"Warning: {doubt}")
    with input_errors():
        context.obj = load_settings()
