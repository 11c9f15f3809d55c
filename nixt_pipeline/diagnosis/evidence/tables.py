"""Connections whose temporary tables are there: who asks for one of these types cannot be called too early."""

from dataclasses import dataclass
from typing import NamedTuple

import duckdb


@dataclass(frozen=True)
class RunTables:
    """A run with `ordered_cells`, `ordered_records` and `eager_records`, which `replays.order_replays` makes."""

    con: duckdb.DuckDBPyConnection


class LookedAt(NamedTuple):
    """Of one communicator, by number: how many of its collectives anybody recorded and how many of these are looked at;
    the records that its sequence numbers tell of, and those that are looked at."""

    comm: int
    cells: float
    cells_used: float
    records: float
    records_used: float


@dataclass(frozen=True)
class LaunchTables:
    """One launch of a run, or an era of it, cut into `blocks`, with the tables of `queries`, which
    `blocks.cut_into_blocks` makes. The next launch takes their place: what is read from them is read at once."""

    run: RunTables
    incarnation: int
    blocks: int
    looked_at: tuple[LookedAt, ...]

    @property
    def con(self) -> duckdb.DuckDBPyConnection:
        """The connection of the run."""
        return self.run.con
