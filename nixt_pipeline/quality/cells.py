"""Rules for the collective cells, judged on one row of aggregates."""

import duckdb
import pyarrow as pa

from nixt_pipeline.quality.expectations import Expectation, between, judge, never
from nixt_pipeline.quality.verdicts import Rule, Verdict
from nixt_pipeline.settings import Thresholds

PROFILE_SQL = """
SELECT
    count(*) AS cells,
    count(*) FILTER (complete) AS complete_cells,
    count(*) FILTER (complete) / nullif(count(*), 0) AS complete_share,
    count(*) FILTER (ranks_seen > n_ranks) AS cells_with_too_many_ranks,
    count(*) FILTER (size_mismatch) AS cells_with_several_sizes,
    -- Sums are rounded to nanoseconds, so that a wait can be a rounding error below zero.
    count(*) FILTER (min_exec_time_us < 0 OR min_exec_time_us > max_exec_time_us OR wait_us < -0.001)
        AS cells_with_disordered_times,
    count(*) FILTER (min_rank NOT BETWEEN 0 AND n_ranks - 1) AS cells_with_impossible_ranks,
    count(*) - count(DISTINCT (incarnation, id, comm_name, n_ranks, nnodes, coll, coll_sn, occurrence))
        AS repeated_cells,
    coalesce(sum(ranks_seen), 0)::BIGINT AS records_in_cells,
    records_in_cells - (SELECT count(*) FROM collectives) AS records_gained_or_lost,
    sum(wait_us) / 1e6 AS wait_rank_s,
    -- Ranks of one collective write it at their next dump; what the median is beyond one dump interval is the
    -- distance of their clocks.
    quantile_cont(last_dump_us - first_dump_us, 0.5) FILTER (complete AND nnodes > 1) AS clock_spread_us
FROM cells
"""


def cell_expectations(limits: Thresholds) -> dict[Rule, tuple[Expectation, ...]]:
    """The rules, and what each of them expects of a `cell_profile`."""
    complete_share, offset_us = limits.diagnosis.min_complete_share, limits.diagnosis.max_clock_offset_us
    enough = f"at least {complete_share:.0%} of the collectives were logged by every rank"
    clocks = f"in the median, all ranks write a collective within {offset_us / 1e6:g} s"
    return {
        Rule(
            "every_collective_is_one_row",
            "No collective appears twice and every collective record belongs to exactly one. Otherwise waits and "
            "bandwidths are counted more than once.",
            blocking=True,
        ): (
            never("repeated_cells", "no collective appears twice"),
            never("records_gained_or_lost", "every collective record belongs to exactly one collective"),
        ),
        Rule(
            "no_rank_is_faster_than_the_fastest",
            "The shortest time of a collective is not negative and not above the longest.",
            blocking=True,
        ): (never("cells_with_disordered_times", "0 <= shortest <= longest, no negative wait"),),
        Rule(
            "every_rank_belongs_to_its_communicator",
            "A rank number beyond the communicator's size, or more records of a collective than it has ranks, means "
            "damaged headers or two communicators under one id.",
        ): (
            never("cells_with_impossible_ranks", "the fastest rank is one of the communicator's"),
            never("cells_with_too_many_ranks", "no collective has more records than ranks"),
        ),
        Rule(
            "ranks_agree_on_the_message_size",
            "Ranks that disagree about the size of one collective mean a bug in the training code, or two "
            "communicators mistaken for one.",
        ): (never("cells_with_several_sizes", "all ranks give one message size"),),
        Rule(
            "most_collectives_have_every_rank",
            "Only a collective logged by every rank shows which one came last and how fast the transfer was. With few "
            "of them, findings about ranks have little evidence.",
        ): (between("complete_share", complete_share, 1, enough),),
        Rule(
            "the_clocks_of_the_hosts_agree",
            "Hosts whose clocks differ write one collective at different times. nixt never orders events across hosts "
            "by their clocks, but time axes are blurred by that much.",
        ): (between("clock_spread_us", 0, offset_us, clocks),),
    }


CELL_RULES = tuple(cell_expectations(Thresholds()))


def cell_profile(con: duckdb.DuckDBPyConnection) -> pa.Table:
    """One row of counts over the cells of a run; `con` comes from `open_run`."""
    profile: pa.Table = con.sql(PROFILE_SQL).to_arrow_table()
    return profile


def judge_cells(profile: pa.Table, limits: Thresholds) -> list[Verdict]:
    """Apply `CELL_RULES` to a `cell_profile`."""
    return judge(profile, cell_expectations(limits))
