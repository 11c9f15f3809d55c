"""What came after something stopped: its processes went on in other communicators, the job was started again, or
nothing.

Frameworks go on without a process: the communicator is aborted and a smaller one made of the others (ncclCommShrink),
or a spare takes the place. The end of a communicator is the end of the job only if its processes did nothing more.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, median_low

from nixt_pipeline.diagnosis.evidence.frontier import Reach
from nixt_pipeline.diagnosis.evidence.launches import Launch
from nixt_pipeline.diagnosis.evidence.observations import Communicator
from nixt_pipeline.diagnosis.evidence.parts import Part
from nixt_pipeline.diagnosis.evidence.processes import Process

# What continues for this share of the time and this many steps does not wait: a hang stops the rest within a step.
_GOES_ON_SHARE = 0.25
_GOES_ON_STEPS = 3
_GOES_ON_US = 1_000_000
# Fewer operations show no step.
_REGULAR = 5


@dataclass(frozen=True)
class Sequel:
    """What came `at_us` after a stop: processes that `went_on` in communicators of at most `n_ranks`, those that `left`
    (no record since), or the `launch` that followed, of which there is only one."""

    at_us: int
    went_on: tuple[Process, ...] = ()
    left: tuple[Process, ...] = ()
    n_ranks: int = 0
    launch: Launch | None = None


def restarted(launches: Iterable[Launch], number: int, after_us: int) -> Launch | None:
    """The first launch after a moment that took the place of launch `number`: on some of its hosts, or as large."""
    launches = list(launches)
    own = next((launch for launch in launches if launch.number == number), None)
    later = [
        launch
        for launch in launches
        if own and launch.first_us > after_us and (launch.hosts & own.hosts or launch.processes == own.processes)
    ]
    return min(later, key=lambda launch: launch.first_us, default=None)


def last_times(reaches: Iterable[Reach], communicators: frozenset[int] | None = None) -> dict[Process, int]:
    """When each process wrote its last collective, of these communicators (their hashes) or any."""
    last: dict[Process, int] = {}
    for reach in reaches:
        if reach.last_us is not None and (communicators is None or reach.communicator in communicators):
            last[reach.process] = max(reach.last_us, last.get(reach.process, 0))
    return last


def what_followed(
    part: Part,
    stopped: frozenset[int],
    of_part: Sequence[Reach],
    reaches: Sequence[Reach],
    communicators: Iterable[Communicator],
) -> tuple[int | None, Sequel | None]:
    """When a part of a launch stopped, of which the communicators `stopped` (numbers) stopped first, and what its
    processes did then in any of the `communicators` of the launch. How far each got `of_part` is known to the end
    of its era; the `reaches` are those of the launch. By write times in Unix microseconds."""
    known = tuple(communicators)
    hashes = {comm.number: comm.key for comm in known}
    everything = frozenset(hashes[number] for number in part.communicators if number in hashes)
    ends = last_times(of_part, everything)
    # When Sends and Recvs stopped is not known here: then the part counts.
    own = frozenset(reach.communicator for reach in reaches) & {hashes[n] for n in stopped if n in hashes} or everything
    own_ends = last_times(reaches, own)
    ended = _middle(own_ends)
    if ended is None:
        return None, None
    # Who left no collective with those counts its own last one.
    stops = {**ends, **_by_other_clocks(own_ends, reaches), **own_ends}
    begins = _first_times(reaches)
    later = [
        (span[0], comm)
        for comm in known
        if (span := comm.span) is not None
        and not frozenset(part.processes).isdisjoint(comm.members)
        and _begins_after(
            (own_ends, stops), begins.get(comm.key, {}), comm.number not in part.communicators and span[0] > ended
        )
    ]
    anew = frozenset(member for _, comm in later for member in comm.members)
    patience_us = _patience(reach for reach in of_part if reach.communicator in everything)
    everywhere = last_times(reaches)
    # Each by its own clock: those of hosts differ, or are set while the job runs.
    went_on = tuple(
        process
        for process in part.processes
        if process in anew or everywhere.get(process, 0) > stops.get(process, ended) + patience_us
    )
    if not went_on:
        return _middle(ends), None
    left = tuple(process for process in part.processes if process not in went_on)
    n_ranks = max((comm.n_ranks for _, comm in later), default=0)
    replaced = later and part.communicators.isdisjoint(comm.number for _, comm in later)
    since = _middle(ends) if replaced else ended
    return since, Sequel(min((begin_us for begin_us, _ in later), default=ended), went_on, left, n_ranks)


def _by_other_clocks(ends: Mapping[Process, int], reaches: Iterable[Reach]) -> dict[Process, int]:
    """When what `ends` so had ended by the clocks of others: the last collective that one of them left together with
    some who saw it end tells how the clocks stand to one another."""
    left_together: dict[tuple[int, str, int], list[Reach]] = defaultdict(list)
    for reach in reaches:
        left_together[reach.communicator, reach.coll, reach.last].append(reach)
    latest: dict[Process, tuple[int, int]] = {}
    for together in left_together.values():
        times = {reach.process: reach.last_us for reach in together if reach.last_us is not None}
        since_us = [times[process] - ends[process] for process in times.keys() & ends.keys()]
        if since_us:
            after_us = median_low(since_us)
            for process in times.keys() - ends.keys():
                latest[process] = max(latest.get(process, (0, 0)), (times[process], times[process] - after_us))
    return {process: ended for process, (_, ended) in latest.items()}


def _first_times(reaches: Iterable[Reach]) -> dict[int, dict[Process, int]]:
    """When each process wrote its first collective of each communicator (their hashes)."""
    first: dict[int, dict[Process, int]] = defaultdict(dict)
    for reach in reaches:
        if reach.first_us is not None:
            own = first[reach.communicator]
            own[reach.process] = min(reach.first_us, own.get(reach.process, reach.first_us))
    return first


def _begins_after(clocks: Sequence[Mapping[Process, int]], begins: Mapping[Process, int], otherwise: bool) -> bool:
    """Whether what `begins` so began after something had ended, by the first of the `clocks` that a process has which
    used it; `otherwise` where none has one."""
    for ends in clocks:
        both = ends.keys() & begins.keys()
        if both:
            return all(begins[process] > ends[process] for process in both)
    return otherwise


def _patience(reaches: Iterable[Reach]) -> float:
    """For how long, in microseconds, processes may go on although they wait for something: a few of the longest steps
    among what they all did regularly, and a share of the whole time. Of each series, by the middle one of its
    clocks: one that was set meanwhile shows a time that is too long or too short."""
    lasted: dict[tuple[int, str], list[int]] = defaultdict(list)
    steps: dict[tuple[int, str], list[float]] = defaultdict(list)
    for reach in reaches:
        if reach.last_us is not None and reach.first_us is not None:
            series = reach.communicator, reach.coll
            lasted[series].append(reach.last_us - reach.first_us)
            if reach.last - reach.first >= _REGULAR:
                steps[series].append((reach.last_us - reach.first_us) / (reach.last - reach.first))
    longest = max(map(median_low, lasted.values()), default=0)
    step = max(map(median_low, steps.values()), default=0.0)
    return max(_GOES_ON_US, _GOES_ON_SHARE * longest, _GOES_ON_STEPS * step)


def _middle(times: Mapping[Process, int]) -> int | None:
    return int(median(times.values())) if times else None
