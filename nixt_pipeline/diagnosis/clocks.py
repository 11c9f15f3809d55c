"""Hosts whose clocks disagree, from the write times of the same collectives.

All ranks leave a collective together and write it at their next dump, so that the difference of two hosts' write times
is the difference of their clocks, give or take a dump interval. Nothing in the diagnosis orders events by clocks of
several hosts; who reads time axes, or joins logs by time, should know.
"""

from collections import defaultdict
from dataclasses import dataclass
from statistics import median

import duckdb
import numpy as np

from nixt_pipeline.diagnosis.findings import Finding
from nixt_pipeline.diagnosis.observations import Observations
from nixt_pipeline.settings import Thresholds

# Some hundred collectives give the median; more would cost a scan for nothing.
_SAMPLED = 500
# Fewer times than this tell a drift from a few late dumps only by luck.
_FEWEST_FOR_DRIFT = 20

_WRITE_TIMES = """
WITH crossing AS (
    SELECT b.comm, b.coll, b.coll_sn, k.nnodes, max(k.nnodes) OVER () AS most_nodes
    FROM blocked_cells AS b JOIN diagnosed_communicators AS k USING (comm)
    WHERE k.nnodes > 1
),
sample AS (
    -- The more hosts meet in a collective, the clearer it is whose clock is off.
    SELECT b.comm, b.coll, b.coll_sn
    FROM crossing AS b
    WHERE b.nnodes = b.most_nodes
    ORDER BY hash(b.comm, b.coll, b.coll_sn)
    LIMIT $sampled
)
SELECT s.comm, s.coll, s.coll_sn, e.hostname, min(e.dump_timestamp_us) AS written_us
FROM sample AS s
JOIN diagnosed_communicators AS k USING (comm)
JOIN ordered_records AS e
    ON k.communicator = hash(e.id, e.comm_name, e.n_ranks, e.nnodes) AND e.coll = s.coll AND e.coll_sn = s.coll_sn
GROUP BY ALL
ORDER BY ALL
"""

WriteTimes = list[dict[str, int]]


@dataclass(frozen=True)
class HostClock:
    """How a host's clock stands to those of the others: ahead when positive.

    `uncertainty_us` is the scatter of one measurement, not of their mean: dump threads that keep their distance err
    alike in every collective. `drift_ppm` is None where the log is too short, or the scatter too large, to tell it.
    """

    offset_us: float
    uncertainty_us: float
    drift_ppm: float | None


def find_clock_skew(con: duckdb.DuckDBPyConnection, seen: Observations, limits: Thresholds) -> list[Finding]:
    """Hosts whose clocks are off by more than what the log can tell; call it after `observe`."""
    times: dict[tuple[int, str, int], dict[str, int]] = defaultdict(dict)
    for comm, coll, number, host, written in con.sql(_WRITE_TIMES, params={"sampled": _SAMPLED}).fetchall():
        times[comm, coll, number][host] = written
    clocks = host_clocks(list(times.values()))
    off = {
        host: clock
        for host, clock in clocks.items()
        if abs(clock.offset_us) - clock.uncertainty_us > limits.max_clock_offset_us
    }
    return [_finding(off, seen)] if off else []


def host_clocks(times: WriteTimes) -> dict[str, HostClock]:
    """The clock of each host, from the times at which hosts wrote the same collectives, in microseconds.

    Each collective compares a host with the median of the other hosts in it, so that one host that is off does not move
    the others' reference, unless there are only two: then both are off from one another.
    """
    measured: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for by_host in times:
        for host, written in by_host.items():
            others = [time for other, time in by_host.items() if other != host]
            if others:
                measured[host].append((median(others), written - median(others)))
    return {host: _clock(np.array(values, float)) for host, values in sorted(measured.items())}


def _clock(measured: np.ndarray) -> HostClock:
    """The clock behind rows of (time, distance from the others).

    The drift is Theil and Sen's slope; it is told from none when its interval excludes zero and it moves the clock,
    over the log, by three times the scatter.
    """
    at_us, distance_us = measured.T
    slope = _slope(at_us, distance_us)
    residual_us = distance_us - (slope or 0.0) * (at_us - np.median(at_us))
    # 1.4826 makes the median absolute deviation the standard deviation of normal scatter.
    scatter_us = 1.4826 * float(np.median(np.abs(residual_us - np.median(residual_us))))
    moved_us = abs(slope or 0.0) * float(np.ptp(at_us))
    drift_ppm = slope * 1e6 if slope is not None and moved_us > 3 * scatter_us else None
    return HostClock(float(np.median(distance_us)), scatter_us, drift_ppm)


def _slope(at_us: np.ndarray, distance_us: np.ndarray) -> float | None:
    """The slope of distances over times; None when it may be zero (95 %)."""
    # What one pass of a dump thread wrote is one measurement, however many collectives it was.
    passes = np.unique(at_us)
    if passes.size < _FEWEST_FOR_DRIFT:
        return None
    from scipy.stats import theilslopes

    measured_us = [float(np.median(distance_us[at_us == at])) for at in passes]
    slope, _, low, high = theilslopes(measured_us, passes)
    return float(slope) if low > 0 or high < 0 else None


def _finding(off: dict[str, HostClock], seen: Observations) -> Finding:
    hosts = tuple(off)
    shown = ", ".join(_in_words(host, clock) for host, clock in list(off.items())[:8])
    return Finding(
        kind="clock-skew",
        severity="info",
        level="host",
        hosts=hosts,
        # Of hosts that only ever meet in pairs, either clock may be the wrong one.
        ambiguous=len(hosts) > 1,
        evidence=f"Collectives that hosts left together were written at different times: {shown} from the others.",
        counter_evidence=(
            "Known to the scatter of the dump times only. No finding rests on it: nothing among the"
            f" {len(seen.hosts)} hosts is ordered by their clocks."
        ),
        next_step="Check time synchronisation (chrony or NTP) on these hosts before joining their logs by time.",
    )


def _in_words(host: str, clock: HostClock) -> str:
    drift = f", drifting by {clock.drift_ppm:+.3g} ppm" if clock.drift_ppm is not None else ""
    scatter = f"{clock.uncertainty_us / 1e3:.2g} ms" if clock.uncertainty_us >= 1_000 else "less than 1 ms"
    return f"{host} by {clock.offset_us / 1e6:+.3g} s (give or take {scatter}{drift})"
