"""How long each process communicated in each block: what was recorded, and what must have been beside it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nixt_pipeline.arrays import Array, Floats, Ints
from nixt_pipeline.diagnosis.evidence import queries
from nixt_pipeline.diagnosis.evidence.point_to_point import PointToPoint
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.diagnosis.evidence.sampled import filled, like_others, numbered, typical_times
from nixt_pipeline.diagnosis.evidence.side_by_side import Series, waited_twice
from nixt_pipeline.diagnosis.evidence.tables import LaunchTables

Columns = dict[str, Array]


def read_occupation(
    tables: LaunchTables, processes: Sequence[Process], unsure: Sequence[int], edges: PointToPoint
) -> tuple[Floats, Floats]:
    """Microseconds by process (row) and block (column): in collectives, Send and Recv, without what was waited in the
    collective before already, and that. `unsure`: the communicators, by number, of which it is not known which rank of
    a process is in them."""
    in_collectives = _in_collectives(tables)
    spent = [*in_collectives, *(edges.spent if edges.complete else [])]
    [(lossy,)] = tables.con.sql("SELECT coalesce(bool_or(NOT whole), false) FROM blocks").fetchall()
    members = tables.con.sql(queries.MEMBER_SERIES).fetchnumpy() if lossy else None
    together = _together(tables, processes, unsure)
    occupied = _by_process(spent, "time_us", members, together, tables.blocks)
    carried = _by_process(in_collectives, "carried_us", members, together, tables.blocks)
    if not unsure:
        carried += waited_twice(in_collectives, _series(tables), len(processes), tables.blocks)
    return occupied - carried, carried


def _series(tables: LaunchTables) -> Series:
    found = tables.con.sql(queries.SERIES_OF).fetchnumpy()
    return Series(found["series"], found["shape"], found["comm"])


@dataclass(frozen=True)
class _Together:
    """The number of each process among the process ids, of which one can have several ranks; and the series of
    which it is not known which of these ranks are in them."""

    process_id: Ints
    series: Ints


def _together(tables: LaunchTables, processes: Sequence[Process], unsure: Sequence[int]) -> _Together:
    numbers = {key: number for number, key in enumerate(dict.fromkeys(process[:2] for process in processes))}
    found = tables.con.sql(queries.UNSURE_SERIES, params={"unsure": unsure}).fetchnumpy() if unsure else {}
    series = np.asarray(found.get("series", []), np.uint64).astype(np.int64)
    return _Together(np.array([numbers[process[:2]] for process in processes], np.int64), series)


def _by_process(spent: list[Columns], what: str, members: Columns | None, together: _Together, blocks: int) -> Floats:
    """Sums of the column `what` by process and block. What any rank of a process id could have spent is shared out
    among all of them. A block of a series in which a process has no record is filled
    from other blocks, and a series in which it has none at all (of `members`, which lists them) like those of others,
    lest what was not recorded looks like time spent elsewhere."""
    series, process, block, time = (
        np.concatenate([part[name] for part in spent]) for name in ("series", "process", "block", what)
    )
    rows, row = numbered(series, process)
    by_series = np.full((rows.shape[1], blocks), np.nan)
    by_series[row, block] = time
    by_series = filled(by_series)
    result = np.zeros((len(together.process_id), blocks))
    unsure = np.isin(rows[0], together.series)
    np.add.at(result, rows[1, ~unsure], by_series[~unsure])
    if members is not None:
        np.add.at(result, *_never_recorded(rows, by_series, members))
    return result + _shared_out(rows[1, unsure], by_series[unsure], together.process_id) if unsure.any() else result


def _shared_out(process: Ints, times: Floats, process_id: Ints) -> Floats:
    """The times by process, each the mean over all with its process id."""
    sums = np.zeros((process_id.max() + 1, times.shape[1]))
    np.add.at(sums, process_id[process], times)
    return (sums / np.bincount(process_id)[:, None])[process_id]


def _never_recorded(rows: Ints, by_series: Floats, members: Columns) -> tuple[Ints, Floats]:
    """The processes and the times, by block, of what is in `members` and not in the `rows` (series and process)."""
    expected = np.stack([members["series"].astype(np.int64), members["process"]])
    _, number = numbered(*np.concatenate([rows, expected], axis=1))
    row_of = np.full(number.max(initial=0) + 1, -1)
    row_of[number[: rows.shape[1]]] = np.arange(rows.shape[1])
    row = row_of[number[rows.shape[1] :]]
    absent = row < 0
    times = np.where(absent[:, None], np.nan, by_series[row])
    keys = (members[key].astype(np.int64) for key in ("beside", "alike", "series"))
    return expected[1, absent], like_others(times, *keys)[absent]


def _in_collectives(tables: LaunchTables) -> list[Columns]:
    """What each process spent in collectives: sums where they are complete, fitted where they are not."""
    con = tables.con
    con.execute(queries.LEFT_OUT)
    spent = con.sql(queries.OCCUPATION, params={"blocks": tables.blocks}).fetchnumpy()
    [(partial,)] = con.sql("SELECT count(*) FROM blocks WHERE NOT whole").fetchall()
    if not partial:
        return [spent]
    records = con.sql(queries.PARTIAL_RECORDS).fetchnumpy()
    keys, group = numbered(records["series"], records["block"])
    at_place, fresh, most_us = np.zeros((3, keys.shape[1]))
    at_place[group], fresh[group], most_us[group] = records["at_place"], records["fresh"], records["most_us"]
    number, member, time = typical_times(
        group, records["coll_sn"], records["process"], records["time_us"].astype(np.float64)
    )
    series, block = keys[:, number]
    shortest = np.full(keys.shape[1], np.inf)
    np.minimum.at(shortest, number, time)
    carried = np.minimum((1 - fresh[number]) * (time - shortest[number]), most_us[number])
    fitted = {
        "series": series.astype(np.uint64), "process": member, "block": block,
        "time_us": at_place[number] * time, "carried_us": at_place[number] * carried,
    }  # fmt: skip
    return [spent, fitted]
