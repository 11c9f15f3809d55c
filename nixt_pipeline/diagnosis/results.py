"""A diagnosis on disk: `results/findings/run=<run>.parquet`, a row for each finding, and the JSON beside it."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from nixt_pipeline.diagnosis.attempts import Attempts
from nixt_pipeline.diagnosis.diagnose import diagnose
from nixt_pipeline.diagnosis.findings import Diagnosis
from nixt_pipeline.inspector.taxonomy import BOOL, F64, I64, RUN, STRING, Column, Role, schema
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.dropped import require_events
from nixt_pipeline.store.files import replacing
from nixt_pipeline.store.integrity import require_files
from nixt_pipeline.store.manifest import read_manifest
from nixt_pipeline.store.reading import read_json
from nixt_pipeline.store.seals import noting, write_result

NAME = "findings"

_NAMES = pa.list_(pa.string())

FINDING_COLUMNS: tuple[Column, ...] = (
    RUN,
    Column("number", I64, Role.COUNTER, "", "1 for the most urgent and costliest finding of the run", nullable=False),
    Column("kind", STRING, Role.DERIVED, "", "late-arrival, slow-transfer, fabric-slow, hang, ...", nullable=False),
    Column("severity", STRING, Role.DERIVED, "", "P0 (page), P1 (ticket), P2 (log) or info", nullable=False),
    Column("level", STRING, Role.DERIVED, "", "rank, host, communicator, link, fabric or run", nullable=False),
    Column("hosts", _NAMES, Role.IDENTIFIER, "", "Hosts at fault; one of them when ambiguous"),
    Column("processes", _NAMES, Role.IDENTIFIER, "", "Processes at fault, or ranks of them; one when ambiguous"),
    Column("ranks", pa.list_(pa.int64()), Role.IDENTIFIER, "", "Their ranks in the launch, where known"),
    Column("communicators", _NAMES, Role.IDENTIFIER, "", "Communicators in which it shows, by id"),
    Column("place", STRING, Role.DERIVED, "", "Where it is, where neither hosts nor processes are named"),
    Column("ambiguous", BOOL, Role.DERIVED, "", "Whether the log cannot tell who of the named it is", nullable=False),
    Column("onset_us", I64, Role.DERIVED, "us", "Unix time at which it began; null when it began with the log"),
    Column("until_us", I64, Role.DERIVED, "us", "Unix time at which it ended; null when it lasted to the end"),
    Column("cost_share", F64, Role.DERIVED, "", "Share of the time since the onset that it costs"),
    Column("slowdown", F64, Role.DERIVED, "", "Time against the reference"),
    Column("lost_rank_seconds", F64, Role.DERIVED, "s", "Rank-time that others lost"),
    Column("evidence", STRING, Role.DERIVED, "", "One sentence with the numbers", nullable=False),
    Column("counter_evidence", STRING, Role.DERIVED, "", "What speaks against it, or looks the same", nullable=False),
    Column("next_step", STRING, Role.DERIVED, "", "What a person should check", nullable=False),
)


def findings_table(diagnosis: Diagnosis) -> pa.Table:
    """One row for each finding, the most urgent first."""
    rows = []
    for number, finding in enumerate(diagnosis.findings, start=1):
        row = finding.to_json()
        rows.append({"run": diagnosis.run, "number": number, **row, **row["effect"]})
    columns = schema(FINDING_COLUMNS)
    return pa.Table.from_pylist([{name: row.get(name) for name in columns.names} for row in rows], schema=columns)


def json_path(run: str, settings: Settings) -> Path:
    """The JSON of a run's diagnosis."""
    return layout.results_path(NAME, run, settings).with_suffix(".json")


def materialise_findings(
    run: str,
    settings: Settings,
    also: Callable[[Diagnosis, Settings], Diagnosis] | None = None,
    attempts: Attempts | None = None,
) -> Diagnosis:
    """Diagnose a stored run whose cells have been built, and write both files. `also` adds what the run alone does not
    show; what failed in `attempts` before is told as well. Raises `UnknownRunError`, and `EventsDroppedError` for a run
    that has only its results left."""
    diagnosis = compute_findings(run, settings, also, attempts)
    store_findings(diagnosis, settings)
    return diagnosis


def compute_findings(
    run: str,
    settings: Settings,
    also: Callable[[Diagnosis, Settings], Diagnosis] | None = None,
    attempts: Attempts | None = None,
) -> Diagnosis:
    """What `materialise_findings` would store."""
    require_events(run, settings)
    require_files(read_manifest(run, settings), settings, content=True)
    diagnosis = diagnose(run, settings, attempts)
    if also:
        compared = Attempts()
        diagnosis = compared.decisive("comparison with earlier runs", also, diagnosis, settings) or diagnosis
        diagnosis = compared.told_in(diagnosis)
    return diagnosis


def store_findings(diagnosis: Diagnosis, settings: Settings) -> None:
    """Write both files of a diagnosis. Raises `StorageError`."""
    run = diagnosis.run
    write_result(findings_table(diagnosis), NAME, run, settings)
    path = json_path(run, settings)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(diagnosis.to_json(), indent=1) + "\n", encoding="utf-8")
        noting(run, path, settings)(temporary)


def stored_diagnosis(run: str, settings: Settings) -> Diagnosis | None:
    """A run's diagnosis as it was stored; None when the run has not been diagnosed, or the file is damaged."""
    return read_json(json_path(run, settings), Diagnosis.from_json, f"nixt diagnose {run} makes it again")
