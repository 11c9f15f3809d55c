"""Incremental ingest: what of the published generation is taken over, and what must be read again."""

from dataclasses import dataclass, replace
from pathlib import Path

from nixt_pipeline.inspector.decompression import Span
from nixt_pipeline.inspector.inventory import Inventory, LogFile, begins_with, grew
from nixt_pipeline.store import accounts as books
from nixt_pipeline.store import layout
from nixt_pipeline.store.accounts import SUPERSEDED, FileAccount
from nixt_pipeline.store.files import link_or_copy
from nixt_pipeline.store.parts import Piece, rewrite_part

# A copy is read again when anything changes: the file it is a copy of may be the one that changed.
_REUSABLE = ("read", "empty", "foreign")


@dataclass(frozen=True)
class Plan:
    """`kept` accounts are taken over with their rows; `to_read` says what to decode, under which file ids.

    A file that `grew` is in both: its rows are taken over, and only its end is decoded.
    """

    kept: list[FileAccount]
    to_read: list[Piece]
    grew: dict[int, FileAccount]


def plan(
    inventory: Inventory,
    previous: list[FileAccount],
    damaged: frozenset[int] = frozenset(),
    other_decoder: bool = False,
) -> Plan:
    """Compare the files of a run with the accounts of its published generation.

    Files whose rows are `damaged` there are read again, as if they were new, and so is each whose bytes are still there
    when an `other_decoder` made that generation. A file that has vanished since (logs are often deleted after
    ingestion) keeps its records, and so does the earlier version of a file that changed: where the new one still has
    them, they are dropped as repeats later.
    """
    directory = Path(inventory.directory)
    grown: dict[int, FileAccount] = {}
    next_id = max((account.file_id for account in previous), default=-1) + 1
    previous = [account for account in previous if account.file_id not in damaged]
    known = {account.path: account for account in previous if account.status != SUPERSEDED}
    kept, to_read = [], []
    for file in inventory.files:
        account = known.pop(file.path, None)
        if account is not None and other_decoder and _holds_all_of(account, file, directory):
            account = None
        if account is not None and _unchanged(account, file):
            kept.append(replace(account, reused=True))
            continue
        if account is not None and not other_decoder and _grew(account, file, directory):
            to_read.append(Piece(account.file_id, file, Span(account.size_bytes, None), account.lines))
            grown[account.file_id] = account
            continue
        to_read.append(Piece(next_id, file))
        next_id += 1
        if account is not None and account.records:
            kept.append(books.superseded(account))
    kept += [replace(account, reused=True) for account in previous if account.status == SUPERSEDED]
    kept += [replace(account, status="vanished", reused=True) for account in known.values() if _has_rows(account)]
    return Plan(kept, to_read, grown)


def take_over_parts(old: Path, new: Path, kept: set[int], parts: dict[str, list[int]]) -> dict[str, list[int]]:
    """Bring the rows of the files in `kept` from generation `old` into `new`; returns which part holds which files."""
    taken = {}
    for part, files in parts.items():
        staying = [number for number in files if number in kept]
        if not staying:
            continue
        taken[part] = staying
        for source in layout.part_files(old, part):
            target = new / source.parent.name / source.name
            if staying == files:
                link_or_copy(source, target)
            else:
                rewrite_part(source, target, without_files=set(files) - kept)
    return taken


def _unchanged(account: FileAccount, file: LogFile) -> bool:
    same = all(getattr(account, name) == getattr(file, name) for name in ("size_bytes", "mtime_ns", "fingerprint"))
    return same and account.status in _REUSABLE and not account.records_duplicate and not file.unreadable


def _grew(account: FileAccount, file: LogFile, directory: Path) -> bool:
    """Whether decoding can go on where it ended: a plain file without markers, the same as before up to its old end."""
    plain = account.status == "read" and file.splittable and not account.stateful
    plain = plain and not account.records_auxiliary and not account.records_duplicate
    longer = account.compression == "none" and file.size_bytes > account.size_bytes
    return plain and longer and grew(directory / file.location, account.size_bytes, account.fingerprint)


def _holds_all_of(account: FileAccount, file: LogFile, directory: Path) -> bool:
    """Whether the file can be decoded, and all bytes that the account is of are still at its beginning."""
    return file.is_log and begins_with(directory / file.location, account.size_bytes, account.fingerprint)


def _has_rows(account: FileAccount) -> bool:
    return account.records + account.records_auxiliary + account.lines_rejected > 0
