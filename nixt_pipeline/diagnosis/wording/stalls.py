"""Transfers that stalled occasionally, in words."""

from nixt_pipeline.diagnosis.detectors.stalls import Stalls
from nixt_pipeline.diagnosis.evidence.observations import Observations
from nixt_pipeline.diagnosis.evidence.processes import hosts_of, names_of
from nixt_pipeline.diagnosis.findings import Effect, Finding, Level, severity_by_cost
from nixt_pipeline.quantities import duration, listed, moment, plural
from nixt_pipeline.settings import Thresholds

# Times and names in a sentence.
_SHOWN = 4


def stall_finding(seen: Observations, stalls: Stalls, limits: Thresholds) -> Finding:
    """The finding of stalls across machines, or inside of them."""
    machines = {seen.machines.of[process] for process in stalls.suspects}
    level: Level = "fabric" if stalls.across else "communicator"
    if len(machines) == 1:
        level = "rank" if len(stalls.suspects) == 1 else "host"
    # Of a network, processes are named where others of their machines are cleared: those of a rail.
    whole = {process for process in seen.processes if seen.machines.of[process] in machines} == set(stalls.suspects)
    named = () if level == "fabric" and whole else stalls.suspects
    times = listed([moment(since_us) for since_us, _ in stalls.moments], _SHOWN)
    onset_us, until_us = stalls.moments[0][0], stalls.moments[-1][1]
    number, each = len(stalls.moments), duration(stalls.lost_us / len(stalls.moments))
    often = f"{number} times, for {each} on average" if number > 1 else f"once, for {each}"
    severity = severity_by_cost(stalls.cost_share, 1.0, limits.diagnosis.p1_transfer_ratio, limits)
    return Finding(
        kind="fabric-slow" if level == "fabric" else "slow-transfer",
        severity=severity if number >= limits.diagnosis.min_stalls else "P2",
        level=level,
        hosts=hosts_of(stalls.suspects),
        processes=names_of(named),
        communicators=tuple(sorted({comm.id for comm in stalls.communicators})),
        ambiguous=len(machines) > 1,
        onset_us=onset_us,
        until_us=until_us,
        effect=Effect(
            min(1.0, stalls.lost_us / (until_us - onset_us)), None, stalls.lost_us * len(stalls.members) / 1e6
        ),
        evidence=(
            f"Transfers {'between' if stalls.across else 'inside'} hosts stalled {often}, on"
            f" {plural(len(stalls.communicators), 'communicator')}, and were as fast as usual otherwise: {times}. That"
            f" is {stalls.cost_share:.1%} of the whole time; all ranks of these collectives had arrived."
        ),
        counter_evidence=_but(len(machines)),
        next_step=_NEXT_ACROSS if stalls.across else _NEXT_INSIDE,
    )


def _but(machines: int) -> str:
    held_up = "A job that was suspended, or whose network proxy threads got no CPU, would look the same."
    if machines == 1:
        return f"Every path that stalled includes it, and no peer without a stall does. {held_up}"
    if machines:
        return f"Every path that stalled includes these {machines} machines: any of them may be the cause. {held_up}"
    return f"The paths that stalled share no machine that peers without a stall do not include as well. {held_up}"


_NEXT_ACROSS = (
    "Look for link flaps and retransmissions at these times: `ibstat`, `perfquery` or `ethtool -S` on the hosts, port"
    " and event logs of the switches, kernel logs (`mlx5`, `link down`), NCCL's IB timeout and retry settings."
)
_NEXT_INSIDE = (
    "Look at these times for NVLink errors (`nvidia-smi nvlink -e`), Xid messages in the kernel log, fabric manager"
    " logs, and whether something else used the GPUs."
)
