"""What decoding a file yielded, and how the results of its slices become that of the file."""

from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

from nixt_pipeline.inspector.records import Row

_SUMS = ("records_", "lines", "bytes_")
# Keys of JSON are texts.
_AS_PAIRS = PlainSerializer(lambda counters: list(counters.items()))
_FROM_PAIRS = BeforeValidator(lambda pairs: {tuple(counter): span for counter, span in pairs})


@dataclass
class FileSummary:
    """What decoding one file yielded; byte counts are after decompression and decoding to UTF-8."""

    file_id: int
    path: str
    status: str = "read"
    problem: str | None = None
    # Why the first line that is no record is none.
    first_reason: str | None = None
    first_dump_us: int | None = None
    last_dump_us: int | None = None
    records_collective: int = 0
    records_p2p: int = 0
    records_auxiliary: int = 0
    lines_rejected: int = 0
    lines_foreign: int = 0
    bytes_read: int = 0
    bytes_stored: int = 0
    bytes_rejected: int = 0
    bytes_foreign: int = 0
    bytes_blank: int = 0
    content_digest: str | None = None
    processes: set[tuple[str | None, int | None]] = field(default_factory=set)
    # Whether the file may hold a record twice: a sequence number of a communicator and function did not rise.
    may_repeat: bool = False
    lines: int = 0
    # Whether anything in it is Inspector's, even if broken.
    recognised: bool = False
    # Whether lines of it say whose they are only together with a marker before them.
    stateful: bool = False
    # First and last sequence number of each communicator, rank, process and function.
    counters: Annotated[dict[Row, tuple[int, int]], _AS_PAIRS, _FROM_PAIRS] = field(default_factory=dict)


def settle(summary: FileSummary) -> FileSummary:
    """Decide what kind of file it was: empty, ours, or another program's, which counts as one thing, not by lines."""
    records = summary.records_collective + summary.records_p2p + summary.records_auxiliary
    if summary.status == "unreadable":
        return summary
    if summary.bytes_read == summary.bytes_blank:
        # A damaged compressed file that gives nothing is not one of a process that recorded nothing.
        summary.status = "unreadable" if summary.problem else "empty"
    elif not records and not summary.recognised:
        summary.status = "foreign"
        summary.bytes_foreign = summary.bytes_read
        summary.bytes_rejected = summary.bytes_blank = 0
        summary.lines_rejected = summary.lines_foreign = 0
        summary.problem = summary.problem or f"no record in it: {summary.first_reason or 'nothing of Inspector'}"
    return summary


def merge(slices: list[FileSummary]) -> FileSummary:
    """The summary of a file from those of its slices, in order; as if it had been decoded in one piece.

    Only the content's digest is missing, so that a copy of a sliced file is recognised by its records.
    """
    if len(slices) == 1:
        return slices[0]
    merged = FileSummary(slices[0].file_id, slices[0].path)
    for piece in slices:
        for name in (column.name for column in fields(FileSummary) if column.name.startswith(_SUMS)):
            setattr(merged, name, getattr(merged, name) + getattr(piece, name))
        merged.problem = merged.problem or piece.problem
        merged.first_reason = merged.first_reason or piece.first_reason
        merged.status = piece.status if piece.status == "unreadable" else merged.status
        merged.processes |= piece.processes
        merged.may_repeat |= piece.may_repeat
        merged.recognised |= piece.recognised
        merged.stateful |= piece.stateful
    stamps = [stamp for piece in slices for stamp in (piece.first_dump_us, piece.last_dump_us) if stamp is not None]
    merged.first_dump_us, merged.last_dump_us = min(stamps, default=None), max(stamps, default=None)
    merged.may_repeat |= any(_falls(earlier, later) for earlier, later in pairwise(_reached(slices)))
    return merged


def _reached(slices: list[FileSummary]) -> list[dict[Row, tuple[int, int]]]:
    """For each slice its counters, and those of earlier slices that do not occur in it."""
    reached: list[dict[Row, tuple[int, int]]] = []
    for piece in slices:
        reached.append({**(reached[-1] if reached else {}), **piece.counters})
    return reached


def _falls(earlier: dict[Row, tuple[int, int]], later: dict[Row, tuple[int, int]]) -> bool:
    """Whether a sequence number does not rise from one slice to the next."""
    return any(later[counter] != spans and later[counter][0] <= spans[1] for counter, spans in earlier.items())
