"""From a run's views to its diagnosis: coverage first, then hangs, slow transfers and late ranks, each told once."""

from contextlib import closing
from dataclasses import replace

import duckdb

from nixt_pipeline.diagnosis.clocks import find_clock_skew
from nixt_pipeline.diagnosis.findings import Diagnosis, Finding, RunCoverage, ranked
from nixt_pipeline.diagnosis.hangs import find_hangs
from nixt_pipeline.diagnosis.lateness import Late, find_late, late_findings
from nixt_pipeline.diagnosis.observations import Observations, observe
from nixt_pipeline.diagnosis.transfer import Blame, find_slow, transfer_findings
from nixt_pipeline.inspector.operations import SYNC_COLLECTIVES
from nixt_pipeline.settings import Settings, Thresholds
from nixt_pipeline.store import catalog

# Changes whenever a diagnosis would.
VERSION = "1"

_COVERAGE = """
WITH ranks AS (
    SELECT incarnation, sum(n_ranks) AS expected, sum(ranks_seen) AS seen FROM communicators GROUP BY incarnation
),
synchronising AS (
    SELECT
        count(*) AS cells, count(*) FILTER (complete) AS complete,
        count(*) FILTER (complete AND ranks_gpu_timed = n_ranks) AS usable
    FROM cells WHERE n_ranks > 1 AND coll IN (SELECT unnest($sync))
)
SELECT
    (SELECT count(*) FROM processes) AS ranks_seen,
    -- Who never wrote a record is known from the sizes of the communicators only.
    (SELECT ceil(count(*) * coalesce((SELECT sum(expected) / nullif(sum(seen), 0) FROM ranks), 1))::BIGINT
     FROM processes) AS ranks_expected,
    (SELECT count(*) FROM events) AS records,
    s.complete / nullif(s.cells, 0) AS complete_cells,
    s.usable
FROM synchronising AS s
"""


def diagnose(run: str, settings: Settings) -> Diagnosis:
    """Diagnose a stored run whose cells have been built. Raises `UnknownRunError`."""
    with closing(catalog.open_run(settings, run)) as con:
        return diagnose_views(con, run, settings)


def diagnose_views(con: duckdb.DuckDBPyConnection, run: str, settings: Settings) -> Diagnosis:
    """Diagnose the run behind `con`, a connection of `store.catalog.open_run`, from its cells and aggregates.

    Leaves temporary tables on the connection.
    """
    limits = settings.thresholds
    seen, expected, records, complete, usable = con.sql(_COVERAGE, params={"sync": list(SYNC_COLLECTIVES)}).fetchall()[
        0
    ]
    coverage = RunCoverage(int(seen), int(expected), int(records), complete, int(usable))
    if reason := _not_assessable(coverage, limits):
        return Diagnosis(run, "not-assessable", coverage, reason=reason)
    findings: list[Finding] = []
    launches = [row[0] for row in con.sql("SELECT DISTINCT incarnation FROM processes ORDER BY ALL").fetchall()]
    for incarnation in launches:
        findings += _diagnose_launch(con, observe(con, incarnation, limits), limits)
    capped = tuple(_capped(finding, coverage, limits) for finding in ranked(findings))
    return Diagnosis(run, "findings" if capped else "none-found", coverage, ranked(capped))


def _diagnose_launch(con: duckdb.DuckDBPyConnection, seen: Observations, limits: Thresholds) -> list[Finding]:
    slow = find_slow(seen, limits)
    late = [entity for entity in find_late(seen, limits) if not _explained(entity, slow, seen)]
    return [
        *find_hangs(con, seen, limits),
        *transfer_findings(seen, slow, limits),
        *late_findings(seen, late, limits),
        *find_clock_skew(con, seen, limits),
    ]


def _explained(late: Late, slow: list[Blame], seen: Observations) -> bool:
    """Whether somebody may be late because an unrecorded Send or Recv over a slow network kept it."""
    stages = len(seen.stages())
    return (
        stages > 1
        and seen.matched_p2p == 0
        and any(blame.medium == "network" and blame.window.overlap(late.window) for blame in slow)
    )


def _not_assessable(coverage: RunCoverage, limits: Thresholds) -> str:
    """Why nothing can be concluded; empty when something can."""
    if coverage.complete_cells is None:
        return "the log has no AllReduce, AllGather or ReduceScatter among several ranks"
    if coverage.complete_cells < limits.min_assessable_share:
        return (
            f"only {coverage.complete_cells:.1%} of the collectives were recorded by every rank"
            f" (at least {limits.min_assessable_share:.0%} are needed)"
        )
    if coverage.usable_collectives < limits.min_diagnosed_cells:
        return (
            f"only {coverage.usable_collectives} collectives were recorded by every rank with GPU times"
            f" (at least {limits.min_diagnosed_cells} are needed)"
        )
    return ""


def _capped(finding: Finding, coverage: RunCoverage, limits: Thresholds) -> Finding:
    """A finding that rests on less than half of the collectives is not worth waking anybody."""
    thin = coverage.complete_cells is not None and coverage.complete_cells < limits.min_complete_share
    return replace(finding, severity="P2") if thin and finding.severity in ("P0", "P1") else finding
