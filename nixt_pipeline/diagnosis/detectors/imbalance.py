"""Waiting that is nobody's fault: a pipeline stage with more work, ranks that take turns at being last.

The first and the last stage of a pipeline have an embedding or a loss more than others. That is a role and no fault
as long as all of their processes are alike and it does not change. Where a stage is one host only, a change is what
tells a slow host from a stage with more work.
"""

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from nixt_pipeline.diagnosis.detectors.windows import Window, densest_window, noise_of
from nixt_pipeline.diagnosis.evidence.observations import Observations
from nixt_pipeline.diagnosis.evidence.processes import hosts_of, names_of
from nixt_pipeline.diagnosis.findings import Effect, Finding
from nixt_pipeline.settings import Thresholds

Floats = NDArray[np.float64]

# A stage that became slow soon after the start was fast in a tenth of the job.
_FASTEST = 0.1


def find_imbalance(seen: Observations, limits: Thresholds) -> list[Finding]:
    """Stages with more work than the others, hosts that are a stage of their own and became slow, and waiting in turns.

    Stages can be compared only when Send and Recv were recorded: otherwise their waiting is unknown.
    """
    findings = []
    if len(seen.stages()) > 1 and seen.matched_p2p > 0:
        work = _work(seen)
        for number in range(len(work)):
            others = np.delete(work, number, axis=0)
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.nan_to_num(work[number] / np.median(others, axis=0), nan=1.0, posinf=1.0)
            changed = _changed(ratio, work[number], limits)
            hosts = hosts_of(seen.stages()[number])
            if changed is not None and len(hosts) == 1:
                findings.append(_slow_stage(seen, hosts[0], *changed, work[number]))
            elif changed is None and float(np.median(ratio)) >= limits.diagnosis.min_slowdown:
                findings.append(_heavy_stage(hosts, float(np.median(ratio)), len(work)))
    return findings


def find_turns(seen: Observations, limits: Thresholds) -> list[Finding]:
    """Waiting that costs as much as a late rank would, but is now for this one and now for that one."""
    by_comm: dict[int, dict[object, float]] = defaultdict(lambda: defaultdict(float))
    for arrival in seen.arrivals:
        by_comm[arrival.comm][arrival.process] += arrival.waited_us
    total = float(seen.block_us.sum())
    shares = [sum(waited.values()) / total for waited in by_comm.values()]
    turns = [max(waited.values()) / sum(waited.values()) for waited in by_comm.values()]
    if (
        not shares
        or np.median(shares) < limits.diagnosis.p2_cost_share
        or np.median(turns) >= limits.diagnosis.min_last_share
    ):
        return []
    return [
        Finding(
            kind="imbalance",
            severity="info",
            level="run",
            evidence=(
                f"In the middle one of {len(shares)} communicators, ranks wait {np.median(shares):.1%} of the time for"
                f" one another, and the one most waited for has {np.median(turns):.0%} of it."
            ),
            counter_evidence="Nobody comes last for long: uneven batches, experts or hosts' noise, not a slow part.",
            next_step="Look at how evenly work is dealt out: sequence lengths, expert routing, garbage collection.",
        )
    ]


def _work(seen: Observations) -> Floats:
    """Microseconds outside of communication by stage and block, of the middle process."""
    index = {process: row for row, process in enumerate(seen.processes)}
    outside = np.clip(seen.block_us - seen.communicating, 0, None)
    return np.array([np.median(outside[[index[p] for p in stage]], axis=0) for stage in seen.stages()])


def _changed(ratio: Floats, work: Floats, limits: Thresholds) -> tuple[Window, float] | None:
    """The stretch in which a stage works longer than in the rest of the job, by itself and against the other stages,
    and how many times as long against those; if chance does not explain it."""
    marks = (_beyond(ratio, ratio, _FASTEST) >= limits.diagnosis.min_slowdown - 1) & (
        _beyond(work, work, _FASTEST) >= limits.diagnosis.min_slowdown - 1
    )
    # Warming up takes some longer than others.
    marks[0] = False
    window = densest_window(marks)
    if window is None or window.marked < limits.diagnosis.min_blocks or window.density < limits.diagnosis.min_density:
        return None
    usual = np.ones(len(ratio), dtype=bool)
    usual[window.part()] = False
    if usual[1:].sum() < limits.diagnosis.min_blocks:
        return None
    usual[0] = False
    beyond = np.minimum(_beyond(ratio, ratio[usual], 0.5), _beyond(work, work[usual], 0.5))
    within = beyond[window.part()]
    chance = noise_of([(beyond, window)]).chance(within - (limits.diagnosis.min_slowdown - 1) / 2, window, 1)
    if chance > limits.diagnosis.max_chance or np.median(within) < limits.diagnosis.min_slowdown - 1:
        return None
    return window, 1 + float(np.median(_beyond(ratio, ratio[usual], 0.5)[window.part()]))


def _beyond(values: Floats, usual: Floats, quantile: float) -> Floats:
    level = float(np.quantile(usual, quantile))
    return values / level - 1 if level > 0 else np.zeros_like(values)


def _slow_stage(seen: Observations, host: str, window: Window, slowdown: float, work: Floats) -> Finding:
    part = window.part()
    lost = float((work[part] * (1 - 1 / slowdown)).sum())
    return Finding(
        kind="late-arrival",
        severity="P2",
        level="host",
        hosts=(host,),
        processes=names_of(process for process in seen.processes if process[0] == host),
        onset_us=window.onset_us(seen.block_end_us),
        until_us=window.until_us(seen.block_end_us),
        effect=Effect(lost / float(seen.block_us[part].sum()), slowdown, lost * len(seen.processes) / 1e6),
        evidence=(
            f"{host}, a pipeline stage of its own, computes {slowdown:.2g} times as long against the other stages as it"
            f" did before, in {window.length} of {seen.blocks} stretches of the job."
        ),
        counter_evidence="No other host does the same work: a change of the work of this stage would look the same.",
        next_step=f"Look at GPU clocks, power and temperature of {host}, and whether its stage got more work.",
    )


def _heavy_stage(hosts: tuple[str, ...], ratio: float, stages: int) -> Finding:
    return Finding(
        kind="imbalance",
        severity="info",
        level="run",
        hosts=hosts,
        evidence=(
            f"All processes of one of {stages} pipeline stages compute {ratio:.2g} times as long as those of the other"
            " stages, throughout the job."
        ),
        counter_evidence="It is a role and no fault: embedding, loss, or more layers than the other stages have.",
        next_step="Balance the layers of the pipeline's stages if the others' waiting matters.",
    )
