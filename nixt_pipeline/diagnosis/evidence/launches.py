"""The launches of a directory."""

from dataclasses import dataclass

import duckdb

_LAUNCHES = """
SELECT incarnation, min(first_dump_us), max(last_dump_us), list(DISTINCT hostname), count(*)
FROM processes
GROUP BY incarnation
HAVING count(first_dump_us) > 0
ORDER BY ALL
"""


@dataclass(frozen=True)
class Launch:
    """Another launch of the same directory: when it was recorded, on which hosts, and by how many processes."""

    number: int
    first_us: int
    last_us: int
    hosts: frozenset[str]
    processes: int


def read_launches(con: duckdb.DuckDBPyConnection) -> list[Launch]:
    """All launches of the run that have times, by number."""
    return [
        Launch(number, first, last, frozenset(hosts), processes)
        for number, first, last, hosts, processes in con.sql(_LAUNCHES).fetchall()
    ]
