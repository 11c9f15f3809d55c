"""Whether a job that was killed at a random moment would have left such a log.

A killed process loses what it had not written, each something else, so that logs of a killed job seldom agree about the
last collectives. How seldom depends on how often they are written and on how long the job computes in between. The log
itself tells: it is cut at moments of its own past, and what it looks like there is counted.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

from nixt_pipeline.diagnosis.detectors.tracks import TAIL_CHANCE, Series, Track
from nixt_pipeline.diagnosis.evidence.processes import Process, process_of

Ints = NDArray[np.int64]

# Moments at which the log is cut, and the share of them before which a job only begins.
_MOMENTS = 200
_BEGINNING = 0.2
# Of larger jobs, as many records of who got how far at a moment are looked at; fewer of them agree more often.
_MOST_ROWS = 4_000
# Jobs are ended by their time limit or by a person far more often than they hang: what a killed job leaves so often is
# no alarm. Where one communicator stands out, it is worth a note as long as a killed job seldom looks so.
MAY_BE_KILLED = 0.01
SELDOM_KILLED = 0.1

_REACHED = """
SELECT r.comm_key, r.coll, p.hostname, p.pid, p.name, r.moment, r.reached
FROM (
    SELECT
        comm_key, coll, writer,
        ((dump_timestamp_us - $begin) * $moments // $span)::BIGINT AS moment, max(coll_sn)::BIGINT AS reached
    FROM eager_records
    WHERE coll IN (SELECT unnest($colls)) AND coll_sn IS NOT NULL
        AND dump_timestamp_us BETWEEN $earliest AND $end AND n_ranks > 1
        AND comm_key IN (SELECT unnest($communicators))
    GROUP BY ALL
) AS r
JOIN diagnosed_processes AS p ON p.writer = r.writer
"""


@dataclass(frozen=True)
class Past:
    """The past of some `series` at equally distant moments, one column each: how far each was (`furthest`), and whether
    the logs, cut then, would have agreed about the last collectives."""

    series: Sequence[Series]
    furthest: Ints
    agrees: NDArray[np.bool_]

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
    con: duckdb.DuckDBPyConnection, series: Sequence[Series], ends_us: Mapping[Process, int], earliest_us: int
) -> Past:
    """The past of the `series` of one part of a launch, the most telling first. `ends_us`: when each process wrote its
    last record, by which the clocks of the hosts are compared; write times before `earliest_us` are none."""
    rows_to = np.cumsum([len(item.last) for item in series])
    series = series[: max(1, int(np.searchsorted(rows_to, _MOST_ROWS, "right")))]
    nothing = Past(series, np.zeros((len(series), 0), dtype=np.int64), np.zeros(0, dtype=np.bool_))
    shifts = _shifts(ends_us)
    counted = [item for item in series if item.final or not item.one_slot]
    if not counted or not shifts:
        return nothing
    end = max(ends_us.values())
    names = sorted({item.coll for item in series}), sorted({item.communicator for item in series})
    begin = _begin(con, names, earliest_us, end)
    if begin is None or begin >= end:
        return nothing  # written at once, when it ended: a killed job leaves nothing
    rows = con.sql(
        _REACHED,
        params={
            "begin": begin, "span": end - begin + 1, "moments": _MOMENTS, "end": end, "earliest": earliest_us,
            "colls": names[0], "communicators": names[1],
        },
    ).fetchall()  # fmt: skip
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
    agrees = (behind == 0) | (scipy.stats.poisson.sf(behind - 1, expected) > TAIL_CHANCE)
    # The log as it is, after the last record, is no sample of its past.
    past = np.any([(rows_of < rows_of[:, -1:]).any(axis=0) for rows_of in reached], axis=0)
    past[: int(_MOMENTS * _BEGINNING)] = False
    return Past(series, furthest[:, past], np.asarray(agrees, dtype=np.bool_)[past])


def _begin(
    con: duckdb.DuckDBPyConnection, names: tuple[list[str], list[int]], earliest_us: int, end_us: int
) -> int | None:
    [(begin,)] = con.sql(
        "SELECT min(first_us) FROM frontier WHERE first_us BETWEEN $earliest AND $end"
        " AND coll IN (SELECT unnest($colls)) AND comm_key IN (SELECT unnest($communicators))",
        params={"colls": names[0], "communicators": names[1], "earliest": earliest_us, "end": end_us},
    ).fetchall()
    return None if begin is None else int(begin)


def _shifts(ends_us: Mapping[Process, int]) -> dict[str, float]:
    """By how much the clock of each host seems to be ahead: all processes of a job end at nearly the same time."""
    of_host: dict[str, list[int]] = defaultdict(list)
    for process, end in ends_us.items():
        of_host[process[0]].append(end)
    middles = {host: float(np.median(ends)) for host, ends in of_host.items()}
    usual = float(np.median(list(middles.values()))) if middles else 0.0
    return {host: middle - usual for host, middle in middles.items()}


def _reached(
    rows: Iterable[tuple[int, str, str, int, str, int, int]], series: Sequence[Series], shifts: Mapping[str, int]
) -> list[Ints]:
    """How far each process (row) of each series was at each moment (column)."""
    place = {(item.communicator, item.coll): number for number, item in enumerate(series)}
    member = [{process: row for row, process in enumerate(item.last)} for item in series]
    reached = [np.full((len(item.last), _MOMENTS), -1, dtype=np.int64) for item in series]
    for communicator, coll, host, pid, name, moment, number in rows:
        at = place.get((communicator, coll))
        row = None if at is None else member[at].get(process_of(host, pid, name))
        if at is not None and row is not None:
            column = min(max(moment - shifts.get(host, 0), 0), _MOMENTS - 1)
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
