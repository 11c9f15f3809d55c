"""Rules for the stages of an ingest: what was found, what could be read, and whether the books balance."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.inspector.inventory import Inventory
from nixt_pipeline.inspector.operations import COLL_TYPES
from nixt_pipeline.quality.expectations import among, at_least, between, judge, present, unique
from nixt_pipeline.quality.verdicts import SHOWN, Rule, Verdict
from nixt_pipeline.store.accounts import IngestSummary

HOLDS_LOGS = Rule(
    "the_directory_holds_log_files",
    "A directory without any possible log file is not a dump: wrong path, or the plugin never wrote.",
    blocking=True,
)
CAN_BE_OPENED = Rule(
    "every_log_file_can_be_opened",
    "A file that cannot be opened is missing from every result: fix its permissions and rematerialise the run.",
)
NOT_EMPTY = Rule(
    "no_log_file_is_empty",
    "A process that opened its log and wrote nothing crashed early, or never completed a collective.",
)
INVENTORY_RULES = (HOLDS_LOGS, CAN_BE_OPENED, NOT_EMPTY)

READABLE = Rule(
    "at_least_one_record_is_readable",
    "Without a record there is nothing to analyse: the files are not Inspector logs, or completely damaged.",
    blocking=True,
)
BYTES_ADD_UP = Rule(
    "every_byte_is_accounted_for",
    "Every byte read is in exactly one of: stored, duplicate, rejected, foreign, blank. Otherwise data was lost or "
    "counted twice.",
    blocking=True,
)
RECORDS_ADD_UP = Rule(
    "collective_and_p2p_records_add_up",
    "The stored records are the collectives plus the point-to-point operations; otherwise some have no kind.",
    blocking=True,
)
NOTHING_REJECTED = Rule(
    "no_line_is_rejected",
    "A rejected line is kept with file, position and reason in the table `rejects`. A few at the ends of files "
    "are lines that a killed process did not finish.",
)
READ_TO_THE_END = Rule(
    "every_file_is_read_to_its_end",
    "Of a damaged archive, or a file that vanished while being read, only the part before that is stored.",
)
LOGGED_ONCE = Rule(
    "no_record_is_logged_twice",
    "Duplicates come from files copied twice or from restarted collectors. They are stored once and counted here.",
)
NOTHING_LOST = Rule(
    "the_plugin_lost_no_records",
    "The plugin's own loss counters (dump_stats). Lost records are missing from every result.",
)
VALIDATION_RULES = (
    READABLE,
    BYTES_ADD_UP,
    RECORDS_ADD_UP,
    NOTHING_REJECTED,
    READ_TO_THE_END,
    LOGGED_ONCE,
    NOTHING_LOST,
)

COMMUNICATORS_CONSISTENT = Rule(
    "every_communicator_is_listed_once",
    "A communicator is identified by launch, id, name, ranks and nodes, and has a placement class. Otherwise joins "
    "multiply records.",
    blocking=True,
)
EVERY_RANK_REPORTS = Rule(
    "every_rank_of_every_communicator_reports",
    "A rank without records: its log was not collected, or the process never got past its first collective.",
)
ONE_PROCESS_PER_RANK = Rule(
    "every_rank_is_one_process",
    "Two processes that claim one rank of one communicator are two jobs in one directory, or recycled communicator "
    "ids.",
)
ONE_LAUNCH = Rule(
    "all_records_come_from_one_launch",
    "Several launches in one directory are analysed separately; figures for the whole run mix them.",
)
TYPING_RULES = (COMMUNICATORS_CONSISTENT, EVERY_RANK_REPORTS, ONE_PROCESS_PER_RANK, ONE_LAUNCH)

_COMMUNICATOR_KEY = ("incarnation", "id", "comm_name", "n_ranks", "nnodes")
_OF_COMMUNICATORS = {
    COMMUNICATORS_CONSISTENT: (
        unique(_COMMUNICATOR_KEY, "no communicator is listed twice"),
        present("incarnation", "every communicator belongs to a launch"),
        among("coll_type", COLL_TYPES, f"the placement class is one of {', '.join(COLL_TYPES)}"),
        between("records", 1, None, "every communicator has records"),
    )
}
_OF_MEMBERSHIP = {
    ONE_PROCESS_PER_RANK: (
        unique((*_COMMUNICATOR_KEY, "rank"), "no rank of a communicator is claimed by two processes"),
        present("rank", "every member has a rank"),
        at_least("n_ranks", "rank", "no rank is beyond the size of its communicator"),
    )
}


def judge_inventory(inventory: Inventory) -> Iterator[Verdict]:
    """Apply `INVENTORY_RULES`."""
    logs = [file for file in inventory.files if file.foreign is None and file.ignored is None]
    foreign = len(inventory.files) - len(logs)
    summary = f"{len(logs)} files that may be logs and {foreign} others in {inventory.directory}"
    yield HOLDS_LOGS.verdict(bool(logs), summary, log_files=len(logs), other_files=foreign)
    closed = [{"path": file.path, "problem": file.unreadable} for file in logs if file.unreadable]
    yield CAN_BE_OPENED.unless(closed, f"{len(closed)} of {len(logs)} log files cannot be opened", files=len(closed))
    empty = [{"path": file.path} for file in logs if not file.unreadable and file.size_bytes == 0]
    yield NOT_EMPTY.unless(empty, f"{len(empty)} of {len(logs)} log files are empty", files=len(empty))


def judge_validation(summary: IngestSummary, files: pa.Table, rejects: pa.Table) -> Iterator[Verdict]:
    """Apply `VALIDATION_RULES` to the books of an ingest; `files` and `rejects` explain a violation."""
    records, sizes = summary.records, summary.bytes
    stored = f"{records['stored']:,} records in {sum(summary.files.values()):,} files"
    yield READABLE.verdict(records["stored"] > 0, stored, records=records["stored"])
    parts = {name: count for name, count in sizes.items() if name != "read"}
    missing = sizes["read"] - sum(parts.values())
    yield BYTES_ADD_UP.verdict(
        missing == 0,
        f"{sizes['read']:,} bytes read, {f'{missing:,} unaccounted for' if missing else 'all accounted for'}",
        [{"outcome": name, "bytes": count} for name, count in parts.items()],
        bytes_unaccounted_for=missing,
    )
    unkind = records["stored"] - records["collective"] - records["p2p"]
    yield RECORDS_ADD_UP.verdict(
        unkind == 0,
        f"{records['collective']:,} collectives + {records['p2p']:,} point-to-point = {records['stored']:,} stored"
        if unkind == 0
        else f"{abs(unkind):,} of {records['stored']:,} stored records are of no kind or of two",
        records_of_no_kind=unkind,
    )
    rejected = rejects.filter(pc.field("outcome") == "rejected").select(["path", "line", "reason", "sample"])
    yield NOTHING_REJECTED.verdict(
        summary.rejected_lines == 0,
        f"{summary.rejected_lines:,} lines rejected, {summary.foreign_lines:,} recognised as another program's",
        rejected.slice(0, SHOWN).to_pylist(),
        rejected_lines=summary.rejected_lines,
        rejected_bytes=sizes["rejected"],
    )
    damaged = [
        {name: row[name] for name in ("path", "status", "problem")}
        for row in files.to_pylist()
        if row["status"] in ("unreadable", "vanished")
        or (row["problem"] and row["status"] not in ("foreign", "ignored"))
    ]
    incomplete = f"{len(damaged)} of {files.num_rows} files could not be read completely"
    yield READ_TO_THE_END.unless(damaged, incomplete, files=len(damaged))
    twice, lost = records["duplicate"], summary.dropped_by_plugin
    yield LOGGED_ONCE.verdict(twice == 0, f"{twice:,} records had been stored already", duplicate_records=twice)
    yield NOTHING_LOST.verdict(lost == 0, f"the plugin reports {lost:,} lost records", records_lost=lost)


def judge_typing(communicators: pa.Table, membership: pa.Table, incarnations: int) -> Iterator[Verdict]:
    """Apply `TYPING_RULES` to the dimension tables of a run."""
    yield from judge(communicators, _OF_COMMUNICATORS)
    shown = ("id", "comm_name", "n_ranks", "ranks_seen")
    partial = communicators.filter(pc.field("ranks_seen") < pc.field("n_ranks")).select(shown).to_pylist()
    missing = sum(row["n_ranks"] - row["ranks_seen"] for row in partial)
    yield EVERY_RANK_REPORTS.unless(
        partial,
        f"{missing:,} ranks of {len(partial)} of {communicators.num_rows} communicators have no records",
        ranks_missing=missing,
        communicators=len(partial),
    )
    yield from judge(membership, _OF_MEMBERSHIP)
    several = f"{incarnations} launches, which share no process and ran at different times"
    yield ONE_LAUNCH.verdict(incarnations <= 1, several if incarnations > 1 else "one launch", launches=incarnations)
