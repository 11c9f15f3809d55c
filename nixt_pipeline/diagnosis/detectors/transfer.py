"""Whose transfers are slow: every path against its peers and against its own better times, then who they share.

The shortest time in a complete collective, and the shorter of a matched Send and Recv, is the transfer itself. A ring
moves at the speed of its slowest member, so that one slow card slows every path through it, and a path that is fast
clears all on it. What is left explains all slow paths; where several are left, all are named and none is blamed.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Literal

import numpy as np
import scipy  # its parts are loaded when they are used: scipy.stats takes longer than all else

from nixt_pipeline.arrays import Floats, Marks
from nixt_pipeline.diagnosis.detectors.suspect import Suspect
from nixt_pipeline.diagnosis.detectors.windows import Window, chance, densest_window
from nixt_pipeline.diagnosis.evidence.observations import Observations, Transfer
from nixt_pipeline.diagnosis.evidence.parts import in_lockstep
from nixt_pipeline.diagnosis.evidence.processes import Process, hosts_of
from nixt_pipeline.diagnosis.findings import Level
from nixt_pipeline.settings import Thresholds

# Within a host; between hosts of one NVLink domain (a rack such as NVL72); between others.
Medium = Literal["nvlink", "rack", "network"]
MEDIA: tuple[Medium, ...] = ("nvlink", "rack", "network")

# The reference of a kind of transfer: what its best tenth of path and block reaches. A median would call "normal" what
# more than half of the job suffers from.
_BEST_SHARE = 0.1


# Congested blocks come in clusters, which the binomial does not know: a tenth of the chance that others are given.
_CLUSTERED = 0.1


@dataclass(frozen=True)
class Path:
    """A collective of a communicator, or an edge between two processes, and on which of the `machines` they are: its
    times by block against the reference.

    `time_us` and `reference_us` are sums over the block (NaN where nothing was recorded).
    """

    comm: int
    members: tuple[Process, ...]
    machines: frozenset[str]
    medium: Medium
    time_us: Floats
    reference_us: Floats

    @property
    def hosts(self) -> frozenset[str]:
        """The names of the hosts where it runs; machines whose containers have names of their own have several."""
        return frozenset(hosts_of(self.members))

    def ratio(self, part: slice) -> float:
        """Time against reference over a stretch; NaN when nothing was recorded in it."""
        reference = float(np.nansum(self.reference_us[part]))
        return float(np.nansum(self.time_us[part])) / reference if reference > 0 else float("nan")

    def usual_ratio(self, part: slice) -> float:
        """Time against reference in the middle block of a stretch, which neither warm-up nor congestion moves; NaN when
        nothing was recorded in it."""
        ratios = np.divide(self.time_us[part], self.reference_us[part])
        known = ratios[~np.isnan(ratios)]
        return float(np.median(known)) if len(known) else float("nan")

    def excess_us(self, part: slice) -> float:
        """Microseconds beyond the reference over a stretch."""
        return max(0.0, float(np.nansum(self.time_us[part] - self.reference_us[part])))


@dataclass(frozen=True)
class SlowPath:
    """A path with the stretch in which it is slow."""

    path: Path
    window: Window


@dataclass(frozen=True)
class Blame(Suspect):
    """Who explains a set of slow paths of one medium: the left-over machines, which have these `hosts`, or processes,
    or the paths themselves. Of the fabric, they are those that are on every path: one of them may be it instead.
    `comes_and_goes`: it is as fast as ever in between, as where other jobs use it as well."""

    medium: Medium
    level: Level
    machines: tuple[str, ...]
    hosts: tuple[str, ...]
    processes: tuple[Process, ...]
    ambiguous: bool
    slow: tuple[SlowPath, ...]
    healthy: tuple[Path, ...]
    window: Window
    comes_and_goes: bool = False


def paths_of(seen: Observations, limits: Thresholds) -> list[Path]:
    """Every path that carries messages large enough to show bandwidth, compared with its alike."""
    large = [t for t in seen.transfers if t.size_bytes >= limits.analysis.large_message_bytes]
    machine_of = seen.machines.of
    racks, lanes = _racks(seen), in_lockstep(seen.communicators, large)
    alike: dict[tuple[Medium, int, tuple[object, ...]], list[float]] = defaultdict(list)
    by_path: dict[tuple[int, tuple[Process, ...]], list[Transfer]] = defaultdict(list)
    for transfer in large:
        lane = lanes[transfer.comm, transfer.alike]
        alike[_medium(transfer, machine_of, racks), lane, transfer.alike].append(transfer.transfer_us)
        by_path[transfer.comm, tuple(sorted(transfer.members))].append(transfer)
    reference = {kind: float(np.quantile(times, _BEST_SHARE)) for kind, times in alike.items()}
    paths = []
    for (comm, members), transfers in sorted(by_path.items()):
        time, expected = np.zeros((2, seen.blocks))
        medium = _medium(transfers[0], machine_of, racks)
        for transfer in transfers:
            time[transfer.block] += transfer.transfer_us * transfer.stands_for
            lane = lanes[transfer.comm, transfer.alike]
            expected[transfer.block] += reference[medium, lane, transfer.alike] * transfer.stands_for
        unknown = expected == 0
        time[unknown] = expected[unknown] = np.nan
        machines = frozenset(machine_of[member] for member in members)
        paths.append(Path(comm, members, machines, medium, time, expected))
    return paths


def _racks(seen: Observations) -> dict[str, frozenset[str]]:
    """The machines of the same NVLink domain, by machine: NCCL counts a domain as one node, however many it has. Where
    a communicator has several of them, neighbours in the order of ranks share one."""
    racks: dict[str, frozenset[str]] = {}
    for comm in seen.communicators:
        machines = list(dict.fromkeys(seen.machines.of[member] for member in comm.members))
        size, odd = divmod(len(machines), max(comm.nnodes, 1))
        if odd or size < 2:
            continue
        for first in range(0, len(machines), size):
            joined = frozenset(machines[first : first + size])
            joined = joined.union(*(racks.get(machine, frozenset()) for machine in joined))
            racks.update(dict.fromkeys(joined, joined))
    return racks


def _medium(transfer: Transfer, machine_of: Mapping[Process, str], racks: Mapping[str, frozenset[str]]) -> Medium:
    """What carries a transfer between its members, by where they are."""
    machines = frozenset(machine_of[member] for member in transfer.members)
    if len(machines) == 1:
        return "nvlink"
    return "rack" if racks.get(min(machines), frozenset()) >= machines else "network"


def _widened(paths: list[Path], limits: Thresholds) -> Thresholds:
    """The thresholds for slow and for healthy, further from one another where times vary by themselves."""
    steps = [np.diff(path.time_us / path.reference_us) for path in paths]
    known = np.concatenate([step[~np.isnan(step)] for step in steps]) if steps else np.zeros(0)
    deviation = float(scipy.stats.median_abs_deviation(known, scale="normal")) / sqrt(2) if len(known) else 0.0
    slow = 1 + limits.diagnosis.slow_transfer_deviations * deviation
    healthy = 1 + limits.diagnosis.healthy_transfer_deviations * deviation
    return limits.changed(
        "diagnosis",
        slow_transfer_ratio=max(limits.diagnosis.slow_transfer_ratio, slow),
        healthy_transfer_ratio=max(limits.diagnosis.healthy_transfer_ratio, healthy),
    )


def find_slow(seen: Observations, limits: Thresholds) -> list[Blame]:
    """Everybody whose transfers are slow, inside hosts first: a slow host also slows the rings that cross it."""
    paths = paths_of(seen, limits)
    blames: list[Blame] = []
    culprits: dict[str, Window] = {}
    for medium in MEDIA:
        comparable = [path for path in paths if path.medium == medium]
        widened = _widened(comparable, limits)
        slow = [
            item
            for item in _slow_paths(comparable, seen, widened)
            if not any(
                machine in culprits and culprits[machine].overlap(item.window)
                for machine in _crossed(item, seen.machines.of)
            )
        ]
        for group in _together(slow):
            blames += _explain(group, comparable, medium, widened, seen.machines.of)
        culprits = {machine: blame.window for blame in blames for machine in blame.machines if not blame.ambiguous}
    return blames


def _crossed(item: SlowPath, machine_of: Mapping[Process, str]) -> frozenset[str]:
    """Machines inside which a path across hosts also moves bytes: where it has several ranks, and all of a rack, in
    which the same NVLinks carry both."""
    if item.path.medium == "rack":
        return item.path.machines
    machines = [machine_of[member] for member in item.path.members]
    return frozenset(one for one in machines if machines.count(one) > 1) if len(machines) > 2 else frozenset()


def _operations(seen: Observations) -> dict[tuple[int, tuple[Process, ...]], float]:
    """The mean number of operations of a path in a block that has any."""
    counts: dict[tuple[int, tuple[Process, ...]], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for transfer in seen.transfers:
        counts[transfer.comm, tuple(sorted(transfer.members))][transfer.block] += transfer.stands_for
    return {key: float(np.mean(list(blocks.values()))) for key, blocks in counts.items()}


def _slow_paths(paths: list[Path], seen: Observations, limits: Thresholds) -> list[SlowPath]:
    """The paths that are slow for longer than congestion, which comes and goes everywhere, explains."""
    operations = _operations(seen)
    marks = [_marks(path, operations[path.comm, path.members], limits) for path in paths]
    windows = [densest_window(marked) for marked in marks]
    outside = [
        float(marked.sum() - (window.marked if window else 0)) for marked, window in zip(marks, windows, strict=True)
    ]
    rate = min(0.5, max(limits.diagnosis.usual_congested_share, sum(outside) / (len(paths) * seen.blocks or 1)))
    return [
        SlowPath(path, window)
        for path, window in zip(paths, windows, strict=True)
        if window is not None
        and window.marked >= limits.diagnosis.min_blocks
        and window.density >= limits.diagnosis.min_density
        and chance(window, rate, len(paths)) <= limits.diagnosis.max_chance * _CLUSTERED
    ]


def _marks(path: Path, operations: float, limits: Thresholds) -> Marks:
    """The blocks in which a path is slow: in proportion, and by more than the times resolve."""
    ratio = np.nan_to_num(np.divide(path.time_us, path.reference_us))
    beyond = np.nan_to_num((path.time_us - path.reference_us) / max(operations, 1.0))
    marked: Marks = (ratio >= limits.diagnosis.slow_transfer_ratio) & (
        beyond >= limits.diagnosis.slow_transfer_floor_us
    )
    return marked


def _together(slow: list[SlowPath]) -> list[list[SlowPath]]:
    """Slow paths that are slow at the same time: one event."""
    groups: list[list[SlowPath]] = []
    for item in sorted(slow, key=lambda s: (-s.window.length, s.window.first)):
        for group in groups:
            first = group[0].window
            if item.window.overlap(first) * 2 >= min(item.window.length, first.length):
                group.append(item)
                break
        else:
            groups.append([item])
    return groups


def _common_window(slow: Iterable[SlowPath]) -> Window:
    windows = [item.window for item in slow]
    first = int(np.median([window.first for window in windows]))
    last = int(np.median([window.last for window in windows]))
    longest = max(windows, key=lambda window: window.length)
    return replace(longest, first=first, last=max(first, last), marked=max(1, min(longest.marked, last - first + 1)))


def _explain(
    slow: list[SlowPath], paths: list[Path], medium: Medium, limits: Thresholds, machine_of: Mapping[Process, str]
) -> list[Blame]:
    """Group testing: clear all on a healthy path, then take the fewest that touch every slow one. Where nobody is
    cleared and most paths are slow, it is the network."""
    window = _common_window(slow)
    healthy = tuple(
        path
        for path in paths
        if path.medium == medium and path.usual_ratio(window.part()) < limits.diagnosis.healthy_transfer_ratio
    )
    everybody = tuple(sorted(frozenset().union(*(item.path.machines for item in slow))))
    cleared = frozenset().union(*(path.machines for path in healthy))
    sets = [item.path.machines - cleared for item in slow]
    recorded = sum(path.ratio(window.part()) > 0 for path in paths if path.medium == medium)
    if medium != "nvlink" and not healthy and len(everybody) > 1 and len(slow) * 2 > recorded:
        # A machine that is on every path would slow them all just as well.
        single = tuple(machine for machine in everybody if all(machine in machines for machines in sets))
        if len(single) != 1:
            hosts, fitful = _names(single, machine_of), _comes_and_goes(slow, limits)
            return [Blame(medium, "fabric", single, hosts, (), bool(single), tuple(slow), healthy, window, fitful)]
    blames = []
    explained = [item for item, machines in zip(slow, sets, strict=True) if machines]
    for machines, touched in _fewest(explained, cleared):
        hosts, ambiguous = _names(machines, machine_of), len(machines) > 1
        blames.append(Blame(medium, "host", machines, hosts, (), ambiguous, tuple(touched), healthy, window))
    rest = [item for item, machines in zip(slow, sets, strict=True) if not machines]
    if rest:
        blames.append(_below_hosts(rest, healthy, medium, window, machine_of))
    return blames


def _comes_and_goes(slow: Iterable[SlowPath], limits: Thresholds) -> bool:
    """Whether no stretch in which the paths are never fast has half of the blocks in which they are slow."""
    time, reference = (
        np.nansum([getattr(item.path, what) for item in slow], axis=0) for what in ("time_us", "reference_us")
    )
    ratio = time[reference > 0] / reference[reference > 0]
    stretch = np.cumsum(ratio < limits.diagnosis.healthy_transfer_ratio)
    marked = np.bincount(stretch, weights=ratio >= limits.diagnosis.slow_transfer_ratio)
    return bool(marked.max(initial=0) * 2 < marked.sum())


def _names(machines: Collection[str], machine_of: Mapping[Process, str]) -> tuple[str, ...]:
    """The host names on some machines."""
    return hosts_of(process for process, machine in machine_of.items() if machine in machines)


def _fewest(slow: list[SlowPath], cleared: frozenset[str]) -> list[tuple[tuple[str, ...], list[SlowPath]]]:
    """Machines that touch every slow path, greedily; those that touch the same paths cannot be distinguished."""
    left = list(slow)
    chosen = []
    while left:
        touches: dict[str, frozenset[int]] = {}
        for machine in sorted(frozenset().union(*(item.path.machines for item in left)) - cleared):
            touches[machine] = frozenset(n for n, item in enumerate(left) if machine in item.path.machines)
        most = max(touches.values(), key=len)
        machines = tuple(machine for machine, paths in touches.items() if paths == most)
        chosen.append((machines, [left[n] for n in sorted(most)]))
        left = [item for n, item in enumerate(left) if n not in most]
    return chosen


def _below_hosts(
    slow: list[SlowPath],
    healthy: tuple[Path, ...],
    medium: Medium,
    window: Window,
    machine_of: Mapping[Process, str],
) -> Blame:
    """Every machine has healthy paths too, so that a part of it is at fault: one of the processes that are on all slow
    paths and no healthy one (its card, or the rail that they share), or the paths."""
    cleared = frozenset(member for path in healthy for member in path.members)
    left = [frozenset(item.path.members) - cleared for item in slow]
    shared = frozenset.intersection(*left)
    if len(shared) == 1:
        (process,) = shared
        hosts = hosts_of(shared)
        return Blame(medium, "rank", (machine_of[process],), hosts, (process,), False, tuple(slow), healthy, window)
    machines = tuple(sorted(frozenset().union(*(item.path.machines for item in slow))))
    hosts = hosts_of(member for item in slow for member in item.path.members) if len(machines) == 1 else ()
    processes = tuple(sorted(shared))
    return Blame(medium, "communicator", machines, hosts, processes, True, tuple(slow), healthy, window)
