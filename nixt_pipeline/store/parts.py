"""Parts of the store: what one worker writes for a bundle of log files, and how a part is rewritten without some of
its rows."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nixt_pipeline.inspector import taxonomy
from nixt_pipeline.inspector.inventory import LogFile
from nixt_pipeline.inspector.log_file import FileSummary, decode_file
from nixt_pipeline.inspector.records import Row, Typed
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.files import temporary_path

EVENTS = taxonomy.stored_schema(taxonomy.EVENT_COLUMNS)
CHANNELS = taxonomy.stored_schema(taxonomy.CHANNEL_COLUMNS)
AUXILIARY = taxonomy.schema(taxonomy.AUXILIARY_COLUMNS)

# Rows held as Python objects before they become Arrow arrays, and rows of a Parquet row group: together they bound a
# worker's memory.
_BATCH_ROWS = 20_000
_ROW_GROUP_ROWS = 250_000
_CHANNEL_BATCH_ROWS = 2_000
# Sequence numbers and write times grow steadily, which delta encoding turns into almost nothing.
_DELTA = {"dump_timestamp_us": "DELTA_BINARY_PACKED", "coll_sn": "DELTA_BINARY_PACKED"}
# A compressed log unfolds to about this many times its size (gzip -6 makes these logs 28 times smaller).
_COMPRESSION_RATIO = 20
# Loading the compiled scanner takes about as long as decoding this much without it.
_TEMPLATE_FROM_BYTES = 16 << 20


@dataclass(frozen=True)
class Bundle:
    """Files that one worker decodes into one part."""

    directory: str
    files: tuple[tuple[int, LogFile], ...]  # (file_id, file)
    generation: str

    @property
    def part(self) -> str:
        """Name of the part: the same files in the same state give the same name."""
        state = "\n".join(f"{number}\0{file.path}\0{file.mtime_ns}\0{file.fingerprint}" for number, file in self.files)
        return "part-" + hashlib.blake2b(state.encode(), digest_size=6).hexdigest()


@dataclass(frozen=True)
class DecodedBundle:
    """What a worker hands back: small, for the rows are on disk."""

    part: str
    summaries: list[FileSummary]
    auxiliary: list[Row]


def weight_bytes(file: LogFile) -> int:
    """About how many bytes of JSON a file holds, for balancing work."""
    return file.size_bytes * (_COMPRESSION_RATIO if file.compression != "none" else 1)


def make_bundles(
    directory: str, files: list[tuple[int, LogFile]], generation: Path, settings: Settings
) -> list[Bundle]:
    """Cut `files` into bundles of about `bundle_bytes`, smaller ones when that keeps every worker busy."""
    total = sum(weight_bytes(file) for _, file in files)
    target = min(settings.bundle_bytes, total // settings.workers + 1)
    bundles: list[Bundle] = []
    current: list[tuple[int, LogFile]] = []
    held = 0
    for number, file in files:
        if current and held + weight_bytes(file) > target:
            bundles.append(Bundle(directory, tuple(current), str(generation)))
            current, held = [], 0
        current.append((number, file))
        held += weight_bytes(file)
    if current:
        bundles.append(Bundle(directory, tuple(current), str(generation)))
    return bundles


def decode_bundle(bundle: Bundle, settings: Settings) -> DecodedBundle:
    """Decode the files of `bundle` into the part's Parquet files. Runs in a worker process; it also is what a batch
    job would run."""
    directory = Path(bundle.generation)
    with (
        PartWriter(directory / "events" / f"{bundle.part}.parquet", EVENTS, _BATCH_ROWS) as events,
        PartWriter(directory / "channels" / f"{bundle.part}.parquet", CHANNELS, _CHANNEL_BATCH_ROWS) as channels,
    ):
        sink = _PartSink(events, channels)
        by_template = sum(weight_bytes(file) for _, file in bundle.files) >= _TEMPLATE_FROM_BYTES
        summaries = [
            decode_file(Path(bundle.directory) / file.path, file.path, number, sink, settings, by_template=by_template)
            for number, file in bundle.files
        ]
    return DecodedBundle(bundle.part, summaries, sink.auxiliary)


class PartWriter:
    """Writes rows of one table to one Parquet file, atomically; a table without rows leaves no file."""

    def __init__(self, path: Path, schema: pa.Schema, batch_rows: int) -> None:
        self._path, self._schema, self._batch_rows = path, schema, batch_rows
        self._rows: list[Row] = []
        self._batches: list[pa.RecordBatch] = []
        self._held = 0
        self._writer: pq.ParquetWriter | None = None
        self._temporary = temporary_path(path)

    def __enter__(self) -> "PartWriter":
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return self

    def append(self, row: Row) -> None:
        """Take one row, in the order of the schema's columns."""
        self._rows.append(row)
        if len(self._rows) >= self._batch_rows:
            self._flush_rows()

    def append_batch(self, batch: pa.RecordBatch) -> None:
        """Take many rows at once."""
        self._batches.append(batch)
        self._held += batch.num_rows
        if self._held >= _ROW_GROUP_ROWS:
            self._flush_batches()

    def _flush_rows(self) -> None:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [_array(values, field.type) for values, field in zip(columns, self._schema, strict=True)]
            self._rows = []
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
            )
        table = pa.Table.from_batches(self._batches, self._schema).unify_dictionaries()
        self._batches, self._held = [], 0
        self._writer.write_table(table, row_group_size=_ROW_GROUP_ROWS)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._flush_rows()
            self._flush_batches()
        if self._writer is not None:
            self._writer.close()
        if error is None and self._writer is not None:
            self._temporary.replace(self._path)
        elif error is None:
            self._path.unlink(missing_ok=True)
        self._temporary.unlink(missing_ok=True)


def _array(values: tuple[object, ...], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, kind)


@dataclass
class _PartSink:
    events: PartWriter
    channels: PartWriter

    def __post_init__(self) -> None:
        self.auxiliary: list[Row] = []

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


def rewrite_part(
    source: Path, target: Path, *, without_files: Iterable[int] = (), without_rows: Iterable[int] = ()
) -> None:
    """Copy a part, leaving out the rows of some files and some rows by number (from 0); `target` may be `source`."""
    files, rows = pa.array(sorted(without_files), pa.int32()), pa.array(sorted(without_rows), pa.int64())
    with pq.ParquetFile(source) as parquet, PartWriter(target, parquet.schema_arrow, _BATCH_ROWS) as writer:
        start = 0
        for batch in parquet.iter_batches(batch_size=_BATCH_ROWS):
            numbers = pa.array(range(start, start + batch.num_rows), pa.int64())
            dropped = pc.or_(pc.is_in(batch.column("file_id"), files), pc.is_in(numbers, rows))
            writer.append_batch(batch.filter(pc.invert(dropped)))
            start += batch.num_rows
