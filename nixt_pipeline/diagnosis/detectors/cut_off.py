"""Whether a job that was killed at a random moment would have left such a log.

A killed process loses what it had not written, each something else, so that logs of a killed job seldom agree about the
last collectives. How seldom depends on how often they are written and on how long the job computes in between. The log
itself tells: it is cut at moments of its own past, and what it looks like there is counted.
"""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its parts are loaded when they are used

from nixt_pipeline.arrays import Ints, Marks
from nixt_pipeline.diagnosis.detectors.tracks import Series, Track
from nixt_pipeline.diagnosis.evidence.frontier import Reach
from nixt_pipeline.diagnosis.evidence.history import History
from nixt_pipeline.diagnosis.evidence.moments import Reached
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.settings import Thresholds

# Moments at which the log is cut, and the share of them before which a job only begins.
_MOMENTS = 200
_BEGINNING = 0.2
# Of larger jobs, as many records of who got how far at a moment are looked at; fewer of them agree more often.
_MOST_ROWS = 4_000


@dataclass(frozen=True)
class Past:
    """The past of some `series` at equally distant moments, one column each: how far each was (`furthest`), and whether
    the logs, cut then, would have agreed about the last collectives."""

    series: Sequence[Series]
    furthest: Ints
    agrees: Marks

    def share(self, tracks: Iterable[Track] = (), lead: int = 0) -> float:
        """The share of the moments at which the logs agreed, and the family of some track was as far ahead of it."""
        seen = self.agrees
        if lead > 0:
            seen = seen & (_leads(self.furthest, self.series, tracks) >= lead)
        return float(seen.mean()) if len(seen) else 0.0

    def rarer(self) -> float:
        """The share of the moments at which the logs agreed, and the job was in a phase of its step that is at most as
        common among those as the one in which it ended. A phase that was never seen counts like those seen once."""
        moments = len(self.agrees)
        counted = [n for n, item in enumerate(self.series) if item.final or not item.one_slot]
        if not moments or not counted:
            return 0.0
        ends = np.array([self.series[n].furthest for n in counted]) + 1
        numbers = np.column_stack([self.furthest[counted] + 1, ends])
        phases = _phases(numbers)
        seen, number = np.unique(phases, axis=1, return_inverse=True)
        number = number.ravel()
        common = np.bincount(number[:-1][self.agrees], minlength=seen.shape[1])
        rare = common <= max(common[number[-1]], 1)
        return float(common[rare].sum()) / moments


def past_of(
    history: History,
    frontier: Iterable[Reach],
    series: Sequence[Series],
    ends_us: Mapping[Process, int],
    limits: Thresholds,
) -> Past:
    """The past of the `series` of one part of a launch, the most telling first. `frontier`: how far each rank got;
    `ends_us`: when each process wrote its last record, by which the clocks of the hosts are compared."""
    rows_to = np.cumsum([len(item.last) for item in series])
    series = series[: max(1, int(np.searchsorted(rows_to, _MOST_ROWS, "right")))]
    earliest_us = limits.ingest.min_timestamp_us
    nothing = Past(series, np.zeros((len(series), 0), dtype=np.int64), np.zeros(0, dtype=np.bool_))
    shifts = _shifts(ends_us)
    counted = [item for item in series if item.final or not item.one_slot]
    if not counted or not shifts:
        return nothing
    end = max(ends_us.values())
    names = {(item.communicator, item.coll) for item in series}
    begin = _begin(frontier, names, earliest_us, end)
    if begin is None or begin >= end:
        return nothing  # written at once, when it ended: a killed job leaves nothing
    rows = history.reached(names, (begin, end), earliest_us, _MOMENTS)
    per_us = _MOMENTS / (end - begin + 1)
    reached = _reached(rows, series, {host: round(shift * per_us) for host, shift in shifts.items()})
    furthest = np.stack([rows_of.max(axis=0) for rows_of in reached])
    behind = sum(
        (rows_of < most).sum(axis=0)
        for item, rows_of, most in zip(series, reached, furthest, strict=True)
        if item.final or not item.one_slot
    )
    expected = sum(0.0 if item.one_slot else item.lost * len(item.last) for item in counted)
    behind = np.asarray(behind, dtype=np.int64)
    agrees = (behind == 0) | (scipy.stats.poisson.sf(behind - 1, expected) > limits.diagnosis.tail_chance)
    # The log as it is, after the last record, is no sample of its past.
    past = np.any([(rows_of < rows_of[:, -1:]).any(axis=0) for rows_of in reached], axis=0)
    past[: int(_MOMENTS * _BEGINNING)] = False
    return Past(series, furthest[:, past], np.asarray(agrees, dtype=np.bool_)[past])


def with_clocks_set(reaches: Iterable[Reach], least_us: float) -> frozenset[str]:
    """The hosts whose clocks stand to the others by `least_us` otherwise at the last collectives that they left
    together than at the first: no moment of their past is the same one elsewhere."""
    reaches = list(reaches)
    first = _ahead((reach.communicator, reach.coll, reach.first, reach.process[0], reach.first_us) for reach in reaches)
    last = _ahead((reach.communicator, reach.coll, reach.last, reach.process[0], reach.last_us) for reach in reaches)
    return frozenset(host for host in first.keys() & last.keys() if abs(last[host] - first[host]) > least_us)


def _ahead(left: Iterable[tuple[int, str, int, str, int | None]]) -> dict[str, float]:
    """By how much each host wrote collectives later than the middle one of those with which it left them."""
    written: dict[tuple[int, str, int], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for communicator, coll, number, host, at_us in left:
        if at_us is not None:
            written[communicator, coll, number][host].append(at_us)
    ahead: dict[str, list[float]] = defaultdict(list)
    for of_host in written.values():
        middles = {host: float(np.median(times)) for host, times in of_host.items()}
        usual = float(np.median(list(middles.values())))
        for host, middle in middles.items():
            ahead[host] += [middle - usual] if len(middles) > 1 else []
    return {host: float(np.median(distances)) for host, distances in ahead.items() if distances}


def _begin(frontier: Iterable[Reach], names: Collection[tuple[int, str]], earliest_us: int, end_us: int) -> int | None:
    """When the first record was written of the communicators and functions that are looked at."""
    communicators, colls = {communicator for communicator, _ in names}, {coll for _, coll in names}
    return min(
        (
            reach.first_us
            for reach in frontier
            if reach.first_us is not None
            and earliest_us <= reach.first_us <= end_us
            and reach.coll in colls
            and reach.communicator in communicators
        ),
        default=None,
    )


def _shifts(ends_us: Mapping[Process, int]) -> dict[str, float]:
    """By how much the clock of each host seems to be ahead: all processes of a job end at nearly the same time."""
    of_host: dict[str, list[int]] = defaultdict(list)
    for process, end in ends_us.items():
        of_host[process[0]].append(end)
    middles = {host: float(np.median(ends)) for host, ends in of_host.items()}
    usual = float(np.median(list(middles.values()))) if middles else 0.0
    return {host: middle - usual for host, middle in middles.items()}


def _reached(rows: Iterable[Reached], series: Sequence[Series], shifts: Mapping[str, int]) -> list[Ints]:
    """How far each process (row) of each series was at each moment (column)."""
    place = {(item.communicator, item.coll): number for number, item in enumerate(series)}
    member = [{process: row for row, process in enumerate(item.last)} for item in series]
    reached = [np.full((len(item.last), _MOMENTS), -1, dtype=np.int64) for item in series]
    for communicator, coll, process, moment, number in rows:
        at = place.get((communicator, coll))
        row = None if at is None else member[at].get(process)
        if at is not None and row is not None:
            column = min(max(moment - shifts.get(process[0], 0), 0), _MOMENTS - 1)
            reached[at][row, column] = max(reached[at][row, column], number - series[at].before)
    return [np.maximum.accumulate(rows_of, axis=1) for rows_of in reached]


def _phases(numbers: Ints) -> Ints:
    """How many operations of each series (row) were done beyond whole steps at each moment (column), the last of which
    is the end. The rarest series counts the steps; it may lack one at the end."""
    steps = numbers[numbers[:, -1].argmin()]
    phases = np.empty_like(numbers)
    for row, done in enumerate(numbers):
        tried = [done - round(done[-1] / (steps[-1] + lacking)) * steps for lacking in (0, 1)]
        phases[row] = min(tried, key=lambda phase: len(np.unique(phase)))
    return phases


def _leads(furthest: Ints, series: Sequence[Series], tracks: Iterable[Track]) -> Ints:
    """At each moment, by how many operations at least half of a family was ahead of what carries most of a lead."""
    place = {(item.comm.number, item.coll): number for number, item in enumerate(series)}
    families: dict[tuple[Hashable, ...], list[Track]] = defaultdict(list)
    for track in tracks:
        if (track.comm.number, track.what) in place and track.family != track.kind:
            families[track.family].append(track)
    leads: dict[tuple[int, frozenset[Process]], Ints] = {}
    for members in families.values():
        numbers = furthest[[place[track.comm.number, track.what] for track in members]]
        usual = np.sort(numbers, axis=0)[::-1][(len(members) + 1) // 2 - 1]
        for track, reached in zip(members, numbers, strict=True):
            lead = np.maximum(usual - reached, 0)
            leads[track.carrier] = leads[track.carrier] + lead if track.carrier in leads else lead
    return np.max(list(leads.values()), axis=0) if leads else np.zeros(furthest.shape[1], dtype=np.int64)
