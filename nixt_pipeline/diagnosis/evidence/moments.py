"""How far each process had got at equally distant moments of the past."""

from collections.abc import Collection
from typing import NamedTuple

from nixt_pipeline.diagnosis.evidence.processes import Process, process_of
from nixt_pipeline.diagnosis.evidence.span import Span
from nixt_pipeline.diagnosis.evidence.tables import RunTables

_REACHED = """
SELECT r.comm_key, r.coll, p.hostname, p.pid, p.process, r.moment, r.reached
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
JOIN (
    SELECT writer_of(process, hostname, pid) AS writer, hostname, pid, process
    FROM processes
    WHERE incarnation = $incarnation AND hostname IS NOT NULL AND pid IS NOT NULL
) AS p USING (writer)
"""


class Reached(NamedTuple):
    """The number that a process had recorded of a function of a communicator (the hash of its identity) at a moment,
    which counts from the beginning of the time that is looked at."""

    communicator: int
    coll: str
    process: Process
    moment: int
    number: int


def read_reached(
    run: RunTables, incarnation: int, series: Collection[tuple[int, str]], within: Span, earliest_us: int, moments: int
) -> list[Reached]:
    """What processes of a launch recorded at so many `moments` `within` a stretch of time, of `series` (the hashes of
    communicators, and functions). What was written before it, but not before `earliest_us`, has moments below 0."""
    begin, end = within
    rows = run.con.sql(
        _REACHED,
        params={
            "begin": begin, "span": end - begin + 1, "moments": moments, "end": end, "earliest": earliest_us,
            "colls": sorted({coll for _, coll in series}), "communicators": sorted({comm for comm, _ in series}),
            "incarnation": incarnation,
        },
    ).fetchall()  # fmt: skip
    return [
        Reached(communicator, coll, process_of(host, pid, name), moment, number)
        for communicator, coll, host, pid, name, moment, number in rows
    ]
