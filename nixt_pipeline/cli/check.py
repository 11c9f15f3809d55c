"""`nixt check`: verify the store against its manifests and rebuild what is damaged."""

from collections.abc import Iterator

import click

from nixt_pipeline import api
from nixt_pipeline.cli.output import format_option, input_errors, print_rows, say
from nixt_pipeline.errors import EXIT_INPUT, NixtError, StorageError
from nixt_pipeline.fleet.decisions import DecisionsError, decisions_path, read_decisions
from nixt_pipeline.inert import visible
from nixt_pipeline.obstacles import misplaced
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.catalog import publish_catalog
from nixt_pipeline.store.checking import Checked, check_run, logs_directory
from nixt_pipeline.store.manifest import StoreVersionError, published_runs, without_logs


@click.command()
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option("--repair", is_flag=True, help="Rebuild damaged runs from their logs, and damaged results from the run.")
@format_option("text", "csv", "json")
@click.pass_context
def check(context: click.Context, runs: tuple[str, ...], repair: bool, output_format: str) -> None:
    """Verify and repair the stored files.

    Compares the size and hash of every file of the given runs, or of all runs, with the manifests. text lists what
    is damaged; csv and json have a row per file. Files written by earlier versions have no hash and are at best
    `readable`.

    Exit codes: 0 nothing is damaged or everything was repaired, 2 something is damaged.
    """
    settings: Settings = context.obj
    with input_errors():
        if runs:
            found = [checked for run in runs for checked in _checked(run, settings, repair)]
        else:
            found = _directories(settings)
            if not misplaced([settings.data_dir / "store"]):
                found += [*_checked_all(settings, repair), *_decisions(settings)]
        if repair:
            _renew_catalog(settings)
    if output_format == "text":
        _print_text(found)
        if not repair:
            _advise(found, settings)
    else:
        rows = [(c.run, str(c.path), c.state, c.problem, c.derived) for c in found]
        print_rows(["run", "path", "state", "problem", "derived"], rows, output_format)
    if any(checked.state == "damaged" for checked in found):
        context.exit(EXIT_INPUT)


def _renew_catalog(settings: Settings) -> None:
    """Rebuild the views for other programs. Without permission to write them, checking still works."""
    try:
        publish_catalog(settings)
    except StorageError as error:
        say(f"catalog not updated: {error}")


def _checked_all(settings: Settings, repair: bool) -> Iterator[Checked]:
    """The files of all runs but those that a newer version of this program stored."""
    for run in published_runs(settings):
        try:
            yield from _checked(run, settings, repair)
        except StoreVersionError as error:
            say(f"run {run}: not checked: {error}")


def _checked(run: str, settings: Settings, repair: bool) -> list[Checked]:
    """The files of a run; with `repair`, after repairing what can be. A run that cannot be repaired stops no other."""
    found = check_run(run, settings)
    if not repair or all(checked.state != "damaged" for checked in found):
        return found
    try:
        api.repair_run(run, settings)
    except NixtError as error:
        say(f"run {run}: not repaired: {error}")
        return found
    say(f"run {run}: rebuilt")
    return check_run(run, settings)


def _directories(settings: Settings) -> list[Checked]:
    """What is in the place of a directory. A parent's obstacle is that of all below it, and reported once."""
    found = {what: path for path, what in reversed(misplaced(layout.directories(settings)).items())}
    return [Checked("", path, "damaged", what) for what, path in reversed(found.items())]


def _decisions(settings: Settings) -> list[Checked]:
    """The one file that is not computed from logs: decisions about baselines."""
    path = decisions_path(settings)
    try:
        read_decisions(settings)
    except DecisionsError as error:
        return [Checked("", path, "damaged", str(error))]
    return [Checked("", path, "readable")] if path.exists() else []


def _print_text(found: list[Checked]) -> None:
    for run in dict.fromkeys(checked.run for checked in found):
        its = [checked for checked in found if checked.run == run]
        damaged = [checked for checked in its if checked.state == "damaged"]
        unsealed = sum(checked.state == "readable" for checked in its)
        words = f"{len(damaged)} damaged" if damaged else "sound"
        words += f", {unsealed} without a hash" if unsealed and run else ""
        click.echo(f"{f'run {run}' if run else 'outside the runs'}: {len(its)} files: {words}")
        for checked in damaged:
            click.echo(visible(f"  {checked.path}: {checked.problem}"))


def _advise(found: list[Checked], settings: Settings) -> None:
    """Say how damaged runs are made whole again. After a repair that failed, its reason has said it."""
    damaged = sorted({checked.run for checked in found if checked.state == "damaged" and checked.run})
    rebuilt = [run for run in damaged if logs_directory(run, settings)]
    if rebuilt:
        say(f"to rebuild: nixt check {' '.join(rebuilt)} --repair")
    for run in damaged:
        if run not in rebuilt:
            say(f"run {run}: {without_logs(run, settings)}")
