"""One era of a launch, a stretch of time in which its communicators stay the same (`eras`), and how it is looked at."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from nixt_pipeline.diagnosis.evidence import queries
from nixt_pipeline.diagnosis.evidence.frontier import Reach
from nixt_pipeline.diagnosis.evidence.passes import PASS_US
from nixt_pipeline.diagnosis.evidence.processes import Process, name_of
from nixt_pipeline.diagnosis.evidence.span import Span
from nixt_pipeline.diagnosis.evidence.tables import LaunchTables, RunTables

# Fewer passes of the dump thread do not tell how long parts of an era lasted.
_LEAST_PASSES = 10

_PASSES = """
SELECT coalesce(median(passes), 0)
FROM (
    SELECT name, count(*) FILTER (after_us > $pass) AS passes
    FROM (
        SELECT r.name, e.dump_timestamp_us
            - lag(e.dump_timestamp_us) OVER (PARTITION BY r.name ORDER BY e.dump_timestamp_us) AS after_us
        FROM ordered_records AS e
        JOIN diagnosed_processes AS d USING (writer)
        JOIN era_records AS r ON r.name = d.name
            AND e.dump_timestamp_us > r.since AND e.dump_timestamp_us <= r.up_to
    )
    GROUP BY name
)
"""

BEFORE_ALL, AFTER_ALL = -1, 2**62
_BOUNDS = {"since": pa.int64(), "up_to": pa.int64()}


@dataclass(frozen=True)
class Era:
    """A stretch of a launch. Its communicators (the hashes of their identities) and processes; which communicators were
    in use `before` it, and which `go_on` after it; when it began and ended, in Unix microseconds. `records`: by
    process, after and up to which time on its own clock it lasted; `numbers`: by communicator and function, the same in
    sequence numbers, where a communicator was in use before or after it; `reaches`: how far its processes got in it.
    `sharp`: whether all paused where it begins and ends, so that what lives on is counted to the operation."""

    communicators: frozenset[int]
    processes: frozenset[Process]
    before: frozenset[int]
    go_on: frozenset[int]
    begin_us: int
    end_us: int
    records: Mapping[Process, Span]
    numbers: Mapping[tuple[int, str], Span]
    reaches: tuple[Reach, ...]
    sharp: tuple[bool, bool] = (True, True)

    def apart(self, communicator: int) -> tuple[bool, bool]:
        """Whether what was in use before it, or after it too, is not counted to the operation at that end, and can only
        be compared with others of which that is so."""
        return (
            communicator in self.before and not self.sharp[0],
            communicator in self.go_on and not self.sharp[1],
        )


def restrict(run: RunTables, era: Era | None) -> None:
    """Create the views from which a launch is observed, of one of its eras only unless that is None."""
    con = run.con
    if era is None:
        con.execute(queries.WHOLE_LAUNCH)
        return
    numbers = [(*series, *span) for series, span in sorted(era.numbers.items())]
    records = [(name_of(process), *span) for process, span in sorted(era.records.items())]
    communicators = [(number,) for number in sorted(era.communicators)]
    for table, columns, rows in (
        ("era_communicators", {"comm_key": pa.uint64()}, communicators),
        ("era_numbers", {"comm_key": pa.uint64(), "coll": pa.string(), **_BOUNDS}, numbers),
        ("era_records", {"name": pa.string(), **_BOUNDS}, records),
    ):
        schema = pa.schema(list(columns.items()))
        con.register("era_rows", pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows], schema))
        con.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS FROM era_rows")
        con.unregister("era_rows")
    con.execute(queries.ONE_ERA)


def tells_times(tables: LaunchTables) -> bool:
    """Whether an era was written in enough passes to tell how long its parts lasted."""
    [(passes,)] = tables.con.sql(_PASSES, params={"pass": PASS_US}).fetchall()
    return bool(passes >= _LEAST_PASSES)
