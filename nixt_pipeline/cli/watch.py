"""`nixt watch`: processing finished jobs without Dagster."""

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from nixt_pipeline.cli.output import input_errors, say
from nixt_pipeline.cli.runs import DIRECTORY, analyse_and_report, ingest_directory
from nixt_pipeline.inert import visible
from nixt_pipeline.inspector.runs import RunDirectory, find_runs, is_finished
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.files import write_text
from nixt_pipeline.store.first_record import why_no_record, without_emptied
from nixt_pipeline.store.reading import read_json

log = logging.getLogger(__name__)

# Which content of each run has been dealt with, so that a look after a restart (or from cron) finds only what is new.
_STATE = "watched.json"


@dataclass(frozen=True)
class Look:
    """The result of one look: the runs processed, those that failed and why, and those that wait and for what."""

    done: tuple[str, ...]
    failed: Mapping[str, str]
    waiting: Mapping[str, str]


def look(settings: Settings, take_up: Callable[[RunDirectory], None], given_up: dict[str, str]) -> Look:
    """Call `take_up` for every finished run of the landing directory whose content is new.

    A run that fails is remembered in `given_up` and left alone until its files change; the others go on. Raises
    `LandingError` when the landing directory cannot be listed.
    """
    path = settings.data_dir / _STATE
    known = read_json(path, lambda content: dict(content.items()), "every finished run is processed again") or {}
    directories, skipped = find_runs(settings)
    done, failed, waiting = [], {}, without_emptied(skipped, known)
    for directory in directories:
        if directory.fingerprint in (known.get(directory.run), given_up.get(directory.run)):
            continue
        finished = is_finished(directory, settings, time.time())
        if not finished.finished:
            waiting[directory.run] = finished.reason
            continue
        if directory.run not in known and (reason := why_no_record(directory.path, settings)) is not None:
            waiting[directory.run] = reason
            continue
        try:
            take_up(directory)
        except Exception as error:
            # An unexpected error is a bug, so its traceback is logged; the other runs go on.
            log.info("run %s failed", directory.run, exc_info=True)
            given_up[directory.run] = directory.fingerprint
            failed[directory.run] = f"{type(error).__name__}: {error}"
            continue
        known[directory.run] = directory.fingerprint
        write_text(json.dumps(known, indent=1) + "\n", path)
        done.append(directory.run)
    return Look(tuple(done), failed, waiting)


@click.command()
@click.argument("directory", type=DIRECTORY, required=False)
@click.option("--once", is_flag=True, help="Check once and exit, for cron; exit code 2 if a run failed.")
@click.pass_context
def watch(context: click.Context, directory: Path | None, once: bool) -> None:
    """Process finished runs as they appear.

    Ingests, analyses and reports the finished runs below DIRECTORY, without Dagster, until stopped. DIRECTORY
    defaults to the landing directory. Use either this or `nixt ui`, not both.
    """
    settings: Settings = context.obj
    if directory is not None:
        settings = settings.model_copy(update={"landing_dir": directory})

    def take_up(found: RunDirectory) -> None:
        click.echo(analyse_and_report(ingest_directory(found.path, found.run, settings).run, settings))

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
