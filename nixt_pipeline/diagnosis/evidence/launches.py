"""The launches of a directory."""

from dataclasses import dataclass

from nixt_pipeline.diagnosis.evidence.tables import RunTables

_LAUNCHES = """
SELECT
    incarnation, coalesce(min(first_dump_us), 0), coalesce(max(last_dump_us), 0),
    coalesce(list(DISTINCT hostname) FILTER (hostname IS NOT NULL), []), count(*), sum(records)::BIGINT
FROM processes
GROUP BY incarnation
ORDER BY ALL
"""


@dataclass(frozen=True)
class Launch:
    """One launch of a directory: when it was recorded (Unix microseconds; 0 without any time), on which hosts, by
    how many processes, in how many records."""

    number: int
    first_us: int
    last_us: int
    hosts: frozenset[str]
    processes: int
    records: int


def read_launches(run: RunTables) -> tuple[Launch, ...]:
    """All launches of a run, by number."""
    return tuple(
        Launch(number, first, last, frozenset(hosts), processes, records)
        for number, first, last, hosts, processes, records in run.con.sql(_LAUNCHES).fetchall()
    )
