"""A diagnosis on disk: `results/findings/run=<run>.parquet`, a row for each finding, and the JSON beside it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from nixt_pipeline.diagnosis.attempts import Attempts
from nixt_pipeline.diagnosis.confidence import delivered_counts
from nixt_pipeline.diagnosis.diagnose import VERSION, diagnose
from nixt_pipeline.diagnosis.evidence.ending import ending_of
from nixt_pipeline.diagnosis.findings import Diagnosis
from nixt_pipeline.inspector.taxonomy import BOOL, F64, I64, RUN, STRING, Column, Role, schema
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.dropped import require_events
from nixt_pipeline.store.files import replacing
from nixt_pipeline.store.integrity import require_files
from nixt_pipeline.store.manifest import Manifest, read_manifest
from nixt_pipeline.store.origins import is_current, origin, origin_of_tables
from nixt_pipeline.store.reading import read_json
from nixt_pipeline.store.seals import noting, write_result

NAME = "findings"

# What the comparison of a diagnosed run with others adds to its diagnosis.
Comparison = Callable[[Diagnosis, Settings], Diagnosis]

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
    Column("ambiguous", BOOL, Role.DERIVED, "", "Whether the log leaves open which one it is", nullable=False),
    Column(
        "confidence", F64, Role.DERIVED, "", "Probability that exactly the named are at fault; null for information"
    ),
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
    also: Comparison | None = None,
    attempts: Attempts | None = None,
    again: bool = False,
) -> Diagnosis:
    """Diagnose a stored run whose cells have been built, and write both files. `also` adds what the run alone does not
    show; what failed in `attempts` before is reported, too. What is stored is reused as in `current_findings`. Raises
    `UnknownRunError`, and `EventsDroppedError` for a run that has only its results left."""
    found = current_findings(run, settings, also, attempts, again)
    store_findings(found, settings)
    return found.diagnosis


@dataclass(frozen=True)
class Found:
    """A diagnosis, and what it was before the run was compared with others. `made_from` is the fingerprint of what it
    was made from, empty when it must not be reused; `stored`: it is what the files hold."""

    diagnosis: Diagnosis
    alone: Diagnosis
    made_from: str
    stored: bool


def current_findings(
    run: str,
    settings: Settings,
    also: Comparison | None = None,
    attempts: Attempts | None = None,
    again: bool = False,
) -> Found:
    """The diagnosis of a stored run whose cells have been built; `also` and `attempts` as in `materialise_findings`.

    What is stored of the run alone is reused when it would come out the same, unless `again`; `also` is cheap and
    depends on other runs, so it is asked each time.
    """
    made_from = _made_from(read_manifest(run, settings), settings)
    attempts, compared = attempts or Attempts(), Attempts()
    stored = None if again or attempts.failed else _stored(run, made_from, settings)
    alone = stored.alone if stored else _diagnose(run, settings, attempts)
    diagnosis = alone
    if also:
        diagnosis = compared.decisive("comparison with earlier runs", also, alone, settings) or alone
        diagnosis = compared.told_in(diagnosis)
    same = stored is not None and stored.diagnosis.to_json() == diagnosis.to_json()
    return Found(diagnosis, alone, "" if attempts.failed or compared.failed else made_from, same)


def _made_from(manifest: Manifest, settings: Settings) -> str:
    limits = settings.thresholds.model_dump(mode="json")
    counts = delivered_counts()
    return origin(VERSION, counts, origin_of_tables(manifest, settings), limits, ending_of(manifest, settings))


def _diagnose(run: str, settings: Settings, attempts: Attempts) -> Diagnosis:
    require_events(run, settings)
    require_files(read_manifest(run, settings), settings, content=True)
    # With the digits that are stored, so that later readers get the same.
    return Diagnosis.from_json(diagnose(run, settings, attempts).to_json())


def store_findings(found: Found, settings: Settings) -> None:
    """Write both files of a diagnosis, unless they hold it. Raises `StorageError`."""
    if found.stored:
        return
    run = found.diagnosis.run
    write_result(findings_table(found.diagnosis), NAME, run, settings, found.made_from)
    path = json_path(run, settings)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(found.diagnosis.to_json(), indent=1) + "\n", encoding="utf-8")
        noting(run, path, settings, found.made_from)(temporary)


def _stored(run: str, made_from: str, settings: Settings) -> Found | None:
    """What is stored, if it is sound and was made from what has this fingerprint."""
    paths = json_path(run, settings), layout.results_path(NAME, run, settings)
    if not all(is_current(run, path, made_from, settings) for path in paths):
        return None
    diagnosis = stored_diagnosis(run, settings)
    if diagnosis is None:
        return None
    findings = tuple(finding for finding in diagnosis.findings if finding.kind != "regression")
    verdict = diagnosis.verdict_alone or diagnosis.verdict
    alone = replace(diagnosis, verdict=verdict, findings=findings, verdict_alone=None)
    return Found(diagnosis, alone, made_from, stored=True)


def stored_diagnosis(run: str, settings: Settings) -> Diagnosis | None:
    """A run's diagnosis as it was stored; None when the run has not been diagnosed, or the file is damaged."""
    return read_json(json_path(run, settings), Diagnosis.from_json, f"nixt diagnose {run} makes it again")
