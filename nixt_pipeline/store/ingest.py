"""From a dump directory to a published run, in four stages that each can be killed and run again.

- `take_inventory`: which files there are -> inventory.json
- `validate_records`: decode them, each byte once -> <generation>/events, channels, rejects, files, membership
- `type_events`: who wrote what, in which role -> <generation>/communicators, processes, hosts
- `publish_run`: make the generation the one readers see -> manifest.json, catalog.duckdb

A generation is the result for one state of the input. Files that have not changed since the published generation are
not read again: their rows are taken over.
"""

import logging
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path

import duckdb
import orjson
from filelock import Timeout

from nixt_pipeline.errors import DamagedError, StorageError, storage_error
from nixt_pipeline.inspector import inventory as discovery
from nixt_pipeline.inspector.inventory import INVENTORY, Inventory
from nixt_pipeline.inspector.opening import link_root
from nixt_pipeline.inspector.runs import refused_run_info, run_info
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import accounts as books
from nixt_pipeline.store import duplicates, fan_out, layout, takeover
from nixt_pipeline.store.accounts import FileAccount, IngestSummary
from nixt_pipeline.store.catalog import publish_catalog
from nixt_pipeline.store.dimensions import write_dimensions, write_membership
from nixt_pipeline.store.dropped import collect, dropped, supersede
from nixt_pipeline.store.fan_out import DECODED, IngestError, Progress
from nixt_pipeline.store.files import file_lock, sync_files, write_table, write_text
from nixt_pipeline.store.integrity import damaged_in
from nixt_pipeline.store.line_tables import LINE_TABLES, dropped_by_plugin, gather
from nixt_pipeline.store.manifest import (
    SCHEMA_VERSION,
    Manifest,
    UnknownRunError,
    noted_inventory,
    read_manifest,
    write_manifest,
)
from nixt_pipeline.store.origins import origin
from nixt_pipeline.store.parts import Piece, compact, rewrite_part
from nixt_pipeline.store.reading import warn_once
from nixt_pipeline.store.seals import seal_files
from nixt_pipeline.store.validated import VALIDATED, Validated, files_in, read_validated, write_validated

log = logging.getLogger(__name__)

# Part of a generation's name: when the decoder makes something else of the same bytes, every generation is new, and
# takes over rows of an earlier version only where the bytes are gone.
DECODER_VERSION = 3
# What was found to be wrong with a generation; it is not used any more.
_DAMAGED = "damaged.json"


def ingest(directory: Path, run: str, settings: Settings, progress: Progress | None = None) -> IngestSummary:
    """Ingest the dump directory as `run`: all four stages. Raises `IngestError`.

    The run is locked from the first stage to the last: another ingest of it that lists the directory in between would
    leave this one with files that were not decoded.
    """
    if not directory.is_dir():
        raise IngestError(f"cannot list {directory}: it is not a directory")
    with run_lock(run, settings):
        take_inventory(directory, run, settings)
        summary = validate_records(run, settings, progress)
        type_events(run, settings)
        publish_run(run, settings)
    return summary


def take_inventory(directory: Path, run: str, settings: Settings) -> Inventory:
    """List the files of the run and remember the list for the next stages. Raises `IngestError` for a missing
    directory."""
    inventory = _list_files(directory, run, settings)
    path = layout.store_dir(run, settings) / layout.INVENTORY
    with run_lock(run, settings):
        write_text(INVENTORY.dump_json(inventory, indent=2).decode() + "\n", path)
    return inventory


def is_published(directory: Path, run: str, settings: Settings) -> bool:
    """Whether readers of `run` see the directory as it is now. Raises `IngestError` when it cannot be listed, and
    `DamagedError`."""
    try:
        published = read_manifest(run, settings)
    except UnknownRunError:
        return False
    inventory = _list_files(directory, run, settings)
    return (published.source_dir, published.fingerprint) == (inventory.directory, inventory.fingerprint)


def _list_files(directory: Path, run: str, settings: Settings) -> Inventory:
    try:
        found = discovery.take_inventory(directory, run, settings)
    except OSError as error:
        raise IngestError(f"cannot list {directory}: {error.strerror or error}") from error
    refused = refused_run_info(directory, link_root(directory, settings))
    return replace(found, files=(*found.files, refused)) if refused else found


def validate_records(run: str, settings: Settings, progress: Progress | None = None) -> IngestSummary:
    """Decode the files of the run's inventory into a new generation, which readers do not see yet."""
    inventory = read_inventory(run, settings)
    with run_lock(run, settings):
        generation = _sound_generation(inventory, settings)
        validated = read_validated(generation)
        if validated is not None:
            shutil.rmtree(generation / DECODED, ignore_errors=True)
            accounts = [replace(account, reused=True) for account in validated.accounts]
            return replace(validated, accounts=accounts).summary(run)
        _clear(generation)
        validated = _validate(inventory, generation, settings, progress)
        written = layout.written_files(generation)
        validated = replace(validated, seals=seal_files(generation, written))
        sync_files(written, settings.data_dir)
        write_validated(validated, generation)
        shutil.rmtree(generation / DECODED, ignore_errors=True)
    return validated.summary(run)


def decode_share(run: str, settings: Settings, share: int, shares: int) -> int:
    """Decode one of `shares` shares of the run's logs, counted from 0; `validate_records` finds what has been decoded.

    Returns the bytes of logs in the share. Raises `IngestError`.
    """
    inventory = read_inventory(run, settings)
    plan, *_ = _plan(inventory, settings)
    return fan_out.decode_share(
        inventory.directory, _readable(plan), _generation(inventory, settings), settings, share, shares
    )


def type_events(run: str, settings: Settings) -> dict[str, int]:
    """Write the dimension tables of the validated generation. Returns the rows of each and the number of
    incarnations."""
    generation = pending_generation(run, settings)
    with run_lock(run, settings):
        validated = _require_validated(generation, run)
        rows = write_dimensions(generation, run, settings)
    return {**rows, "incarnations": validated.incarnations}


def publish_run(run: str, settings: Settings) -> Manifest:
    """Make the typed generation the one that readers see, and remove generations that nobody needs any more.

    Raises `IngestError` when a stage is missing or the bytes of a file do not add up.
    """
    inventory = read_inventory(run, settings)
    generation = _generation(inventory, settings)
    with run_lock(run, settings):
        validated = _require_validated(generation, run)
        unbalanced = [account.path for account in validated.accounts if not account.balanced]
        if unbalanced:
            raise IngestError(
                f"run {run}: bytes of {unbalanced[0]} (and {len(unbalanced) - 1} more) do not add up; not published"
            )
        if not layout.table_files(generation, "hosts"):
            raise IngestError(f"run {run}: the events are not typed yet; materialise typed_events first")
        typed = [
            path
            for path in layout.written_files(generation)
            if path.relative_to(generation).as_posix() not in validated.seals
        ]
        sync_files(typed, settings.data_dir)
        summary = {**validated.summary(run).to_json(), "schema": SCHEMA_VERSION}
        manifest = Manifest(
            source_dir=inventory.directory,
            generation=generation.name,
            fingerprint=inventory.fingerprint,
            ingested_at=datetime.now(UTC).isoformat(timespec="seconds"),
            run_info=run_info(Path(inventory.directory), settings),
            contents={**validated.seals, **seal_files(generation, typed)},
            **summary,
        )
        write_manifest(manifest, settings)
        supersede(run, generation, settings)
    publish_catalog(settings)
    with run_lock(run, settings):
        collect(run, settings)
    return manifest


def read_inventory(run: str, settings: Settings) -> Inventory:
    """The run's latest inventory. Raises `IngestError` when none has been taken, or it cannot be used."""
    inventory = noted_inventory(run, settings)
    if inventory is None:
        path = layout.store_dir(run, settings) / layout.INVENTORY
        damaged = f"{path} is damaged; to rebuild it: nixt ingest DIR"
        missing = "no inventory yet; materialise raw_log_inventory or use: nixt ingest DIR"
        raise IngestError(f"run {run}: {damaged if path.exists() else missing}")
    return inventory


def pending_generation(run: str, settings: Settings) -> Path:
    """The directory that the stages write for the run's latest inventory; readers do not see it before
    `publish_run`."""
    return _generation(read_inventory(run, settings), settings)


def validated_summary(run: str, settings: Settings) -> IngestSummary:
    """What `validate_records` found in the run's latest inventory. Raises `IngestError` when it has not run."""
    return _require_validated(pending_generation(run, settings), run).summary(run)


def _validate(inventory: Inventory, generation: Path, settings: Settings, progress: Progress | None) -> Validated:
    started = time.monotonic()
    plan, old, before, damaged = _plan(inventory, settings)
    kept = {account.file_id for account in plan.kept} | plan.grew.keys()
    parts = takeover.take_over_parts(old, generation, kept, before.parts) if old and before else {}
    readable = _readable(plan)
    accounts = plan.kept + [books.account_unread(p.file_id, p.file) for p in plan.to_read if not p.file.is_log]
    decoded = fan_out.decode_files(inventory.directory, readable, generation, settings, progress)
    parts |= {part: sorted(files) for part, files in decoded.lines_before.items()}
    files = {piece.file_id: piece.file for piece in readable}
    for summary in decoded.summaries:
        before_growth, file = plan.grew.get(summary.file_id), files[summary.file_id]
        if before_growth is None:
            accounts.append(books.account_decoded(file, summary))
        else:
            accounts.append(books.account_grown(before_growth, file, summary))
    accounts, copies = _without_duplicates(books.with_only_copies(accounts), parts, generation, settings)
    parts = {part: [number for number in numbers if number not in copies] for part, numbers in parts.items()}
    parts = compact(generation, parts)
    # A copy's lines are those of its original, and another program's file counts as one thing. Of an earlier version of
    # a file only records are kept.
    left_out = copies | {summary.file_id for summary in decoded.summaries if summary.status == "foreign"}
    left_out |= {account.file_id for account in plan.kept if account.status == books.SUPERSEDED}
    for table in LINE_TABLES:
        taken_over = old and before and f"{table}.parquet" not in damaged
        sources = [(old / f"{table}.parquet", dict.fromkeys(kept - left_out, 0))] if old and taken_over else []
        for part, lines in decoded.lines_before.items():
            taken = {number: count for number, count in lines.items() if number not in left_out}
            sources.append((generation / DECODED / table / f"{part}.parquet", taken))
        gather(table, sources, generation / f"{table}.parquet")
    write_table(books.files_table(accounts), generation / "files.parquet")
    incarnations = write_membership(generation, inventory.run, settings)
    lost = dropped_by_plugin(generation / "auxiliary.parquet", settings)
    return Validated(accounts, parts, incarnations, lost, time.monotonic() - started)


def _plan(
    inventory: Inventory, settings: Settings
) -> tuple[takeover.Plan, Path | None, Validated | None, dict[str, str]]:
    """What to read and what to take over; from which published generation, what that yielded, and which of its files
    are damaged."""
    old = _published_generation(inventory.run, settings)
    # Rows that were dropped to save space cannot be taken over.
    before = read_validated(old) if old and not dropped(old) else None
    if old is None or before is None:
        return takeover.plan(inventory, []), old, before, {}
    damaged = damaged_in(old, before.seals, content=True)
    numbers = files_in(damaged, before)
    here = {file.path for file in inventory.files}
    for account in before.accounts:
        if account.file_id in numbers and account.records and account.path not in here:
            log.warning(
                "run %s: %d records of %s are lost: the store's copy is damaged, and the log is gone from %s",
                *(inventory.run, account.records, account.path, inventory.directory),
            )
    # The version is the third part of the name.
    other_decoder = old.name.split("-")[2:3] != [_decoding(settings)]
    return takeover.plan(inventory, before.accounts, numbers, other_decoder), old, before, damaged


def _readable(plan: takeover.Plan) -> list[Piece]:
    return [piece for piece in plan.to_read if piece.file.is_log]


def _clear(generation: Path) -> None:
    """Remove what a killed ingest left of a generation, except what its workers had decoded to the end."""
    generation.mkdir(parents=True, exist_ok=True)
    for path in generation.iterdir():
        if path.is_dir() and path.name != DECODED:
            shutil.rmtree(path)
        elif path.is_file():
            path.unlink()


def _without_duplicates(
    accounts: list[FileAccount], parts: dict[str, list[int]], generation: Path, settings: Settings
) -> tuple[list[FileAccount], set[int]]:
    """Remove copies of files and repeated records from the parts; returns the corrected accounts and the ids of the
    copies."""
    copies = duplicates.duplicate_files(accounts)
    for part, numbers in parts.items():
        if copies.intersection(numbers):
            for path in layout.part_files(generation, part):
                rewrite_part(path, path, without_files=copies)
    with_rows = [account for account in accounts if account.file_id not in copies and account.records]
    earlier = [account.file_id for account in with_rows if account.status == books.SUPERSEDED]
    repeats = duplicates.drop_repeats(generation, duplicates.files_that_may_repeat(with_rows), earlier, settings)
    corrected = [
        books.as_copy(account)
        if account.file_id in copies
        else books.without_repeats(account, repeats.get(account.file_id, books.Repeats()))
        for account in accounts
    ]
    needed = [account for account in corrected if account.status != books.SUPERSEDED or account.records]
    return sorted(needed, key=lambda account: account.file_id), copies


def _generation(inventory: Inventory, settings: Settings) -> Path:
    """Where the result for this state of the input is, or will be: under another name once one was found damaged,
    because readers may have that one open, or where something else than a directory has that name."""
    name = f"gen-{inventory.fingerprint}-{_decoding(settings)}"
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    directories = (layout.store_dir(inventory.run, settings) / name for name in names)
    return next(path for path in directories if not (path / _DAMAGED).exists() and not _is_taken(path))


def _decoding(settings: Settings) -> str:
    """What rows depend on beside the logs: the version of the decoder, and the limits of what is plausible where they
    are not the usual ones."""
    limits = settings.thresholds.ingest
    usual = limits == type(limits)()
    return str(DECODER_VERSION) if usual else f"{DECODER_VERSION}.{origin(limits.model_dump(mode='json'))[:12]}"


def has_other_limits(manifest: Manifest, settings: Settings) -> bool:
    """Whether a run was ingested with other limits of what is plausible than those that are set."""
    return manifest.generation.partition(".")[2].partition("-")[0] != _decoding(settings).partition(".")[2]


def _is_taken(generation: Path) -> bool:
    """Whether a file, or a link that leads nowhere, is in the place of a generation."""
    return os.path.lexists(generation) and not generation.is_dir()


def _sound_generation(inventory: Inventory, settings: Settings) -> Path:
    """The generation to go on with. One that is damaged is marked, so that another takes its place."""
    generation = _generation(inventory, settings)
    validated = read_validated(generation)
    if validated is None:
        damaged = {VALIDATED: "cannot be used"} if generation == _published_generation(inventory.run, settings) else {}
    else:
        damaged = damaged_in(generation, validated.seals, content=True)
    if not damaged:
        return generation
    name, problem = next(iter(damaged.items()))
    log.warning(
        "run %s: %s is damaged: it %s; the run is rebuilt from its logs", inventory.run, generation / name, problem
    )
    write_text(orjson.dumps(damaged).decode(), generation / _DAMAGED)
    return _generation(inventory, settings)


def _published_generation(run: str, settings: Settings) -> Path | None:
    try:
        return read_manifest(run, settings).directory(settings)
    except UnknownRunError:
        return None
    except DamagedError as error:
        warn_once(str(error))
        return None


def _require_validated(generation: Path, run: str) -> Validated:
    validated = read_validated(generation)
    if validated is None:
        raise IngestError(f"run {run}: the present files are not decoded yet; materialise validated_records first")
    return validated


@contextmanager
def run_lock(run: str, settings: Settings, wait_s: float = 900.0) -> Iterator[None]:
    """One ingest of a run at a time; a second one waits, then stops with a message. Whoever holds it may take it again.

    A store that cannot be written to (full, read-only) ends the work with `IngestError`; readers keep what they had.
    """
    directory = layout.store_dir(run, settings)
    try:
        lock = file_lock(directory / ".lock")
        try:
            held = lock.acquire(timeout=0)
        except Timeout:
            log.warning("run %s is being ingested by another process; waiting", run)
            held = lock.acquire(timeout=wait_s)
        with held:
            yield
    except Timeout:
        raise IngestError(f"run {run} is being ingested by another process; try again when it is done") from None
    except (OSError, duckdb.IOException) as error:
        reason = error if isinstance(error, StorageError) else storage_error(error, directory.absolute()) or error
        raise IngestError(f"run {run}: {reason}; start again then: nothing that was published is lost") from error
