"""Rules for the stored events: columns and row counts as promised, and values that can be true.

The values are judged on the profile of the run (`analysis.profile`), one row of exact counts over all records.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nixt_pipeline.inspector.taxonomy import Column
from nixt_pipeline.quality.expectations import Suite, at_least, between, judge
from nixt_pipeline.quality.verdicts import Cell, Rule, Verdict
from nixt_pipeline.settings import Thresholds

COLUMNS_AS_PROMISED = Rule(
    "every_column_is_there_with_its_type",
    "Every column of the taxonomy is in every file of the store, with its type. Otherwise queries fail, or compare "
    "text with numbers.",
    blocking=True,
)
ROWS_AS_VALIDATED = Rule(
    "stored_rows_equal_validated_records",
    "The store holds exactly the records that validation accepted; otherwise a part is missing or was written twice.",
    blocking=True,
)
VALUES_PRESENT = Rule(
    "required_values_are_present",
    "A record without communicator, rank, host, function, size or sequence number is missing from some analyses.",
)
VALUES_IN_DOMAIN = Rule(
    "values_are_in_their_domain",
    "Ranks beyond the communicator, node counts beyond the ranks, unknown functions: damaged records, or a plugin "
    "newer than nixt.",
)
TIMES_USABLE = Rule(
    "execution_times_are_usable",
    "A time of zero, below zero, or wrapped around is stored as null and left out of every bandwidth.",
)
TIMED_BY_GPU = Rule(
    "all_times_are_measured_on_the_gpu",
    "Times taken on the CPU include launch delays; bandwidths of different timing sources cannot be compared.",
)
POSSIBLE_BANDWIDTH = Rule(
    "bandwidth_is_physically_possible",
    "A bus bandwidth that no hardware reaches means a wrong time, size or unit (early RCCL wrote ten times too much).",
)
SAME_BANDWIDTH = Rule(
    "written_bandwidth_follows_from_size_and_time",
    "The plugin computes bandwidth from size, ranks and time. If recomputing gives another value, another plugin "
    "wrote the log.",
)
NO_TWINS = Rule(
    "no_two_records_are_equal",
    "Records equal in every field count an operation twice, unless CUDA graphs replayed it within the same "
    "microsecond.",
)
CLOCKS_PLAUSIBLE = Rule(
    "write_times_are_plausible",
    "A write time before 2020 or after 2100 means a broken clock or another unit; such records are missing from time "
    "axes.",
)
ONE_SCHEMA = Rule(
    "all_records_have_one_schema",
    "Several plugin versions in one run, or fields that come and go: a partial upgrade, whose hosts should not be "
    "compared.",
)
EVENT_RULES = (
    COLUMNS_AS_PROMISED,
    ROWS_AS_VALIDATED,
    VALUES_PRESENT,
    VALUES_IN_DOMAIN,
    TIMES_USABLE,
    TIMED_BY_GPU,
    POSSIBLE_BANDWIDTH,
    SAME_BANDWIDTH,
    NO_TWINS,
    CLOCKS_PLAUSIBLE,
    ONE_SCHEMA,
)

_REQUIRED = {
    "null_id": "every record names its communicator",
    "null_rank": "every record has a rank",
    "null_n_ranks": "every record has the communicator's size",
    "null_nnodes": "every record has the communicator's node count",
    "null_hostname": "every record names its host",
    "null_pid": "every record has a process id",
    "null_dump_timestamp_us": "every record has a write time",
    "null_coll": "every record names its function",
    "null_coll_sn": "every record has a sequence number",
    "null_coll_msg_size_bytes": "every record has a message size",
}
_DOMAIN = {
    "rank_out_of_range": "every rank is below the communicator's size",
    "nnodes_out_of_range": "every node count is between 1 and the ranks",
    "peer_out_of_range": "every peer is below the communicator's size",
    "values_out_of_range": "every value fits its column",
    "unknown_functions": "every function is one of NCCL's",
}


def judge_columns(files: Sequence[Path], columns: Sequence[Column]) -> Verdict:
    """Compare the schema of each Parquet file with the taxonomy."""
    problems: list[dict[str, Cell]] = []
    for path in files:
        found = pq.read_schema(path)
        for column in columns:
            if column.name not in found.names:
                problems.append(
                    {"file": path.name, "column": column.name, "expected": str(column.type), "found": "missing"}
                )
            elif _value_type(found.field(column.name).type) != column.type:
                actual = str(found.field(column.name).type)
                problems.append(
                    {"file": path.name, "column": column.name, "expected": str(column.type), "found": actual}
                )
    return Verdict(
        COLUMNS_AS_PROMISED.name,
        bool(files) and not problems,
        f"{len(problems)} columns are missing or have another type" if files else "there are no event files",
        {"files": len(files), "columns": len(columns), "problems": len(problems)},
        tuple(problems[:12]),
    )


def judge_rows(files: Sequence[Path], validated: int) -> Verdict:
    """Compare the rows in the Parquet files with the number of validated records."""
    rows = sum(pq.read_metadata(path).num_rows for path in files)
    return Verdict(
        ROWS_AS_VALIDATED.name,
        rows == validated,
        f"{rows:,} rows stored, {validated:,} records validated",
        {"rows_stored": rows, "records_validated": validated},
    )


def judge_values(profile: pa.Table, limits: Thresholds) -> Iterator[Verdict]:
    """Apply the rules about values to the profile of a run."""
    yield from judge(_with_shares(profile), event_suites(limits))


def event_suites(limits: Thresholds) -> tuple[Suite, ...]:
    """The expectations behind the rules about values."""
    usable = f"at most {limits.quality.max_unusable_share:.0%} of the execution times are unusable"
    return (
        Suite(VALUES_PRESENT, tuple(between(name, 0, 0, sentence) for name, sentence in _REQUIRED.items())),
        Suite(VALUES_IN_DOMAIN, tuple(between(name, 0, 0, sentence) for name, sentence in _DOMAIN.items())),
        Suite(TIMES_USABLE, (between("unusable_share", 0, limits.quality.max_unusable_share, usable),)),
        Suite(
            TIMED_BY_GPU,
            (
                between("cpu_timed", 0, 0, "no time was measured on the CPU"),
                between("other_timed", 0, 0, "every record has its timing source"),
            ),
        ),
        Suite(
            POSSIBLE_BANDWIDTH,
            (
                between(
                    "bandwidth_impossible",
                    0,
                    0,
                    f"no bus bandwidth above {limits.quality.max_plausible_busbw_gbs:.0f} GB/s",
                ),
                between("bandwidth_not_finite", 0, 0, "every written bandwidth is a number"),
            ),
        ),
        Suite(
            SAME_BANDWIDTH,
            (
                between(
                    "bandwidth_mismatches", 0, 0, f"no difference above {limits.quality.bandwidth_mismatch_gbs} GB/s"
                ),
            ),
        ),
        Suite(NO_TWINS, (between("exact_duplicates", 0, 0, "no two stored records are equal"),)),
        Suite(
            CLOCKS_PLAUSIBLE,
            (between("implausible_timestamps", 0, 0, "every write time is a Unix time in microseconds"),),
        ),
        Suite(
            ONE_SCHEMA,
            (
                between("format_versions", 0, 1, "one format version"),
                between("git_revs", 0, 1, "one build of the plugin"),
                at_least("kinds", "key_sets", "all records of a kind have the same fields"),
            ),
        ),
    )


def _value_type(data_type: pa.DataType) -> pa.DataType:
    """The type of the values: how a column is encoded makes no difference to its readers."""
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type


def _with_shares(profile: pa.Table) -> pa.Table:
    """The profile, with the share of unusable times and the number of kinds of record added."""
    row = profile.to_pylist()[0]
    share = row["unusable_times"] / row["rows"] if row["rows"] else 0.0
    kinds = (row["rows_collective"] > 0) + (row["rows_p2p"] > 0)
    return profile.append_column("unusable_share", [[share]]).append_column("kinds", [[kinds]])
