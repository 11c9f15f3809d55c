"""From a run's views to its diagnosis: coverage first, then hangs, slow transfers and late ranks, each told once."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

import duckdb

from nixt_pipeline.analysis.cells import provide_cells
from nixt_pipeline.diagnosis.attempts import Attempts
from nixt_pipeline.diagnosis.coverage import measure
from nixt_pipeline.diagnosis.detectors.causes import with_causes
from nixt_pipeline.diagnosis.detectors.clocks import find_clock_skew
from nixt_pipeline.diagnosis.detectors.hangs import find_hangs
from nixt_pipeline.diagnosis.detectors.imbalance import find_imbalance, find_turns
from nixt_pipeline.diagnosis.detectors.intermittent import find_hesitations
from nixt_pipeline.diagnosis.detectors.lateness import Late, find_late
from nixt_pipeline.diagnosis.detectors.resolution import Judged, Resolution, not_resolvable, resolution_of
from nixt_pipeline.diagnosis.detectors.transfer import Blame, find_slow
from nixt_pipeline.diagnosis.ending import ending_of
from nixt_pipeline.diagnosis.evidence.era import Era, tells_times
from nixt_pipeline.diagnosis.evidence.eras import find_eras
from nixt_pipeline.diagnosis.evidence.observations import Observations, observe
from nixt_pipeline.diagnosis.evidence.parts import read_spans
from nixt_pipeline.diagnosis.evidence.write_times import read_write_times
from nixt_pipeline.diagnosis.findings import UNKNOWN_COVERAGE, Diagnosis, Finding, RunCoverage, Verdict, capped, ranked
from nixt_pipeline.diagnosis.ranks import nameless_ranks, with_ranks
from nixt_pipeline.diagnosis.wording.eras import across_eras
from nixt_pipeline.diagnosis.wording.late import late_findings, outstanding, without_uneven_replicas
from nixt_pipeline.diagnosis.wording.recording import capture_findings, not_assessable, not_ordered
from nixt_pipeline.diagnosis.wording.transfers import transfer_findings
from nixt_pipeline.diagnosis.wording.unassessed import launches_left_out
from nixt_pipeline.settings import Settings, Thresholds
from nixt_pipeline.store import catalog
from nixt_pipeline.store.manifest import read_manifest

# Changes whenever a diagnosis would.
VERSION = "9"

_ERA = "what was done between changes of communicators"
_NAMELESS = "the records of a launch do not say which host and which process wrote them"

# With fewer records than this share, deficits alone name nobody.
_WHOLE_LOG = 0.98


def diagnose(run: str, settings: Settings, attempts: Attempts | None = None) -> Diagnosis:
    """Diagnose a stored run; cells that are not stored are computed. Raises `UnknownRunError`."""
    with closing(catalog.open_run(settings, run)) as con:
        provide_cells(con, run, settings)
        return diagnose_views(con, run, settings, attempts)


def diagnose_views(
    con: duckdb.DuckDBPyConnection, run: str, settings: Settings, attempts: Attempts | None = None
) -> Diagnosis:
    """Diagnose the run behind `con`, a connection of `store.catalog.open_run`, from its cells and aggregates.

    A detector that fails becomes a finding, as does what failed in `attempts` before. Leaves temporary tables on the
    connection.
    """
    ending = ending_of(read_manifest(settings, run), settings)
    limits, attempts = settings.thresholds, attempts or Attempts()
    recorded = attempts.decisive("how much was recorded", measure, con, limits)
    if recorded is None:
        return attempts.told_in(Diagnosis(run, "none-found", UNKNOWN_COVERAGE))
    coverage = recorded.coverage
    reason = not_assessable(coverage, limits)
    findings: list[Finding] = []
    told_from: list[tuple[float, Resolution]] = []
    nameless = False
    judged = Judged()
    ended = dict(con.sql(_ENDED, params={"tolerance": limits.diagnosis.max_clock_offset_us}).fetchall())
    launches, not_looked_at = _launches(con, limits)
    for incarnation in launches:
        seen = attempts.decisive(f"launch {incarnation}", observe, con, incarnation, limits)
        if seen is None:
            continue
        eras = attempts.informative(_ERA, find_eras, con, seen, recorded.frontier) or []
        found = attempts.decisive("hangs and mismatches", find_hangs, con, seen, recorded, limits, ending, eras)
        of_launch = found or []
        nameless = nameless or not seen.processes
        if not reason and seen.processes:
            from_times, powers = _from_eras(con, seen, eras, recorded.coverage, limits, attempts)
            of_launch += [_over(finding, ended.get(incarnation)) for finding in from_times]
            told_from += powers
            judged = judged.with_launch(seen, limits)
        findings += with_ranks(con, seen, of_launch)
    # Of the longest launch.
    resolution = max(told_from, key=lambda launch: launch[0])[1] if told_from else Resolution(None)
    coverage = replace(coverage, least_cost_share=resolution.least_cost_share)
    findings += attempts.informative("lost records", capture_findings, recorded) or []
    findings += not_looked_at
    told = ranked(capped(finding, coverage, limits) for finding in findings)
    alarming = any(finding.severity != "info" for finding in told)
    if not alarming and not reason:
        reason = (_NAMELESS if nameless else "") or ("" if judged.partly else not_ordered(coverage, limits))
        reason = reason or resolution.obstacle or not_resolvable(coverage, limits)
    verdict: Verdict = "findings" if alarming else "not-assessable" if reason else "none-found"
    if not reason:
        weak = [resolution.unjudged] if not alarming and resolution.unjudged else []
        reason = "; ".join([*weak, *judged.unjudged(), *nameless_ranks(con)])
    return attempts.told_in(Diagnosis(run, verdict, coverage, told, reason))


# Launches that ended before the log did.
_ENDED = """
SELECT incarnation, max(last_dump_us) AS end_us
FROM processes
GROUP BY incarnation
QUALIFY max(last_dump_us) + $tolerance < max(max(last_dump_us)) OVER ()
"""


def _over(finding: Finding, launch_ended_us: int | None) -> Finding:
    """What lasted to the end of its launch is over when the log goes on without it."""
    lasting = finding.until_us is None and finding.onset_us is not None
    return replace(finding, until_us=launch_ended_us) if lasting and launch_ended_us is not None else finding


_LAUNCHES = """
SELECT incarnation, sum(records)::BIGINT AS records
FROM processes
GROUP BY incarnation
-- How the last one ended is what somebody wants to know first.
ORDER BY incarnation = max(incarnation) OVER () DESC, records DESC, incarnation
"""


def _launches(con: duckdb.DuckDBPyConnection, limits: Thresholds) -> tuple[list[int], list[Finding]]:
    """The launches to diagnose, in the order of time: the last one and those with most records; and a finding that
    counts the others, if any."""
    launches = con.sql(_LAUNCHES).fetchall()
    chosen, others = (
        launches[: limits.diagnosis.max_diagnosed_launches],
        launches[limits.diagnosis.max_diagnosed_launches :],
    )
    numbers = sorted(incarnation for incarnation, _ in chosen)
    return numbers, [launches_left_out(len(others), others[0][1], len(chosen))] if others else []


def _from_eras(
    con: duckdb.DuckDBPyConnection,
    seen: Observations,
    eras: Sequence[Era],
    coverage: RunCoverage,
    limits: Thresholds,
    attempts: Attempts,
) -> tuple[list[Finding], list[tuple[float, Resolution]]]:
    """What the times of a launch say in all of its eras, and how long each was and what could be seen in it."""
    findings: list[list[Finding] | None] = []
    powers = []
    wholes: Sequence[Era | None] = eras or [None]
    for era in wholes:
        part = seen if era is None else attempts.decisive(_ERA, observe, con, seen.incarnation, limits, era)
        if part is None or not part.processes or not (era is None or tells_times(con)):
            findings.append(None)
            continue
        findings.append(_from_times(con, part, coverage, limits, attempts))
        power = attempts.informative("the smallest visible cost", resolution_of, part, read_spans(con), limits)
        powers.append((float(part.block_us.sum()), power or Resolution(None)))
    return across_eras(eras, findings) if eras else findings[0] or [], powers


def _from_times(
    con: duckdb.DuckDBPyConnection, seen: Observations, coverage: RunCoverage, limits: Thresholds, attempts: Attempts
) -> list[Finding]:
    slow = attempts.decisive("slow transfers", find_slow, seen, limits) or []
    late = attempts.decisive("late ranks", _late, seen, slow, coverage, limits)
    findings = attempts.decisive("slow transfers", transfer_findings, seen, slow, limits) or []
    if late:
        late = attempts.informative("causes of lateness", with_causes, con, late, limits) or late
        findings += attempts.decisive("late ranks", late_findings, seen, late, limits) or []
    elif late is not None:
        findings += attempts.informative("uneven work", find_imbalance, seen, limits) or []
        findings += attempts.informative("work in turns", find_turns, seen, limits) or []
    written = attempts.informative("clocks", read_write_times, con)
    if written is not None:
        findings += attempts.informative("clocks", find_clock_skew, written, seen, limits) or []
    return findings


def _late(seen: Observations, slow: list[Blame], coverage: RunCoverage, limits: Thresholds) -> list[Late]:
    """The late that stand out, and that nothing else explains."""
    late = find_late(seen, limits)
    late += find_hesitations(seen, late, limits)
    late = [entity for entity in late if not _explained(entity, slow, seen)]
    if (coverage.capture_rate or 0) < _WHOLE_LOG:
        # What no collective confirms rests on times alone, and these on what happened to be recorded.
        late = [entity for entity in late if entity.last_share is not None]
    return outstanding(seen, without_uneven_replicas(seen, late), limits)


def _explained(late: Late, slow: list[Blame], seen: Observations) -> bool:
    """Whether an entity may be late because an unrecorded Send or Recv over a slow network or rack kept it."""
    stages = len(seen.stages())
    return (
        stages > 1
        and seen.matched_p2p == 0
        and any(blame.medium != "nvlink" and blame.window.overlap(late.window) for blame in slow)
    )
