"""The books of an ingest: what became of every file, record and byte."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Annotated, Any

import pyarrow as pa
from pydantic import Field

from nixt_pipeline.inspector import taxonomy
from nixt_pipeline.inspector.file_summary import FileSummary
from nixt_pipeline.inspector.inventory import LogFile

# The status of an earlier version of a file that changed, kept for the records that only it had.
SUPERSEDED = "superseded"
# The status of a file that may hold records and is left alone: a leftover of a copy, an archive.
IGNORED = "ignored"
# What fits the columns of the run catalog; more is damage.
Count = Annotated[int, Field(ge=0, lt=2**63)]


@dataclass(frozen=True)
class FileAccount:
    """One file's row of the `files` table, and what a later ingest must know to take its rows over."""

    file_id: int
    path: str
    size_bytes: int
    mtime_ns: int
    fingerprint: str
    compression: str
    status: str
    problem: str | None = None
    hostname: str | None = None
    pid: int | None = None
    first_dump_us: int | None = None
    last_dump_us: int | None = None
    records_collective: int = 0
    records_p2p: int = 0
    records_auxiliary: int = 0
    records_duplicate: int = 0
    lines_rejected: int = 0
    lines_foreign: int = 0
    bytes_read: int = 0
    bytes_stored: int = 0
    bytes_duplicate: int = 0
    bytes_rejected: int = 0
    bytes_foreign: int = 0
    bytes_blank: int = 0
    content_digest: str | None = None
    processes: tuple[tuple[str | None, int | None], ...] = ()
    may_repeat: bool = False
    reused: bool = False
    lines: int = 0
    stateful: bool = False

    @property
    def records(self) -> int:
        """Stored records of operations."""
        return self.records_collective + self.records_p2p

    @property
    def balanced(self) -> bool:
        """Whether every byte read is in exactly one of the other counts."""
        parts = self.bytes_stored + self.bytes_duplicate + self.bytes_rejected + self.bytes_foreign + self.bytes_blank
        return self.bytes_read == parts


_FIELDS = {column.name for column in fields(FileAccount)}
_COUNTS = [name for name in _FIELDS if name.startswith(("records_", "lines_", "bytes_"))]
_NOTHING: dict[str, Any] = dict.fromkeys(_COUNTS, 0)
# What the inventory says of a file, and what a worker does.
LISTED = sorted(_FIELDS & {column.name for column in fields(LogFile)})
_DECODED = _FIELDS & {column.name for column in fields(FileSummary)} - {"path", "processes"}


@dataclass(frozen=True)
class Repeats:
    """Duplicate records of one file."""

    collective: int = 0
    p2p: int = 0
    n_bytes: int = 0


def account_unread(number: int, file: LogFile) -> FileAccount:
    """The account of a file that was not decoded, with the reason: a leftover or an archive, one that cannot be opened,
    or somebody else's by its name or content."""
    if file.ignored is not None:
        return replace(_facts(number, file, IGNORED), problem=file.unreadable or file.ignored)
    if file.unreadable is not None:
        return replace(_facts(number, file, "unreadable"), problem=file.unreadable)
    return replace(_facts(number, file, "foreign"), problem=file.foreign)


def with_only_copies(accounts: list[FileAccount]) -> list[FileAccount]:
    """The same accounts; of an ignored file that begins with a record of a process of which there are no other records,
    the reason says so."""
    known = {process for account in accounts for process in account.processes}

    def told(account: FileAccount) -> FileAccount:
        process = (account.hostname, account.pid)
        if account.status != IGNORED or None in process or process in known:
            return account
        only = f"begins with a record of {account.hostname}, pid {account.pid}, of which no other file has any"
        return replace(account, problem=f"{account.problem}; {only}: finish the copy or rename it, then ingest again")

    return [told(account) for account in accounts]


def account_decoded(file: LogFile, summary: FileSummary) -> FileAccount:
    """The account of a file that a worker decoded."""
    counts = {name: getattr(summary, name) for name in _DECODED}
    facts = _facts(summary.file_id, file, summary.status)
    return replace(facts, **counts, processes=tuple(sorted(summary.processes, key=str)))


def account_grown(before: FileAccount, file: LogFile, summary: FileSummary) -> FileAccount:
    """The account of a file that grew: what was stored of it, and what a worker decoded of the rest."""
    added = account_decoded(file, summary)
    stamps = (before.first_dump_us, before.last_dump_us, added.first_dump_us, added.last_dump_us)
    known = [stamp for stamp in stamps if stamp is not None]
    return replace(
        added,
        status="read",
        problem=before.problem or added.problem,
        first_dump_us=min(known, default=None),
        last_dump_us=max(known, default=None),
        processes=tuple(sorted({*before.processes, *added.processes}, key=str)),
        # Sequence numbers of the stored part are no longer known.
        may_repeat=True,
        content_digest=None,
        **{name: getattr(before, name) + getattr(added, name) for name in _COUNTS},
    )


def as_copy(account: FileAccount) -> FileAccount:
    """The account of a file that is a copy of another: all of it counts as duplicate."""
    read = account.bytes_read
    counts = {"records_duplicate": account.records, "bytes_read": read, "bytes_duplicate": read}
    return replace(account, status="duplicate", **_NOTHING | counts)


def superseded(account: FileAccount) -> FileAccount:
    """The account of an earlier version of a file: only its stored records still count."""
    stored = {name: getattr(account, name) for name in ("records_collective", "records_p2p", "bytes_stored")}
    return replace(
        account,
        status=SUPERSEDED,
        problem="an earlier version of the file, which had records that the present one lacks",
        content_digest=None,
        reused=True,
        **_NOTHING | stored | {"bytes_read": account.bytes_stored},
    )


def without_repeats(account: FileAccount, repeats: Repeats) -> FileAccount:
    """The account of a file some of whose records were stored already."""
    left = replace(
        account,
        records_collective=account.records_collective - repeats.collective,
        records_p2p=account.records_p2p - repeats.p2p,
        bytes_stored=account.bytes_stored - repeats.n_bytes,
    )
    if account.status == SUPERSEDED:
        # What the present version has as well is not a duplicate: the earlier one no longer counts.
        return replace(left, bytes_read=account.bytes_read - repeats.n_bytes)
    return replace(
        left,
        records_duplicate=account.records_duplicate + repeats.collective + repeats.p2p,
        bytes_duplicate=account.bytes_duplicate + repeats.n_bytes,
    )


def files_table(accounts: Iterable[FileAccount]) -> pa.Table:
    """The `files` table."""
    schema = taxonomy.schema(taxonomy.FILE_COLUMNS)
    rows = [{name: getattr(account, name) for name in schema.names} for account in accounts]
    return pa.Table.from_pylist(rows, schema=schema)


@dataclass(frozen=True, kw_only=True)
class IngestSummary:
    """The result of an ingest in numbers. `incarnations` is the number of launches found in the directory."""

    run: str
    incarnations: Count
    files: dict[str, Count]
    records: dict[str, Count]
    rejected_lines: Count
    foreign_lines: Count
    dropped_by_plugin: Count
    bytes: dict[str, Count]
    seconds: float
    schema: int = field(default=1)

    def to_json(self) -> dict[str, Any]:
        """The documented JSON of an ingest, version 1."""
        content = asdict(self)
        return {"schema": content.pop("schema"), **content}


def summarise(
    run: str, accounts: list[FileAccount], incarnations: int, dropped_by_plugin: int, seconds: float
) -> IngestSummary:
    """Add up the accounts of all files of a run; `bytes["read"]` is the sum of the other byte counts."""

    def total(name: str) -> int:
        return sum(getattr(account, name) for account in accounts)

    statuses = ("empty", "foreign", "duplicate", "unreadable", IGNORED, "vanished", SUPERSEDED)
    files = {
        "read": sum(account.status == "read" and not account.reused for account in accounts),
        "unchanged": sum(account.status == "read" and account.reused for account in accounts),
        **{status: sum(account.status == status for account in accounts) for status in statuses},
    }
    collective, p2p = total("records_collective"), total("records_p2p")
    return IngestSummary(
        run=run,
        incarnations=incarnations,
        files=files,
        records={
            "stored": collective + p2p,
            "collective": collective,
            "p2p": p2p,
            "duplicate": total("records_duplicate"),
        },
        rejected_lines=total("lines_rejected"),
        foreign_lines=total("lines_foreign"),
        dropped_by_plugin=dropped_by_plugin,
        bytes={
            name: total(f"bytes_{name}") for name in ("read", "stored", "duplicate", "rejected", "foreign", "blank")
        },
        seconds=round(seconds, 3),
    )


def _facts(number: int, file: LogFile, status: str) -> FileAccount:
    return FileAccount(file_id=number, status=status, **{name: getattr(file, name) for name in LISTED})
