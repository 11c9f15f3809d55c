"""Slow transfers in words, with what they cost."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nixt_pipeline.diagnosis.detectors.lengthening import lengthened_us
from nixt_pipeline.diagnosis.detectors.transfer import Blame, Medium, Path
from nixt_pipeline.diagnosis.evidence.observations import Communicator, Observations
from nixt_pipeline.diagnosis.evidence.processes import Process, name_of, names_of
from nixt_pipeline.diagnosis.findings import Effect, Finding, Severity, severity_by_cost
from nixt_pipeline.quantities import listed, plural
from nixt_pipeline.settings import Thresholds

# Names in a sentence, and paths that are named with their members.
_SHOWN = 4
_SHOWN_PATHS = 2


@dataclass(frozen=True)
class _Costs:
    """What slow transfers cost a member, as a share of the time; by `ratio`, how many times as long they take; what all
    members lost, in microseconds; and the share of the time by which a member's transfers are longer, which the job
    need not be."""

    share: float
    ratio: float
    lost_us: float
    excess_share: float


def transfer_findings(seen: Observations, blames: Sequence[Blame], limits: Thresholds) -> list[Finding]:
    """In words, with what the slow paths cost: the time that a member spends in them beyond the reference, but no more
    than the job became longer."""
    findings = []
    for blame in blames:
        costs = _costs(seen, blame, limits)
        # What hardly costs the job anything is worth a note when it lasts.
        lasting = blame.window.marked >= limits.diagnosis.min_blocks_without_cost
        if costs.excess_share >= limits.diagnosis.p2_cost_share or lasting:
            severity = _severity(seen, blame, costs, lasting, limits)
            unlogged = _without_log(seen, blame)
            findings.append(
                _rank_without_log(seen, blame, unlogged, costs)
                if unlogged
                else _finding(seen, blame, "P2" if blame.comes_and_goes else severity, costs)
            )
    return findings


def _severity(seen: Observations, blame: Blame, costs: _Costs, lasting: bool, limits: Thresholds) -> Severity:
    """A link that is slow for long is defective. What was slow and no longer is, while nothing stayed fast, may have
    been congested, as a fabric: what that cost of the whole job decides."""
    share, defective = costs.share, limits.diagnosis.p1_transfer_ratio if lasting else float("inf")
    everywhere = blame.level == "fabric" or (blame.ambiguous and not blame.healthy)
    if everywhere and blame.window.last < seen.blocks - 1:
        share *= float(seen.block_us[blame.window.part()].sum() / seen.block_us.sum())
        defective = float("inf")
    return severity_by_cost(share, costs.ratio, defective, limits)


def _costs(seen: Observations, blame: Blame, limits: Thresholds) -> _Costs:
    part = blame.window.part()
    by_member: dict[Process, float] = defaultdict(float)
    for item in blame.slow:
        for member in item.path.members:
            by_member[member] += item.path.excess_us(part)
    elapsed_us, excess_us = float(seen.block_us[part].sum()), max(by_member.values())
    lengthened = lengthened_us(seen.block_us, blame.window, limits)
    # What overlaps computation takes longer, and the job does not.
    felt = 1.0 if lengthened is None or excess_us <= lengthened else lengthened / excess_us
    share = min(1.0, excess_us / elapsed_us) if elapsed_us > 0 else 0.0
    felt_share = min(share, felt * excess_us / elapsed_us) if elapsed_us > 0 else 0.0
    ratio = _ratio([item.path for item in blame.slow], part)
    return _Costs(felt_share, ratio, felt * sum(by_member.values()), share)


def _ratio(paths: list[Path], part: slice) -> float:
    """Time against reference in the middle block: the first one may have the connecting in it."""
    if not paths:
        return float("nan")
    reference = np.nansum([path.reference_us[part] for path in paths], axis=0)
    time = np.nansum([path.time_us[part] for path in paths], axis=0)
    recorded = reference > 0
    return float(np.median(time[recorded] / reference[recorded])) if recorded.any() else float("nan")


def _finding(seen: Observations, blame: Blame, severity: Severity, costs: _Costs) -> Finding:
    processes = names_of(blame.processes)
    communicators = tuple(sorted({seen.communicators[item.path.comm].id for item in blame.slow}))
    healthy = _ratio(list(blame.healthy), blame.window.part())
    cleared = (
        f"{len(blame.healthy)} comparable paths stayed at {healthy:.2f} times their best, which clears all on them."
        if blame.healthy
        else "No comparable path stayed fast, so nothing is cleared."
    )
    return Finding(
        kind="fabric-slow" if blame.level == "fabric" else "slow-transfer",
        severity=severity,
        level=blame.level,
        hosts=tuple(sorted(blame.hosts)),
        processes=processes,
        communicators=communicators,
        ambiguous=blame.ambiguous,
        onset_us=blame.window.onset_us(seen.block_end_us),
        until_us=blame.window.until_us(seen.block_end_us),
        effect=Effect(costs.share, costs.ratio, costs.lost_us / 1e6),
        evidence=(
            f"Transfers {_WITHIN[blame.medium]} take {costs.ratio:.2g} times as long as the best of their kind, on"
            f" {plural(len(blame.slow), 'path')} of {plural(len(communicators), 'communicator')}, in"
            f" {blame.window.length} of {seen.blocks} time blocks;"
            f" the excess costs a member {costs.excess_share:.1%} of the time{_hidden(costs)}.{_victims(blame)}"
        ),
        counter_evidence=f"{cleared} {_WHY[blame.level]}{_CONGESTION if blame.comes_and_goes else ''}"
        f"{_or_a_host(blame)}{_not_compared(seen)}",
        next_step=_FABRIC_OR_HOST[blame.medium] if _or_a_host(blame) else _NEXT[blame.level, blame.medium],
        place="" if blame.hosts or blame.level != "communicator" else _place(seen, blame),
    )


def _hidden(costs: _Costs) -> str:
    """That computation covers a part of it."""
    if costs.share >= costs.excess_share:
        return ""
    return f", of which the job became {costs.share:.1%} longer: the rest is hidden behind computation"


def _without_log(seen: Observations, blame: Blame) -> list[Communicator]:
    """The communicators of the slow paths, if each of them has ranks that left no log."""
    comms = [seen.communicators[number] for number in sorted({item.path.comm for item in blame.slow})]
    return comms if all(len(comm.members) < comm.n_ranks for comm in comms) else []


def _rank_without_log(seen: Observations, blame: Blame, comms: list[Communicator], costs: _Costs) -> Finding:
    """What slow transfers are where each path has ranks without a log: all others may have waited for one of these, so
    that no time is that of the transfer alone, and nobody who left a log is accused."""
    shown = listed([f"{comm.n_ranks - len(comm.members)} of {comm.n_ranks} in {comm.label}" for comm in comms], _SHOWN)
    links = f"NVLink on {listed(list(blame.hosts), _SHOWN)}" if blame.medium == "nvlink" else "the network"
    return Finding(
        kind="late-arrival",
        severity="P2",
        level="communicator",
        communicators=tuple(sorted({comm.id for comm in comms})),
        ambiguous=True,
        onset_us=blame.window.onset_us(seen.block_end_us),
        until_us=blame.window.until_us(seen.block_end_us),
        effect=Effect(costs.share, None, costs.lost_us / 1e6),
        evidence=(
            f"Collectives {_WITHIN[blame.medium]} take {costs.ratio:.2g} times as long as the best of their kind on all"
            f" ranks that left a log, in {blame.window.length} of {seen.blocks} time blocks; the excess costs a member"
            f" {costs.excess_share:.1%} of the time{_hidden(costs)}. Other ranks left none: {shown}."
        ),
        counter_evidence=(
            f"That all wait for a rank without a log and that {links} is slow look the same.{_not_compared(seen)}"
        ),
        next_step=(
            "Find out why these ranks left no log, and look first at what they do between collectives (GPU clocks and"
            f" throttling, data loader, CPU), then at {links}."
        ),
        place=f"a rank without a log ({shown}) or {links}",
    )


def _not_compared(seen: Observations) -> str:
    """What may cost more, of sizes that hardly ever repeat."""
    kinds, share = seen.not_compared
    if not kinds:
        return ""
    return f" What {kinds:,} further functions and sizes cost, with {share:.0%} of the bytes, is not counted."


def _or_a_host(blame: Blame) -> str:
    """That one host may be at fault as well as the fabric, because every path includes it."""
    if blame.level != "fabric" or not blame.hosts:
        return ""
    what = "slow network cards" if blame.medium == "network" else "slow NVLinks"
    return f" So would {what} of one host that is on every path: {listed(list(blame.hosts), _SHOWN)}."


def _place(seen: Observations, blame: Blame) -> str:
    """The slow paths by the names of their communicators and, of a few, by their members; only the one whose members
    are the suspects, where there is such."""
    paths = list({(item.path.comm, item.path.members): item.path for item in blame.slow}.values())
    paths = [path for path in paths if set(path.members) == set(blame.processes)][:1] or paths
    if len(paths) > _SHOWN_PATHS:
        return listed(sorted({seen.communicators[path.comm].label for path in paths}), _SHOWN)
    return "; ".join(
        f"{seen.communicators[path.comm].label} ({listed([name_of(process) for process in path.members], _SHOWN)}"
        f"{_local_rank(seen, path)})"
        for path in paths
    )


def _local_rank(seen: Observations, path: Path) -> str:
    """Which of each host's processes are on the path, counted from 0 by process id and rank, when it is the same one: a
    rail."""
    machine_of = seen.machines.of
    on_host: dict[str, list[Process]] = defaultdict(list)
    for process in seen.processes:
        on_host[machine_of[process]].append(process)
    positions = {on_host[machine_of[process]].index(process) for process in path.members}
    several = all(len(on_host[machine]) > 1 for machine in path.machines)
    return f": process {positions.pop()} of each host" if len(positions) == 1 and several else ""


def _victims(blame: Blame) -> str:
    """Who is on the slow paths and not at fault."""
    victims = sorted(frozenset().union(*(item.path.hosts for item in blame.slow)) - set(blame.hosts))
    if not victims or blame.level == "fabric" or not blame.hosts:
        return ""
    return f" Victims, slow on these paths only: {listed(victims, _SHOWN)}."


_WITHIN: dict[Medium, str] = {
    "nvlink": "inside the host (NVLink or PCIe)",
    "rack": "between hosts of one NVLink domain",
    "network": "between hosts",
}

_CONGESTION = " It is intermittent, and as fast as usual in between: other jobs on the network may be the only reason."

_WHY: dict[str, str] = {
    "host": "The slow paths have nothing else in common that is not cleared.",
    "rank": "Its host also has fast paths, so only a part of the host is slow.",
    "communicator": "Every host on the slow paths also has fast ones, so no whole host is at fault.",
    "fabric": "A change of NCCL's algorithm or settings, or another job's traffic, would look the same.",
}

_FABRIC_OR_HOST: dict[Medium, str] = {
    "network": "The fabric, or one host that is on every path. To tell them apart, measure between pairs of these hosts"
    " (with nccl-tests or ib_write_bw): if the pairs with one host are slow and the others fast, it is that host's"
    " card, and the next job should run without it. If all pairs are slow, check switches, routing and congestion at"
    " that time. Compare link speed and error counters of the hosts' cards first.",
    "rack": "The NVLink switches, or one host that is on every path. To tell them apart, measure between pairs of these"
    " hosts (with nccl-tests): if the pairs with one host are slow and the others fast, it is that host's NVLinks. If"
    " all are slow, check the switch trays and their fabric manager. Network cards do not carry this.",
}

_NEXT: dict[tuple[str, str], str] = {
    ("host", "network"): "Check the host's network cards: link speed and width, error and retransmission counters,"
    " PCIe link; then its switch ports. Its GPUs are not the suspect.",
    ("host", "nvlink"): "Check NVLink on the host: `nvidia-smi nvlink -s` and `-e`, NVSwitch and fabric manager logs,"
    " and whether NCCL fell back to PCIe or shared memory.",
    ("rank", "network"): "Check the network card nearest to this GPU (affinity, link speed, error counters).",
    ("rank", "nvlink"): "Check this GPU's NVLinks: `nvidia-smi nvlink -s -i <gpu>`.",
    (
        "host",
        "rack",
    ): "Check the host's NVLinks and NVSwitch ports: `nvidia-smi nvlink -s` and `-e`, switch tray and fabric"
    " manager logs, IMEX. Network cards do not carry this.",
    ("rank", "rack"): "Check this GPU's NVLinks and their switch ports: `nvidia-smi nvlink -s -i <gpu>` and `-e`.",
    ("communicator", "rack"): "These groups share something below the hosts: compare the NVLink ports and switch trays"
    " that they use with those of the fast ones.",
    ("fabric", "rack"): "Check the NVLink switches and their fabric manager, and whether NCCL settings changed. Network"
    " cards do not carry this, and draining a host will not help.",
    ("communicator", "network"): "These rings share something below the hosts: compare the cards and the rail switch"
    " that they use with those of the fast rings.",
    ("communicator", "nvlink"): "Check the links among the GPUs of these communicators; others on the host are fast.",
    ("fabric", "network"): "Check switches, routing and congestion at that time, other jobs' traffic, and whether NCCL"
    " settings changed. Draining a host will not help.",
}
