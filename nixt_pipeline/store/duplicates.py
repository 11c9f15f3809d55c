"""Records that were stored twice: copies of files, rotated prefixes, files appended to themselves.

A duplicate is an identical whole record. The same sequence number with another time or duration is another execution
(CUDA graph replays) and stays. So do equal records that a file has one after the other with one write time, if their
number has other executions too: a process writes what it finds within microseconds, and replays often take equally
long.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from nixt_pipeline.grouping import grouped
from nixt_pipeline.inspector import taxonomy
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.accounts import FileAccount, Repeats
from nixt_pipeline.store.catalog import connect
from nixt_pipeline.store.parts import rewrite_part

# Where a record stood, and how its line was padded, is not part of what it says.
_NOT_COMPARED = ("file_id", "record_bytes")

# Rows whose hash occurs more than once are few; only they are compared column by column. {columns} are names of the
# taxonomy.
_REPEATED_ROWS = """
WITH suspects AS NOT MATERIALIZED (
    SELECT
        filename, file_row_number, file_id, dump_timestamp_us,
        hash(hostname, pid, id, comm_name, rank, kind, coll, coll_sn) AS operation, hash({columns}) AS digest
    FROM read_parquet($parts, filename = true, file_row_number = true)
    WHERE list_contains($files, file_id)
),
digests AS (SELECT digest FROM suspects GROUP BY digest HAVING count(*) > 1),
repeated AS (SELECT * FROM suspects SEMI JOIN digests USING (digest)),
replayed AS (
    SELECT operation FROM suspects SEMI JOIN repeated USING (operation)
    GROUP BY operation HAVING count(DISTINCT digest) > 1
),
-- Records that one file has one after the other with one write time share a stretch.
stretches AS (
    SELECT
        filename, file_row_number,
        file_row_number - row_number() OVER (
            PARTITION BY filename, file_id, dump_timestamp_us ORDER BY file_row_number
        ) AS stretch
    FROM suspects SEMI JOIN repeated USING (filename, file_id, dump_timestamp_us)
),
places AS (
    SELECT
        filename, file_row_number,
        CASE WHEN operation IN (FROM replayed) THEN coalesce(stretch, file_row_number) ELSE file_row_number END AS place
    FROM repeated LEFT JOIN stretches USING (filename, file_row_number)
),
ranked AS (
    SELECT
        filename, file_row_number, file_id, {bytes} AS n_bytes, kind,
        dense_rank() OVER (
            PARTITION BY {columns}
            ORDER BY list_contains($last, file_id), file_id, filename, place
        ) AS copy
    FROM read_parquet($parts, filename = true, file_row_number = true)
    JOIN places USING (filename, file_row_number)
)
SELECT filename, file_row_number, file_id, n_bytes, kind FROM ranked WHERE copy > 1 ORDER BY ALL
"""


def duplicate_files(files: Sequence[FileAccount]) -> set[int]:
    """Ids of files whose content another file before them has already, whatever their names and compression.

    A file decoded in several pieces has no digest; a copy of it is found record by record.
    """
    seen: set[str] = set()
    copies = set()
    for file in sorted(files, key=lambda file: file.file_id):
        if file.status == "read" and file.content_digest is not None:
            if file.content_digest in seen:
                copies.add(file.file_id)
            seen.add(file.content_digest)
    return copies


def files_that_may_repeat(files: Sequence[FileAccount]) -> list[int]:
    """Ids of files that may hold a record of their own, or of another file, a second time.

    A record names its process, so two files can only share one when they share a process.
    """
    writers: dict[tuple[str | None, int | None], list[int]] = defaultdict(list)
    for file in files:
        for process in file.processes:
            writers[process].append(file.file_id)
    shared = {number for numbers in writers.values() if len(numbers) > 1 for number in numbers}
    return sorted(shared | {file.file_id for file in files if file.may_repeat})


def drop_repeats(generation: Path, files: list[int], last: list[int], settings: Settings) -> dict[int, Repeats]:
    """Remove repeated records of `files` from the parts of `generation`; the first copy stays. Counts by file id.

    The files in `last` keep only what no other has.
    """
    if not files:
        return {}
    chosen = {"files": files, "last": last}
    _drop_repeated_rows(generation, "channels", taxonomy.CHANNEL_COLUMNS, chosen, settings)
    rows = _drop_repeated_rows(generation, "events", taxonomy.EVENT_COLUMNS, chosen, settings)
    counts = Counter((file_id, kind) for _, _, file_id, _, kind in rows)
    n_bytes: Counter[int] = Counter()
    for _, _, file_id, size, _ in rows:
        n_bytes[file_id] += size
    return {number: Repeats(counts[number, "collective"], counts[number, "p2p"], n_bytes[number]) for number in n_bytes}


def _drop_repeated_rows(
    generation: Path, table: str, columns: tuple[taxonomy.Column, ...], chosen: dict[str, list[int]], settings: Settings
) -> list[tuple[str, int, int, int, str]]:
    parts = [str(path) for path in sorted((generation / table).glob("*.parquet"))]
    if not parts:
        return []
    compared = ", ".join(column.name for column in columns if column.name not in _NOT_COMPARED)
    sql = _REPEATED_ROWS.format(columns=compared, bytes="record_bytes" if table == "events" else "0")
    with connect(settings) as con:
        rows: list[tuple[str, int, int, int, str]] = con.execute(sql, {"parts": parts, **chosen}).fetchall()
    for part, repeated in grouped(rows, lambda row: row[0]).items():
        rewrite_part(Path(part), Path(part), without_rows=[number for _, number, *_ in repeated])
    return rows
