"""The tables of lines that are no operation: `rejects` and `auxiliary`, gathered from what workers wrote of them.

There may be as many such lines as records, so that they are never held in memory as a whole.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nixt_pipeline.inspector import taxonomy
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.catalog import connect
from nixt_pipeline.store.files import write_batches

LINE_TABLES = {
    "rejects": taxonomy.schema(taxonomy.REJECT_COLUMNS),
    "auxiliary": taxonomy.schema(taxonomy.AUXILIARY_COLUMNS),
}
_BATCH_ROWS = 65_536

# A Parquet file with rows of a table, the files whose rows are taken from it, and for each the number of lines before
# the slice that was decoded: a worker counts the lines of its slice.
Source = tuple[Path, Mapping[int, int]]

# The plugin's counters are running totals for each process and communicator. Broken ones need not fit 64 bits together.
_DROPPED = """
SELECT least(coalesce(sum(dropped), 0), 9223372036854775807)::BIGINT
FROM (
    SELECT max(coalesce(coll_dropped_total, 0)::HUGEINT + coalesce(p2p_dropped_total, 0)) AS dropped
    FROM read_parquet($path)
    GROUP BY id, rank, hostname, pid
)
"""


def gather(table: str, sources: Iterable[Source], target: Path) -> int:
    """Write the rows of `table` from `sources`, one after the other, to `target`; returns their number."""
    schema = LINE_TABLES[table]
    return write_batches((batch for source in sources for batch in _rows(source, schema)), schema, target)


def dropped_by_plugin(auxiliary: Path, settings: Settings) -> int:
    """Records that the plugin says it lost, by the table `auxiliary`."""
    with connect(settings) as con:
        [(dropped,)] = con.sql(_DROPPED, params={"path": str(auxiliary)}).fetchall()
    return int(dropped)


def _rows(source: Source, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    path, lines_before = source
    if not path.exists() or not lines_before:
        return
    files = pa.array(list(lines_before), pa.int32())
    before = pa.array(list(lines_before.values()), pa.int64())
    with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
        for batch in parquet.iter_batches(batch_size=_BATCH_ROWS):
            taken = batch.filter(pc.is_in(batch.column("file_id"), files))
            if "line" in schema.names and any(lines_before.values()):
                added = before.take(pc.index_in(taken.column("file_id"), files))
                lines = pc.add(taken.column("line"), added)
                taken = taken.set_column(schema.get_field_index("line"), schema.field("line"), lines)
            yield taken
