"""How late somebody must have been to stand out: what "nobody is late" is worth.

The test for late ones is turned round: the deficits of a run vary from block to block, more so when records are
missing, and who lacks less than that variation explains is not told.
"""

from nixt_pipeline.diagnosis.findings import RunCoverage
from nixt_pipeline.diagnosis.lateness import deficits
from nixt_pipeline.diagnosis.observations import Observations
from nixt_pipeline.diagnosis.windows import noise_of
from nixt_pipeline.settings import Thresholds


def least_cost_share(seen: Observations, limits: Thresholds) -> float | None:
    """The share of the time from which on a process that is late in half of the job is told, in the pipeline stage
    where least can be told. None when no two processes do the same work."""
    late, _ = deficits(seen)
    index = {process: row for row, process in enumerate(seen.processes)}
    shares = []
    for stage in seen.stages():
        rows = sorted(index[process] for process in stage)
        if len(rows) > 1:
            noise = noise_of([(late[row] / seen.block_us, None) for row in rows])
            length = max(limits.min_blocks, seen.blocks // 2)
            # Half of the chance, for there are two tests of which one must exclude it.
            shares.append(noise.least(limits.max_chance / 2, length, seen.blocks, len(rows)) + limits.min_cost_share)
    return max(*shares, limits.p2_cost_share) if shares else None


def not_resolvable(coverage: RunCoverage, limits: Thresholds) -> str:
    """Why it cannot be said that nobody is late; empty when it can."""
    share = coverage.least_cost_share
    if share is None or share <= limits.assessable_cost_share:
        return ""
    return (
        f"the recorded times vary so much that a process which is late in half of the job would be told only if it cost"
        f" more than {share:.0%} of the time (at most {limits.assessable_cost_share:.0%} make a verdict)"
    )
