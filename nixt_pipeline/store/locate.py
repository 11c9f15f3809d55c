"""Where a run's logs lie: in the landing directory, or where they were when the run was ingested."""

from pathlib import Path

from nixt_pipeline.errors import DamagedError, NixtError
from nixt_pipeline.inspector.runs import LandingError, find_runs, run_id
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.manifest import UnknownRunError, read_manifest


class NoLogsError(NixtError, LookupError):
    """The run's logs are nowhere to be found; the message says where they were looked for."""


def run_directory(run: str, settings: Settings) -> Path:
    """The directory of the logs of `run`. Raises `NoLogsError`.

    Most ids are relative paths in disguise, so that no search is needed; the others are found by looking at every
    directory.
    """
    landing = settings.landing_dir
    below = run.replace("__", "/")
    if (landing / below).is_dir() and run_id(below) == run:
        return landing / below
    try:
        directories = find_runs(settings)[0]
    except LandingError:
        directories = []  # a run can come from elsewhere: the manifest tells
    for directory in directories:
        if directory.run == run:
            return directory.path
    try:
        source = Path(read_manifest(run, settings).source_dir)
    except (UnknownRunError, DamagedError):
        raise NoLogsError(
            f"run {run}: no such directory in {landing}, and it was never ingested; set NIXT_LANDING_DIR"
        ) from None
    if not source.is_dir():
        raise NoLogsError(f"run {run}: not in {landing}, and the directory it was ingested from is gone: {source}")
    return source
