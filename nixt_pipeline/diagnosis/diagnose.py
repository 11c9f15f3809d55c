"""From a run's views to its diagnosis: what was recorded, the evidence of each launch, what detectors make of it."""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field, replace

import duckdb

from nixt_pipeline.analysis.cells import provide_cells
from nixt_pipeline.diagnosis.attempts import Attempts
from nixt_pipeline.diagnosis.confidence import with_confidence
from nixt_pipeline.diagnosis.detectors.resolution import Judged, Resolution, resolution_of
from nixt_pipeline.diagnosis.detectors.suspect import Suspect
from nixt_pipeline.diagnosis.evidence.blocks import cut_into_blocks
from nixt_pipeline.diagnosis.evidence.coverage import Recorded, measure
from nixt_pipeline.diagnosis.evidence.ending import Ending, ending_of
from nixt_pipeline.diagnosis.evidence.era import tells_times
from nixt_pipeline.diagnosis.evidence.eras import find_eras
from nixt_pipeline.diagnosis.evidence.evidence import Evidence
from nixt_pipeline.diagnosis.evidence.history import History
from nixt_pipeline.diagnosis.evidence.launch_lags import read_launch_lags
from nixt_pipeline.diagnosis.evidence.launches import Launch, read_launches
from nixt_pipeline.diagnosis.evidence.observations import observe
from nixt_pipeline.diagnosis.evidence.replays import order_replays
from nixt_pipeline.diagnosis.evidence.size_mismatches import read_size_mismatches
from nixt_pipeline.diagnosis.evidence.tables import LaunchTables, RunTables
from nixt_pipeline.diagnosis.evidence.write_times import read_write_times
from nixt_pipeline.diagnosis.findings import UNKNOWN_COVERAGE, Diagnosis, Finding, Verdict, capped, ranked
from nixt_pipeline.diagnosis.registry import DETECTORS, Detector
from nixt_pipeline.diagnosis.wording.eras import across_eras
from nixt_pipeline.diagnosis.wording.imbalance import once_for_launches
from nixt_pipeline.diagnosis.wording.ranks import with_ranks
from nixt_pipeline.diagnosis.wording.reasons import (
    NAMELESS,
    OBSTACLES,
    UNJUDGED,
    nameless_ranks,
    not_assessable,
    not_ordered,
    not_resolvable,
    unjudged,
)
from nixt_pipeline.diagnosis.wording.recording import capture_findings
from nixt_pipeline.diagnosis.wording.unassessed import launches_left_out
from nixt_pipeline.settings import Settings, Thresholds
from nixt_pipeline.store import catalog
from nixt_pipeline.store.manifest import read_manifest

# Changes whenever a diagnosis would.
VERSION = "21"

_ERA = "what was done between changes of communicators"


@dataclass(frozen=True)
class _Run:
    """A run as its launches are diagnosed."""

    tables: RunTables
    recorded: Recorded
    launches: tuple[Launch, ...]
    ending: Ending
    limits: Thresholds
    attempts: Attempts


@dataclass
class _Told:
    """What the launches that were diagnosed tell: their findings, how long each (or an era of it) was and what could
    have been seen in it, what was judged, and whether the records of some do not say who wrote them."""

    findings: list[Finding] = field(default_factory=list)
    powers: list[tuple[float, Resolution]] = field(default_factory=list)
    judged: Judged = field(default_factory=Judged)
    nameless: bool = False


def diagnose(run: str, settings: Settings, attempts: Attempts | None = None) -> Diagnosis:
    """Diagnose a stored run; cells that are not stored are computed. Raises `UnknownRunError`."""
    with closing(catalog.open_run(run, settings)) as con:
        provide_cells(con, run, settings)
        return diagnose_views(con, run, settings, attempts)


def diagnose_views(
    con: duckdb.DuckDBPyConnection, run: str, settings: Settings, attempts: Attempts | None = None
) -> Diagnosis:
    """Diagnose the run behind `con`, a connection of `store.catalog.open_run`, from its cells and aggregates.

    A detector that fails becomes a finding, as does what failed in `attempts` before. Leaves temporary tables on the
    connection.
    """
    ending = ending_of(read_manifest(run, settings), settings)
    limits, attempts = settings.thresholds, attempts or Attempts()
    opened = attempts.decisive("how much was recorded", _open, con, ending, limits, attempts)
    if opened is None:
        return attempts.told_in(Diagnosis(run, "none-found", UNKNOWN_COVERAGE))
    recorded, told = opened.recorded, _Told()
    reason = not_assessable(recorded.coverage, limits)
    chosen, left_out = _chosen(opened.launches, limits)
    for launch in chosen:
        _diagnose_launch(opened, launch, compared=not reason, told=told)
    # Of the longest launch.
    resolution = max(told.powers, key=lambda power: power[0])[1] if told.powers else Resolution(None)
    coverage = replace(recorded.coverage, least_cost_share=resolution.least_cost_share)
    told.findings += attempts.informative("lost records", capture_findings, recorded, limits) or []
    told.findings += [launches_left_out(len(left_out), left_out[0].records, len(chosen))] if left_out else []
    findings = ranked(
        with_confidence(capped(finding, coverage, limits)) for finding in once_for_launches(told.findings)
    )
    alarming = any(finding.severity != "info" for finding in findings)
    if not alarming and not reason:
        reason = (NAMELESS if told.nameless else "") or ("" if told.judged.partly else not_ordered(coverage, limits))
        reason = reason or (OBSTACLES[resolution.obstacle] if resolution.obstacle else "")
        reason = reason or not_resolvable(coverage, limits)
    verdict: Verdict = "findings" if alarming else "not-assessable" if reason else "none-found"
    if not reason:
        weak = [UNJUDGED[resolution.unjudged]] if not alarming and resolution.unjudged else []
        reason = "; ".join([*weak, *unjudged(told.judged), *nameless_ranks(recorded.nameless)])
    return attempts.told_in(Diagnosis(run, verdict, coverage, findings, reason))


def _open(con: duckdb.DuckDBPyConnection, ending: Ending, limits: Thresholds, attempts: Attempts) -> _Run:
    tables = order_replays(con)
    return _Run(tables, measure(tables, limits), read_launches(tables), ending, limits, attempts)


def _chosen(launches: Iterable[Launch], limits: Thresholds) -> tuple[list[Launch], list[Launch]]:
    """The launches to diagnose, in the order of time: the last one, because how it ended is the first thing to know,
    and those with most records; and the others, those with most records first."""
    last = max((launch.number for launch in launches), default=0)
    ordered = sorted(launches, key=lambda launch: (launch.number != last, -launch.records, launch.number))
    most = limits.diagnosis.max_diagnosed_launches
    return sorted(ordered[:most], key=lambda launch: launch.number), ordered[most:]


def _diagnose_launch(run: _Run, launch: Launch, *, compared: bool, told: _Told) -> None:
    """Add what one launch tells to what is `told`; its times count only when they can be `compared`."""
    attempts, limits = run.attempts, run.limits
    what = f"launch {launch.number}"
    tables = attempts.decisive(what, cut_into_blocks, run.tables, launch.number)
    evidence = attempts.decisive(what, _evidence, run, tables) if tables else None
    if tables is None or evidence is None:
        return
    seen = evidence.seen
    eras = attempts.informative(_ERA, find_eras, tables, seen, run.recorded.frontier) or ()
    mismatches = attempts.decisive("mismatches", read_size_mismatches, tables) or ()
    whole = replace(evidence, eras=eras, size_mismatches=mismatches)
    findings = _detected(whole, [detector for detector in DETECTORS if not detector.times], limits, attempts)
    told.nameless = told.nameless or not seen.processes
    if compared and seen.processes:
        ended_us = _ended_us(launch, run)
        findings += [_over(finding, ended_us) for finding in _from_eras(run, tables, whole, told)]
        told.judged = told.judged.with_launch(seen, limits)
    told.findings += with_ranks(seen, findings)


def _evidence(run: _Run, tables: LaunchTables) -> Evidence:
    """What every detector needs."""
    history = History(run.tables, tables.incarnation)
    return Evidence(observe(tables, run.limits), run.recorded, history, run.launches, run.ending)


def _from_eras(run: _Run, tables: LaunchTables, whole: Evidence, told: _Told) -> list[Finding]:
    """What the times of a launch say in all of its eras."""
    if not whole.eras:
        return _from_times(run, tables, whole, told)
    found: list[list[Finding] | None] = []
    for era in whole.eras:
        of_era = run.attempts.decisive(_ERA, cut_into_blocks, run.tables, tables.incarnation, era)
        evidence = run.attempts.decisive(_ERA, _evidence, run, of_era) if of_era else None
        shown = of_era and evidence and evidence.seen.processes and tells_times(of_era)
        found.append(_from_times(run, of_era, evidence, told) if of_era and evidence and shown else None)
    return across_eras(whole.eras, found)


def _from_times(run: _Run, tables: LaunchTables, evidence: Evidence, told: _Told) -> list[Finding]:
    """What the times of a launch, or of one era of it, say."""
    attempts, limits = run.attempts, run.limits
    evidence = replace(
        evidence,
        write_times=attempts.informative("clocks", read_write_times, tables) or (),
        launch_lags=attempts.informative("causes of lateness", read_launch_lags, tables, limits),
    )
    findings = _detected(evidence, [detector for detector in DETECTORS if detector.times], limits, attempts)
    power = attempts.informative("the smallest visible cost", resolution_of, evidence.seen, limits)
    told.powers.append((float(evidence.seen.block_us.sum()), power or Resolution(None)))
    return findings


def _detected(
    evidence: Evidence, detectors: Iterable[Detector[Suspect]], limits: Thresholds, attempts: Attempts
) -> list[Finding]:
    """What some detectors find, one after the other."""
    suspects: list[Suspect] = []
    findings: list[Finding] = []
    silent: set[str] = set()
    for detector in detectors:
        if detector.unless and detector.unless not in silent:
            continue
        attempt = attempts.decisive if detector.decisive else attempts.informative
        found = attempt(detector.looks_for, detector.find, evidence, suspects, limits)
        if found:
            suspects += found
            findings += attempt(detector.looks_for, detector.tell, evidence, found, limits) or []
        elif found is not None:
            silent.add(detector.looks_for)
    return findings


def _ended_us(launch: Launch, run: _Run) -> int | None:
    """When a launch ended, if that was before the log did."""
    last_us = max(other.last_us for other in run.launches)
    return launch.last_us if 0 < launch.last_us < last_us - run.limits.diagnosis.max_clock_offset_us else None


def _over(finding: Finding, launch_ended_us: int | None) -> Finding:
    """What lasted to the end of its launch is over when the log goes on without it."""
    lasting = finding.until_us is None and finding.onset_us is not None
    return replace(finding, until_us=launch_ended_us) if lasting and launch_ended_us is not None else finding
