"""Rules for the stored events: columns and row counts as promised, and values that can be true."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nixt_pipeline.inspector.taxonomy import Column
from nixt_pipeline.quality.expectations import Expectation, at_least, between, judge, never
from nixt_pipeline.quality.verdicts import Row, Rule, Verdict
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


def judge_columns(files: Sequence[Path], columns: Sequence[Column]) -> Verdict:
    """Compare the schema of each Parquet file with the taxonomy."""
    problems: list[Row] = []
    for path in files:
        types = {field.name: field.type for field in pq.read_schema(path)}
        for column in columns:
            found = types.get(column.name)
            if found is None or _value_type(found) != column.type:
                shown = "missing" if found is None else str(found)
                expected = str(column.type)
                problems.append({"file": path.name, "column": column.name, "expected": expected, "found": shown})
    return COLUMNS_AS_PROMISED.verdict(
        bool(files) and not problems,
        f"{len(problems)} columns are missing or have another type" if files else "there are no event files",
        problems,
        files=len(files),
        columns=len(columns),
        problems=len(problems),
    )


def judge_rows(files: Sequence[Path], validated: int) -> Verdict:
    """Compare the rows in the Parquet files with the number of validated records."""
    rows = sum(pq.read_metadata(path).num_rows for path in files)
    summary = f"{rows:,} rows stored, {validated:,} records validated"
    return ROWS_AS_VALIDATED.verdict(rows == validated, summary, rows_stored=rows, records_validated=validated)


def judge_values(profile: pa.Table, limits: Thresholds) -> list[Verdict]:
    """Apply the rules about values to the `event_profile` of a run."""
    return judge(profile, event_expectations(limits))


def event_expectations(limits: Thresholds) -> dict[Rule, tuple[Expectation, ...]]:
    """The rules about values, and what each of them expects of an `event_profile`."""
    unusable = f"at most {limits.quality.max_unusable_share:.0%} of the execution times are unusable"
    possible = f"no bus bandwidth above {limits.quality.max_plausible_busbw_gbs:.0f} GB/s"
    same = f"no difference above {limits.quality.bandwidth_mismatch_gbs} GB/s"
    return _STRUCTURE | {
        Rule(
            "execution_times_are_usable",
            "A time of zero, below zero, or wrapped around is stored as null and left out of every bandwidth.",
        ): (between("unusable_share", 0, limits.quality.max_unusable_share, unusable),),
        Rule(
            "all_times_are_measured_on_the_gpu",
            "Times taken on the CPU include launch delays; bandwidths of different timing sources cannot be compared.",
        ): (
            never("cpu_timed", "no time was measured on the CPU"),
            never("other_timed", "every record has its timing source"),
        ),
        Rule(
            "bandwidth_is_physically_possible",
            "A bus bandwidth that no hardware reaches means a wrong time, size or unit (early RCCL wrote ten times too "
            "much).",
        ): (
            never("bandwidth_impossible", possible),
            never("bandwidth_not_finite", "every written bandwidth is a number"),
        ),
        Rule(
            "written_bandwidth_follows_from_size_and_time",
            "The plugin computes bandwidth from size, ranks and time. If recomputing gives another value, another "
            "plugin wrote the log.",
        ): (never("bandwidth_mismatches", same),),
        Rule(
            "no_two_records_are_equal",
            "Records equal in every field count an operation twice, unless CUDA graphs replayed it within the same "
            "microsecond.",
        ): (never("exact_duplicates", "no two stored records are equal"),),
        Rule(
            "write_times_are_plausible",
            "A write time before 2020 or after 2100 means a broken clock or another unit; such records are missing "
            "from time axes.",
        ): (never("implausible_timestamps", "every write time is a Unix time in microseconds"),),
        Rule(
            "all_records_have_one_schema",
            "Several plugin versions in one run, or fields that come and go: a partial upgrade, whose hosts should not "
            "be compared.",
        ): (
            between("format_versions", 0, 1, "one format version"),
            between("git_revs", 0, 1, "one build of the plugin"),
            at_least("kinds", "key_sets", "all records of a kind have the same fields"),
        ),
    }


# No limit decides about these.
_STRUCTURE: dict[Rule, tuple[Expectation, ...]] = {
    Rule(
        "required_values_are_present",
        "A record without communicator, rank, host, function, size or sequence number is missing from some analyses.",
    ): (
        never("null_id", "every record names its communicator"),
        never("null_rank", "every record has a rank"),
        never("null_n_ranks", "every record has the communicator's size"),
        never("null_nnodes", "every record has the communicator's node count"),
        never("null_hostname", "every record names its host"),
        never("null_pid", "every record has a process id"),
        never("null_dump_timestamp_us", "every record has a write time"),
        never("null_coll", "every record names its function"),
        never("null_coll_sn", "every record has a sequence number"),
        never("null_coll_msg_size_bytes", "every record has a message size"),
    ),
    Rule(
        "values_are_in_their_domain",
        "Ranks beyond the communicator, node counts beyond the ranks, unknown functions: damaged records, or a plugin "
        "newer than nixt.",
    ): (
        never("rank_out_of_range", "every rank is below the communicator's size"),
        never("nnodes_out_of_range", "every node count is between 1 and the ranks"),
        never("peer_out_of_range", "every peer is below the communicator's size"),
        never("values_out_of_range", "every value fits its column"),
        never("unknown_functions", "every function is one of NCCL's"),
    ),
}
EVENT_RULES = (COLUMNS_AS_PROMISED, ROWS_AS_VALIDATED, *event_expectations(Thresholds()))


def _value_type(data_type: pa.DataType) -> pa.DataType:
    """The type of the values: how a column is encoded makes no difference to its readers."""
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type
