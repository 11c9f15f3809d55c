"""Waiting without a fault, in words."""

from collections.abc import Sequence
from dataclasses import replace

from nixt_pipeline.diagnosis.detectors.imbalance import HeavyStage, SlowStage, Turns
from nixt_pipeline.diagnosis.evidence.observations import Observations
from nixt_pipeline.diagnosis.evidence.processes import names_of
from nixt_pipeline.diagnosis.findings import Effect, Finding
from nixt_pipeline.quantities import plural


def imbalance_finding(seen: Observations, suspect: SlowStage | HeavyStage | Turns) -> Finding:
    """The finding of one suspect."""
    match suspect:
        case SlowStage():
            return _slow_stage(seen, suspect)
        case HeavyStage():
            return _heavy_stage(suspect)
        case Turns():
            return _turns(suspect)


def once_for_launches(findings: Sequence[Finding]) -> list[Finding]:
    """The findings of all launches, in which ranks that wait for one another in turns are reported once."""
    turns = [finding for finding in findings if finding.kind == "imbalance" and not finding.hosts]
    others = [finding for finding in findings if finding not in turns]
    if len(turns) > 1:
        launches = plural(len(turns) - 1, "more launch", "more launches")
        turns = [replace(turns[0], evidence=f"{turns[0].evidence} Likewise in {launches}.")]
    return [*others, *turns]


def _slow_stage(seen: Observations, slow: SlowStage) -> Finding:
    host, window = slow.host, slow.window
    return Finding(
        kind="late-arrival",
        severity="P2",
        level="host",
        hosts=(host,),
        processes=names_of(process for process in seen.processes if process[0] == host),
        onset_us=window.onset_us(seen.block_end_us),
        until_us=window.until_us(seen.block_end_us),
        effect=Effect(slow.cost_share, slow.slowdown, slow.lost_us * len(seen.processes) / 1e6),
        evidence=(
            f"{host}, a pipeline stage of its own, computes {slow.slowdown:.2g} times as long against the other stages"
            f" as it did before, in {window.length} of {seen.blocks} time blocks."
        ),
        counter_evidence="No other host does the same work: a change of the work of this stage would look the same.",
        next_step=f"Look at GPU clocks, power and temperature of {host}, and whether its stage got more work.",
    )


def _heavy_stage(heavy: HeavyStage) -> Finding:
    return Finding(
        kind="imbalance",
        severity="info",
        level="run",
        hosts=heavy.hosts,
        evidence=(
            f"All processes of one of {heavy.stages} pipeline stages compute {heavy.ratio:.2g} times as long as those"
            " of the other stages, throughout the job."
        ),
        counter_evidence="Expected from its pipeline role, not a fault: embedding, loss, or more layers.",
        next_step="Balance the layers of the pipeline's stages if the waiting of the others matters.",
    )


def _turns(turns: Turns) -> Finding:
    return Finding(
        kind="imbalance",
        severity="info",
        level="run",
        evidence=(
            f"In the median of {turns.communicators} communicators, ranks wait {turns.waiting_share:.1%} of the"
            f" time for one another, and the one most waited for causes {turns.most_share:.0%} of it."
        ),
        counter_evidence="No rank is last for long: uneven batches, experts or host noise, not a slow component.",
        next_step="Look at how evenly work is distributed: sequence lengths, expert routing, garbage collection.",
    )
