"""Parts of the store: what one worker writes for a bundle of log files, and how a part is rewritten without some of
its rows."""

import hashlib
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from nixt_pipeline.inspector import taxonomy
from nixt_pipeline.inspector.decompression import WHOLE, Span
from nixt_pipeline.inspector.file_summary import FileSummary
from nixt_pipeline.inspector.inventory import LogFile
from nixt_pipeline.inspector.log_file import decode_file
from nixt_pipeline.inspector.records import Row, Typed
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.files import explained, take_place, temporary_path, write_text
from nixt_pipeline.store.line_tables import LINE_TABLES
from nixt_pipeline.store.reading import read_bytes
from nixt_pipeline.store.seals import Seal, damage, seal_files

EVENTS = taxonomy.stored_schema(taxonomy.EVENT_COLUMNS)
CHANNELS = taxonomy.stored_schema(taxonomy.CHANNEL_COLUMNS)

# Columns by which row groups can be skipped; statistics of all columns cost a quarter of the writing time.
_STATISTICS = ("file_id", "dump_timestamp_us", "coll_sn", "coll_msg_size_bytes")
# Rows held as Python objects before they become Arrow arrays, and rows of a Parquet row group: together they bound a
# worker's memory.
_BATCH_ROWS = 20_000
_ROW_GROUP_ROWS = 250_000
# Rows of texts and of 64 channels are large: a row group ends here at the latest.
_ROW_GROUP_BYTES = 64 << 20
_CHANNEL_BATCH_ROWS = 2_000
# What a worker writes: the schema of each table, and how many of its rows are held as Python objects.
_WRITTEN = {
    "events": (EVENTS, _BATCH_ROWS),
    "channels": (CHANNELS, _CHANNEL_BATCH_ROWS),
    **{table: (schema, _CHANNEL_BATCH_ROWS) for table, schema in LINE_TABLES.items()},
}
# Sequence numbers and write times grow steadily, which delta encoding turns into almost nothing.
_DELTA = {"dump_timestamp_us": "DELTA_BINARY_PACKED", "coll_sn": "DELTA_BINARY_PACKED"}
# A compressed log unfolds to about this many times its size (gzip -6 makes these logs 28 times smaller).
_COMPRESSION_RATIO = 20
# Loading the compiled scanner takes about as long as decoding this much without it.
_TEMPLATE_FROM_BYTES = 16 << 20
# Readying the scanner for another file takes about as long as decoding this much without it.
_TEMPLATE_FILE_BYTES = 128 << 10
# Parts below this size are joined once there are that many of them.
_SMALL_PART_BYTES = 256 << 10
_MANY_SMALL_PARTS = 32
# A log is shared out among at most this many workers, but shares smaller than this are not worth a part of their own.
_SHARES = 16
_MIN_SHARE_BYTES = 32 << 20


@dataclass(frozen=True)
class Piece:
    """A file, or a slice of a large one, to decode."""

    file_id: int
    file: LogFile
    span: Span = WHOLE
    lines_before: int | None = None  # for a file that grew: the lines before the span, which are stored already

    @property
    def weight_bytes(self) -> int:
        """About how many bytes of JSON it holds, for balancing work."""
        end = self.file.size_bytes if self.span.end is None else self.span.end
        return (end - self.span.start) * (_COMPRESSION_RATIO if self.file.compression != "none" else 1)


@dataclass(frozen=True)
class Bundle:
    """What one worker decodes into one part, below the directory `target`."""

    directory: str
    pieces: tuple[Piece, ...]
    target: str

    @property
    def part(self) -> str:
        """Name of the part: the same content gives the same name."""
        states = (f"{p.file_id}\0{p.file.path}\0{p.file.mtime_ns}\0{p.file.fingerprint}\0{p.span}" for p in self.pieces)
        return "part-" + hashlib.blake2b("\n".join(states).encode(), digest_size=6).hexdigest()

    @property
    def weight_bytes(self) -> int:
        """About how many bytes of JSON it holds."""
        return sum(piece.weight_bytes for piece in self.pieces)


@dataclass(frozen=True)
class DecodedBundle:
    """What a worker hands back, one summary for each piece: small, for the rows are on disk."""

    bundle: Bundle
    summaries: list[FileSummary]


@dataclass(frozen=True)
class _Note:
    """What is kept of a decoded bundle beside its part, to be found by a later process."""

    summaries: list[FileSummary]
    parts: dict[str, Seal]


_NOTE = TypeAdapter(_Note)


def make_bundles(directory: str, pieces: list[Piece], target: Path, settings: Settings) -> list[Bundle]:
    """Share the files out in bundles of about `bundle_bytes`, smaller ones where that makes work for many workers.

    A large file is cut into slices, if its lines can be understood one by one. The bundles do not depend on the
    machine: every process that shares the work, here or elsewhere, makes the same ones.
    """
    total = sum(piece.weight_bytes for piece in pieces)
    share = min(settings.bundle_bytes, max(total // _SHARES, _MIN_SHARE_BYTES))
    bundles: list[list[Piece]] = [[]]
    held = 0
    for piece in (part for whole in pieces for part in _slices(whole, max(share, _MIN_SHARE_BYTES))):
        if bundles[-1] and held + piece.weight_bytes > share:
            bundles.append([])
            held = 0
        bundles[-1].append(piece)
        held += piece.weight_bytes
    return [Bundle(directory, tuple(bundle), str(target)) for bundle in bundles if bundle]


def _slices(piece: Piece, target: int) -> list[Piece]:
    size = piece.file.size_bytes
    if not piece.file.splittable or size - piece.span.start <= 2 * target:
        return [piece]
    starts = range(piece.span.start, size, target)
    return [replace(piece, span=Span(start, start + target if start + target < size else None)) for start in starts]


def decode_bundle(bundle: Bundle, settings: Settings) -> DecodedBundle:
    """Decode a bundle into the Parquet files of its part, and note that beside them. Runs in a worker process, on this
    machine or another."""
    by_template = bundle.weight_bytes >= _TEMPLATE_FROM_BYTES
    with ExitStack() as open_writers:
        writers = {
            table: open_writers.enter_context(
                PartWriter(Path(bundle.target) / table / f"{bundle.part}.parquet", schema, batch_rows)
            )
            for table, (schema, batch_rows) in _WRITTEN.items()
        }
        sink = _PartSink(**writers)
        summaries = [
            decode_file(
                Path(bundle.directory) / piece.file.location,
                piece.file.path,
                piece.file_id,
                sink,
                settings,
                span=piece.span,
                size_bytes=piece.file.size_bytes,
                by_template=by_template and piece.weight_bytes >= _TEMPLATE_FILE_BYTES,
            )
            for piece in bundle.pieces
        ]
    target = Path(bundle.target)
    note = _Note(summaries, seal_files(target, target.glob(f"*/{bundle.part}.parquet")))
    write_text(_NOTE.dump_json(note).decode(), _note_path(bundle))
    return DecodedBundle(bundle, summaries)


def decoded_before(bundle: Bundle) -> DecodedBundle | None:
    """What an earlier process made of the bundle; None when it has not been decoded to its end, or when what it wrote
    is not whole (a power cut takes what was not on the disk yet)."""
    try:
        note = _NOTE.validate_json(read_bytes(_note_path(bundle)))
    except (OSError, ValueError):
        return None
    target = Path(bundle.target)
    whole = not any(damage(target / name, [sealed], content=True) for name, sealed in note.parts.items())
    return DecodedBundle(bundle, note.summaries) if whole else None


def _note_path(bundle: Bundle) -> Path:
    return Path(bundle.target) / f"{bundle.part}.json"


class PartWriter:
    """Writes rows of one table to one Parquet file, atomically; a table without rows leaves no file."""

    def __init__(self, path: Path, schema: pa.Schema, batch_rows: int) -> None:
        self._path, self._schema, self._batch_rows = path, schema, batch_rows
        self._rows: list[Row] = []
        self._row_bytes = 0
        self._batches: list[pa.RecordBatch] = []
        self._held = self._held_bytes = 0
        self._writer: pq.ParquetWriter | None = None
        self._temporary = temporary_path(path)

    def __enter__(self) -> "PartWriter":
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return self

    def append(self, row: Row) -> None:
        """Take one row, in the order of the schema's columns."""
        self._rows.append(row)
        self._row_bytes += _text_bytes(row)
        if len(self._rows) >= self._batch_rows or self._row_bytes >= _ROW_GROUP_BYTES:
            self._flush_rows()

    def append_batch(self, batch: pa.RecordBatch) -> None:
        """Take many rows at once."""
        self._batches.append(batch)
        self._held += batch.num_rows
        self._held_bytes += batch.nbytes
        if self._held >= _ROW_GROUP_ROWS or self._held_bytes >= _ROW_GROUP_BYTES:
            self._flush_batches()

    def _flush_rows(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [_array(values, field.type) for values, field in zip(columns, self._schema, strict=True)]
            self._rows, self._row_bytes = [], 0
            self.append_batch(pa.record_batch(arrays, schema=self._schema))

    def _flush_batches(self) -> None:
        if not self._batches:
            return
        if self._writer is None:
            delta = {name: encoding for name, encoding in _DELTA.items() if name in self._schema.names}
            dictionary = [
                field.name for field in self._schema if field.name not in delta and not pa.types.is_nested(field.type)
            ]
            self._writer = pq.ParquetWriter(
                self._temporary,
                self._schema,
                compression="zstd",
                compression_level=1,
                use_dictionary=dictionary,
                column_encoding=delta,
                write_statistics=[name for name in _STATISTICS if name in self._schema.names],
                write_page_checksum=True,
            )
        table = pa.Table.from_batches(self._batches, self._schema).unify_dictionaries()
        self._batches, self._held, self._held_bytes = [], 0, 0
        self._writer.write_table(table, row_group_size=_ROW_GROUP_ROWS)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        with explained(self._path):
            try:
                if error is None:
                    self._flush_rows()
                    self._flush_batches()
                if self._writer is not None:
                    self._writer.close()
                if error is None and self._writer is not None:
                    take_place(self._temporary, self._path)
                elif error is None:
                    self._path.unlink(missing_ok=True)
            finally:
                self._temporary.unlink(missing_ok=True)


def _text_bytes(row: Row) -> int:
    """About how much memory the texts of a row take: names can be as long as a line."""
    return sum(len(value) for value in row if isinstance(value, str))


def _array(values: tuple[object, ...], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, kind)


@dataclass
class _PartSink:
    events: PartWriter
    channels: PartWriter
    auxiliary: PartWriter
    rejects: PartWriter

    def add(self, typed: Typed) -> None:
        if typed.event is not None:
            self.events.append(typed.event)
        if typed.channels is not None:
            self.channels.append(typed.channels)
        if typed.auxiliary is not None:
            self.auxiliary.append(typed.auxiliary)

    def add_batches(self, events: pa.RecordBatch, channels: pa.RecordBatch | None) -> None:
        self.events.append_batch(events)
        if channels is not None:
            self.channels.append_batch(channels)

    def refuse(self, row: Row) -> None:
        self.rejects.append(row)


def compact(generation: Path, parts: dict[str, list[int]]) -> dict[str, list[int]]:
    """Join small parts of `generation` once many additions have left them; returns which part holds which files.

    A query pays for every file it opens.
    """
    n_bytes = {part: sum(path.stat().st_size for path in layout.part_files(generation, part)) for part in sorted(parts)}
    small = [part for part in n_bytes if n_bytes[part] < _SMALL_PART_BYTES]
    if len(small) < _MANY_SMALL_PARTS:
        return parts
    joined = "part-" + hashlib.blake2b("\n".join(small).encode(), digest_size=6).hexdigest()
    for table, schema in (("events", EVENTS), ("channels", CHANNELS)):
        sources = [path for part in small if (path := generation / table / f"{part}.parquet").exists()]
        with PartWriter(generation / table / f"{joined}.parquet", schema, _BATCH_ROWS) as writer:
            for source in sources:
                with pq.ParquetFile(source, page_checksum_verification=True) as parquet:
                    for batch in parquet.iter_batches(batch_size=_BATCH_ROWS):
                        writer.append_batch(batch)
        for source in sources:
            source.unlink()
    files = sorted({number for part in small for number in parts[part]})
    return {part: numbers for part, numbers in parts.items() if part not in small} | {joined: files}


def rewrite_part(
    source: Path, target: Path, *, without_files: Iterable[int] = (), without_rows: Iterable[int] = ()
) -> None:
    """Copy a part, leaving out the rows of some files and some rows by number (from 0); `target` may be `source`."""
    files, rows = pa.array(sorted(without_files), pa.int32()), pa.array(sorted(without_rows), pa.int64())
    with (
        pq.ParquetFile(source, page_checksum_verification=True) as parquet,
        PartWriter(target, parquet.schema_arrow, _BATCH_ROWS) as writer,
    ):
        start = 0
        for batch in parquet.iter_batches(batch_size=_BATCH_ROWS):
            numbers = pa.array(range(start, start + batch.num_rows), pa.int64())
            dropped = pc.or_(pc.is_in(batch.column("file_id"), files), pc.is_in(numbers, rows))
            writer.append_batch(batch.filter(pc.invert(dropped)))
            start += batch.num_rows
