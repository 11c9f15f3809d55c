"""An analysis that fails, or whose result is wrong, takes nothing else with it: its result goes, and a note of the
error takes its place.

The note, `results/<analysis>/run=<run>.json`, is for what reads the result later, in another process: the
report, and the checks in Dagster.
"""

import json
from pathlib import Path

import duckdb

from nixt_pipeline.analysis.base import Analysis, materialise
from nixt_pipeline.isolation import Failure, attempt
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.files import remove, write_text
from nixt_pipeline.store.origins import is_current
from nixt_pipeline.store.reading import read_json


def result_is_current(analysis: Analysis, run: str, made_from: str, settings: Settings) -> bool:
    """Whether the result of an analysis is stored, and was made from what has this fingerprint."""
    return is_current(run, layout.results_path(analysis.name, run, settings), made_from, settings)


def try_to_materialise(
    analysis: Analysis, run: str, settings: Settings, con: duckdb.DuckDBPyConnection, made_from: str
) -> Failure | None:
    """`materialise`, and the failure of it, which is noted. Errors about files pass."""
    failure = attempt(f"the analysis {analysis.name}", materialise, analysis, run, settings, con, made_from)
    if failure:
        # What is there is about the run as it was before, or made by other rules.
        withhold(analysis.name, run, failure.error, settings)
    else:
        remove(_note(analysis.name, run, settings))
    return failure


def withhold(analysis: str, run: str, error: str, settings: Settings) -> None:
    """Remove the result of an analysis of a run, and note why."""
    remove(layout.results_path(analysis, run, settings))
    write_text(json.dumps({"error": error}) + "\n", _note(analysis, run, settings))


def noted_error(analysis: str, run: str, settings: Settings) -> str | None:
    """Why an analysis of a run has no result; None when it has, or was not tried."""
    return read_json(_note(analysis, run, settings), lambda note: str(note["error"]), "the next report makes it again")


def _note(analysis: str, run: str, settings: Settings) -> Path:
    return layout.results_path(analysis, run, settings).with_suffix(".json")
