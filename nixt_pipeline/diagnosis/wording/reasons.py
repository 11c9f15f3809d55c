"""Why nothing can be concluded, and what could not be judged, in sentences."""

from collections.abc import Mapping

from nixt_pipeline.diagnosis.detectors.resolution import Judged, Obstacle, Unjudged
from nixt_pipeline.diagnosis.evidence.processes import names_of
from nixt_pipeline.diagnosis.findings import REPLAYED, RunCoverage
from nixt_pipeline.quantities import listed
from nixt_pipeline.settings import Thresholds

# Names in a sentence.
_SHOWN = 8

_NOBODY_COMPARED = "no two processes are known to do the same work, so none can be called late"
OBSTACLES: Mapping[Obstacle, str] = {
    "several GPUs": "processes drive several GPUs that the log does not tell apart",
    "nobody compared": _NOBODY_COMPARED,
}
UNJUDGED: Mapping[Unjudged, str] = {
    "late process": f"whether a process is late could not be judged: {_NOBODY_COMPARED}; transfers could",
    "late host": "whether a whole host is late could not be judged: the processes that do the same work are on one host"
    " each time, and no two hosts can be compared",
}
NAMELESS = "the records of a launch do not say which host and which process wrote them"


def nameless_ranks(nameless: tuple[int, int] | None) -> list[str]:
    """That some ranks could not be judged, whose records do not say which host and which process wrote them: how many,
    of how many; nothing where all do."""
    if nameless is None:
        return []
    return [
        f"whether {nameless[0]} of {nameless[1]} ranks of a communicator are late could not be judged, for their"
        " records do not say which host and which process wrote them"
    ]


def unjudged(judged: Judged) -> list[str]:
    """What could not be judged; a run of which nothing could has a reason of its own."""
    names = names_of(judged.left_out)
    replays = (
        f"whether one of {len(names)} processes is late could not be judged, for their collectives {REPLAYED}:"
        f" {listed(names, _SHOWN)}"
    )
    kinds, share = judged.not_compared
    transfers = (
        f"whether transfers of {kinds:,} functions and sizes ({share:.0%} of the bytes) are slow was not assessed"
    )
    return [*([replays] if judged.partly else []), *([transfers] if kinds else [])]


def not_assessable(coverage: RunCoverage, limits: Thresholds) -> str:
    """Why nothing can be concluded from times; empty when something can."""
    if coverage.complete_cells is None:
        return "the log has no AllReduce, AllGather or ReduceScatter among several ranks"
    if (coverage.capture_rate or 0) < limits.diagnosis.min_assessable_share:
        return (
            f"only {coverage.capture_rate or 0:.1%} of the collectives' records are there"
            f" (at least {limits.diagnosis.min_assessable_share:.0%} are needed)"
        )
    if coverage.gpu_timed is not None and coverage.gpu_timed < limits.diagnosis.min_complete_share:
        return (
            f"{1 - coverage.gpu_timed:.0%} of the times were taken by the CPU: they show when a kernel was launched and"
            " noticed, not how long it ran; set NCCL_INSPECTOR_REQUIRE_KERNEL_TIMING=1"
        )
    if coverage.sized is not None and coverage.sized < limits.diagnosis.min_complete_share:
        return (
            f"{1 - coverage.sized:.0%} of the collectives have no message size; without it gradients look like control"
            " messages, and which processes do the same work is not known"
        )
    if coverage.usable_collectives < limits.diagnosis.min_diagnosed_cells:
        return _mostly_replayed(coverage, 0.5) or (
            f"only {coverage.usable_collectives} collectives were recorded by several ranks with GPU times"
            f" (at least {limits.diagnosis.min_diagnosed_cells} are needed)"
        )
    return ""


def not_ordered(coverage: RunCoverage, limits: Thresholds) -> str:
    """Why it cannot be said that no rank is late in the replays of CUDA graphs; empty when it can."""
    return _mostly_replayed(coverage, limits.diagnosis.max_unordered_share)


def _mostly_replayed(coverage: RunCoverage, share: float) -> str:
    """The reason, where more than a `share` of the collectives repeats a number and cannot be distinguished."""
    seen = coverage.usable_collectives + sum(coverage.left_out.values())
    kept = seen - coverage.left_out.get(REPLAYED, 0)
    which = f"all but {kept:,} of {seen:,}" if kept else f"all {seen:,}"
    return f"{which} collectives {REPLAYED}" if coverage.replayed_share > share else ""


def not_resolvable(coverage: RunCoverage, limits: Thresholds) -> str:
    """Why it cannot be said that no rank is late; empty when it can."""
    share = coverage.least_cost_share
    if share is None or share <= limits.diagnosis.assessable_cost_share:
        return ""
    return (
        f"the recorded times vary so much that a process which is late half of the time would be found only if it cost"
        f" more than {share:.0%} of the time (at most {limits.diagnosis.assessable_cost_share:.0%} make a verdict)"
    )
