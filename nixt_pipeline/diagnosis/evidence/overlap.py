"""How much of the waiting is new in each collective, and how much is carried over from the one before.

Where communication overlaps computation, a rank that is ahead goes on computing while its collective waits: the same
lag is then seen in one collective after the other, and adding it up counts it many times. A model of both kinds of job:
lag of a rank = share carried over x its lag in the collective before + what is new. Nothing is carried over where a
collective holds up its ranks, for they leave it together; nor of a lag that is larger than what computes meanwhile.

The share follows from the signs of successive changes of a rank's lag, which neither outliers nor lasting faults move.
Changes of independent lags have correlation -1/2, changes of lags carried over have -(1 - share)/2, and for normal
variables the mean product of two signs is 2/pi arcsin(correlation) (Sheppard's formula).
"""

import duckdb

# Communicators of each kind, and collectives of each of their series, from its middle: more say hardly more.
_COMMUNICATORS, _COLLECTIVES = 4, 2_000
# A place in the step has its own usual lag when it was seen so often.
_SEEN_AT_A_PLACE = 8
# Products of signs; this many of them have a standard error of a twentieth.
_LEAST_PAIRS = 400
# A smaller share is noise. Not all is ever carried over: who is ahead of the others waits for them once in a while.
_LEAST_CARRIED, _MOST_CARRIED = 0.3, 0.85
# A lag of this many usual waits is more than a job can overlap: all others catch up in the collective that waits.
_USUAL_WAITS = 4.0

_FRESH_SHARES = """
CREATE OR REPLACE TEMP TABLE fresh_shares AS
WITH chosen AS (
    SELECT s.*, k.comm_key, (s.lo + s.hi - $collectives) / 2 AS since
    FROM usable_series AS s JOIN diagnosed_communicators AS k USING (comm)
    QUALIFY dense_rank() OVER (PARTITION BY s.shape ORDER BY comm) <= $communicators
),
records AS (
    SELECT
        c.comm, c.coll, c.n_ranks, c.shape, e.writer, e.coll_sn,
        CASE WHEN c.cells >= $seen * c.per_pulse THEN e.coll_sn % c.per_pulse ELSE 0 END AS place,
        e.coll_exec_time_us - avg(e.coll_exec_time_us) OVER (PARTITION BY c.comm, c.coll, e.coll_sn) AS lag_us
    FROM ordered_records AS e
    JOIN chosen AS c ON c.comm_key = e.comm_key AND c.coll = e.coll
    SEMI JOIN usable_cells AS u
        ON u.comm = c.comm AND u.coll = e.coll AND u.coll_sn = e.coll_sn AND u.ranks_seen * 2 >= c.n_ranks
    WHERE e.coll_sn BETWEEN c.since AND c.since + $collectives
),
unusual AS (
    SELECT *, lag_us - median(lag_us) OVER (PARTITION BY comm, coll, writer, place) AS unusual_us FROM records
),
changes AS (
    SELECT
        *, unusual_us - lag(unusual_us) OVER of_rank AS change_us, coll_sn - lag(coll_sn) OVER of_rank AS step
    FROM unusual
    WINDOW of_rank AS (PARTITION BY comm, coll, writer ORDER BY coll_sn)
),
pairs AS (
    SELECT *, sign(change_us) * sign(lead(change_us) OVER of_rank) AS signs, lead(step) OVER of_rank AS next_step
    FROM changes
    WINDOW of_rank AS (PARTITION BY comm, coll, writer ORDER BY coll_sn)
),
waits AS (
    SELECT k.shape, median(u.max_exec_time_us - u.min_exec_time_us) AS waited_us
    FROM usable_cells AS u JOIN diagnosed_communicators AS k USING (comm)
    GROUP BY k.shape
),
kinds AS (
    SELECT shape, max(1 + 2 * sin(pi() * signs / 2)) AS carried
    FROM (
        SELECT shape, coll, avg(signs) AS signs
        FROM pairs
        WHERE step = 1 AND next_step = 1 AND signs != 0
        GROUP BY shape, coll
        HAVING count(*) >= $pairs
    )
    GROUP BY shape
)
SELECT
    k.comm, CASE WHEN kinds.carried >= $least THEN 1 - least(kinds.carried, $most) ELSE 1 END AS fresh,
    $usual_waits * coalesce(w.waited_us, 0) AS most_us
FROM diagnosed_communicators AS k
LEFT JOIN kinds ON kinds.shape = k.shape
LEFT JOIN waits AS w ON w.shape = k.shape
"""


def measure_overlap(con: duckdb.DuckDBPyConnection) -> None:
    """Create the temporary table `fresh_shares`: by communicator (`comm`), the share of its waiting that is `fresh`,
    and how much of one wait is carried over at most (`most_us`).

    Communicators of the same shape are one kind, and of their collectives the one that shows the
    most overlap speaks for all, for they run in one stream. 1 where nothing is carried over, or too little recorded to
    tell. Reads the tables of `queries`.
    """
    con.execute(
        _FRESH_SHARES,
        {
            "communicators": _COMMUNICATORS, "collectives": _COLLECTIVES, "seen": _SEEN_AT_A_PLACE,
            "pairs": _LEAST_PAIRS, "least": _LEAST_CARRIED, "most": _MOST_CARRIED, "usual_waits": _USUAL_WAITS,
        },
    )  # fmt: skip
