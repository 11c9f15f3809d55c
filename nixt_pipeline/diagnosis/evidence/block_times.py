"""When blocks ended and how long they lasted, by the clocks of hosts that may be off, drift, or be set while it runs.

Every host tells with its own clock how long a block lasted. One that was set (NTP steps it, an operator corrects it)
shows it by a lasting change of its distance from the others; where all were set at once, a gap is left that the pace of
the job does not explain.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nixt_pipeline.arrays import Floats
from nixt_pipeline.diagnosis.evidence.passes import PASS_US
from nixt_pipeline.diagnosis.evidence.tables import LaunchTables
from nixt_pipeline.settings import Thresholds

# When each host wrote the last collective of each block of each communicator, as far as the times can be Unix times.
_WRITTEN = """
WITH last AS (
    SELECT comm, coll, block, coll_sn
    FROM blocked_cells
    QUALIFY row_number() OVER (PARTITION BY comm, coll, block ORDER BY coll_sn DESC) = 1
)
SELECT e.hostname, l.comm, l.block, max(e.dump_timestamp_us) AS until_us
FROM last AS l
JOIN diagnosed_communicators AS k USING (comm)
JOIN ordered_records AS e
    ON k.comm_key = e.comm_key AND e.coll = l.coll AND e.coll_sn = l.coll_sn
WHERE e.hostname IS NOT NULL AND e.dump_timestamp_us BETWEEN $earliest AND $latest
GROUP BY ALL
ORDER BY ALL
"""

# Write times closer than this share of a mean block are those of one pass of the dump thread.
_SAME_PASS = 0.05
# A gap of this many usual ones is a pause of the whole job or a change of all clocks: either way not the job's pace.
_NO_PACE = 10
# A change of a clock's offset is not scatter from this many standard deviations of it on.
_BEYOND_SCATTER = 5
# Nor is it the other phase of a dump thread from this many gaps between passes on.
_BEYOND_PASSES = 3
# Fewer blocks on either side do not distinguish a change from a late write.
_LASTING = 2
# Clocks that are set more often than this are not followed.
_MOST_STEPS = 20
# Which rows know a block moves the middle one, less so once their distances were taken off.
_ALIGNMENTS = 3
# Time zones and daylight saving move clocks by multiples of half an hour.
_HALF_AN_HOUR_US = 1_800e6


@dataclass(frozen=True)
class ClockStep:
    """The clocks of these hosts were set ahead by `step_us` (back when negative) in that block."""

    hosts: tuple[str, ...]
    block: int
    step_us: float


@dataclass(frozen=True)
class BlockTimes:
    """How long each block lasted in microseconds, when it ended (Unix microseconds, by clocks that were not set where
    there are such), and whose clocks were set."""

    lasted_us: Floats
    ends_us: tuple[int | None, ...]
    steps: tuple[ClockStep, ...]


def block_times(tables: LaunchTables, span_us: float, limits: Thresholds) -> BlockTimes:
    """The times of the blocks of a launch; `span_us` is how long the job lasted, for logs that do not tell."""
    bounds = {"earliest": limits.ingest.min_timestamp_us, "latest": limits.ingest.max_timestamp_us}
    written = tables.con.sql(_WRITTEN, params=bounds).fetchnumpy()
    keys = list(zip(written["hostname"].tolist(), written["comm"].tolist(), strict=True))
    rows = {key: number for number, key in enumerate(sorted(set(keys)))}
    ends = np.full((len(rows), tables.blocks), np.nan)
    ends[[rows[key] for key in keys], written["block"]] = written["until_us"]
    return times_of(ends, [host for host, _ in rows], span_us, limits)


def times_of(ends_us: Floats, hosts: Sequence[str], span_us: float, limits: Thresholds) -> BlockTimes:
    """The same from when each of the rows, of which `hosts` says whose it is, wrote the end of each block (NaN where it
    did not)."""
    blocks = ends_us.shape[1]
    seen = np.flatnonzero(~np.isnan(ends_us).all(axis=0))
    if len(seen) == 0:
        return BlockTimes(np.full(blocks, span_us / blocks), (None,) * blocks, ())
    rows_of: dict[str, list[int]] = defaultdict(list)
    for row, host in enumerate(hosts):
        rows_of[host].append(row)
    names = list(rows_of)
    by_host = np.array(
        [ends_us[rows[0]] if len(rows) == 1 else _nanmedian(ends_us[rows], axis=0) for rows in rows_of.values()]
    )
    steps = _steps(
        by_host, names, max(limits.diagnosis.max_clock_offset_us, _BEYOND_PASSES * _usual(np.diff(by_host).ravel()))
    )
    straight = ends_us.copy()
    for step in steps:
        straight[rows_of[step.hosts[0]], step.block :] -= step.step_us
    gaps = np.diff(_nanmedian(_aligned(straight)[:, seen], axis=0))
    gaps, odd = _at_pace(gaps)
    of_all = [
        ClockStep(tuple(names), int(seen[place + 1]), step)
        for place, step in odd
        if _was_set(step, limits.diagnosis.max_clock_offset_us)
    ]
    mean = gaps.sum() / len(gaps) if gaps.any() else span_us / blocks
    lasted = np.full(blocks, mean)
    lasted[seen[1:]] = gaps
    was_set = {host for step in steps for host in step.hosts}
    sound = by_host[[name not in was_set for name in names]] if len(was_set) < len(names) else by_host
    return BlockTimes(shared_out(lasted, _SAME_PASS * mean), _ends(sound, by_host), (*steps, *of_all))


def _aligned(ends_us: Floats) -> Floats:
    """The rows without their distances from one another. These are measured block by block: a row's own middle lies
    before or after a pause by which blocks it knows."""
    for _ in range(_ALIGNMENTS):
        distance = _nanmedian(ends_us - _nanmedian(ends_us, axis=0), axis=1)
        ends_us = ends_us - np.nan_to_num(distance)[:, None]
    return ends_us


def shared_out(durations: Floats, least: float) -> Floats:
    """Each run of durations below `least` shares the duration before it; those of the first run, which nobody knows,
    become the middle one of the others."""
    passes = np.cumsum((durations > least).astype(np.int64))
    passes = passes - passes[0]
    shared: Floats = (np.bincount(passes, durations) / np.bincount(passes))[passes]
    if passes[-1] > 0:
        shared[passes == 0] = np.median(shared[passes > 0])
    return shared


def _at_pace(gaps: Floats) -> tuple[Floats, list[tuple[int, float]]]:
    """The time between the ends of blocks as the job's pace has it, and what was not: the place of each such gap, and
    by how much it is longer (shorter when negative) than usual."""
    usual = _usual(gaps)
    if usual == 0:
        return np.maximum(gaps, 0), []
    odd = np.flatnonzero((gaps < -usual) | (gaps > _NO_PACE * usual))
    found = [(int(place), float(gaps[place]) - usual) for place in odd]
    gaps = np.maximum(gaps, 0)
    gaps[odd] = usual
    return gaps, found


def _usual(gaps: Floats) -> float:
    """The middle one of the gaps between passes; 0 where all was written in one."""
    forward = gaps[gaps > PASS_US]
    return float(np.median(forward)) if len(forward) else 0.0


def _was_set(step_us: float, least_us: float) -> bool:
    """Whether a gap that all clocks show is no pause: none goes back, and few last half an hour to the second."""
    off_us = abs(step_us - _HALF_AN_HOUR_US * round(step_us / _HALF_AN_HOUR_US))
    return step_us < -least_us or (step_us > _HALF_AN_HOUR_US / 2 and off_us < least_us)


def _steps(ends_us: Floats, names: Sequence[str], least_us: float) -> list[ClockStep]:
    """Whose clock was set and when, one after the other, the largest change first."""
    steps: list[ClockStep] = []
    ends = ends_us.copy()
    while len(names) > 1 and len(steps) < _MOST_STEPS:
        # Of two, each is measured by the other; of more, by the middle one.
        reference = ends[::-1] if len(names) == 2 else _nanmedian(ends, axis=0)
        distance = ends - reference
        found = [(row, *change) for row in range(len(names)) if (change := _change(distance[row], least_us))]
        if not found:
            break
        row, block, step = max(found, key=lambda entry: (round(abs(entry[2])), _oddity(ends[entry[0]], entry[1])))
        steps.append(ClockStep((names[row],), block, step))
        ends[row, block:] -= step
    return sorted(steps, key=lambda step: (step.block, step.hosts))


def _change(distance_us: Floats, least_us: float) -> tuple[int, float] | None:
    """The block from which on a clock's distance is another, to the end or for a while, and by how much; None where it
    stays what it was."""
    known = np.flatnonzero(~np.isnan(distance_us))
    values = distance_us[known]
    if len(values) < 2 * _LASTING or np.ptp(values) <= least_us:
        return None
    firsts = range(_LASTING, len(values) - _LASTING + 1)
    to_the_end = [(first, len(values)) for first in firsts]
    for_a_while = [(first, last) for first in firsts for last in range(first + _LASTING, len(values) - _LASTING + 1)]
    for stretches in (to_the_end, for_a_while):
        if stretches:
            first, step = _best(values, stretches, least_us)
            if step:
                return int(known[first]), step
    return None


def _best(values: Floats, stretches: Sequence[tuple[int, int]], least_us: float) -> tuple[int, float]:
    """Where the stretch begins that leaves the least absolute deviations from its median and that of the rest, and by
    how much it differs from the rest; 0 when it may be scatter."""

    def split(stretch: tuple[int, int]) -> tuple[Floats, float]:
        inside = np.zeros(len(values), dtype=bool)
        inside[slice(*stretch)] = True
        level, other = np.median(values[~inside]), np.median(values[inside])
        return np.abs(values - np.where(inside, other, level)), float(other - level)

    best = min(stretches, key=lambda stretch: float(split(stretch)[0].sum()))
    residuals, step = split(best)
    # 1.4826 makes the median absolute deviation the standard deviation of normal scatter.
    scatter = 1.4826 * float(np.median(residuals))
    return best[0], step if abs(step) > max(least_us, _BEYOND_SCATTER * scatter) else 0.0


def _oddity(ends_us: Floats, block: int) -> float:
    """How far what a clock shows for the time before the end of `block` is from what it shows for others."""
    known = ends_us[~np.isnan(ends_us)]
    gaps = np.diff(known)
    place = int((~np.isnan(ends_us[:block])).sum()) - 1
    return float(abs(gaps[place] - np.median(gaps)))


def _ends(sound: Floats, all_hosts: Floats) -> tuple[int | None, ...]:
    """When each block ended by the middle one of the sound clocks, which is one of them; else by one of all."""
    ends = []
    for column, others in zip(sound.T, all_hosts.T, strict=True):
        known = column[~np.isnan(column)] if not np.isnan(column).all() else others[~np.isnan(others)]
        ends.append(int(np.quantile(known, 0.5, method="lower")) if len(known) else None)
    return tuple(ends)


def _nanmedian(values: Floats, axis: int) -> Floats:
    """Medians of what is known; NaN, without a warning, where nothing is."""
    unknown = np.isnan(values).all(axis=axis)
    filled = np.where(np.expand_dims(unknown, axis), 0.0, values)
    return np.where(unknown, np.nan, np.nanmedian(filled, axis=axis))
