"""Decoding the files of a run with all workers: processes of this machine, or those of a Dask cluster."""

import multiprocessing
import os
import signal
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from nixt_pipeline.errors import NixtError
from nixt_pipeline.inspector.file_summary import FileSummary, merge, settle
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.files import link_or_copy
from nixt_pipeline.store.parts import (
    Bundle,
    DecodedBundle,
    Piece,
    decode_bundle,
    decoded_before,
    make_bundles,
    rewrite_part,
)

# Below a generation: what workers have made of the logs, until the generation is whole.
DECODED = "decoded"

_DASK_TIMEOUT_S = 10

# Called with the bytes of input done and to do.
Progress = Callable[[int, int], None]


class IngestError(NixtError, RuntimeError):
    """The ingest cannot go on; the message says where and what to do."""


@dataclass(frozen=True)
class DecodedFiles:
    """The result of decoding files: which part holds which files, with the lines of each before the slice that is in
    it, and what each file yielded."""

    lines_before: dict[str, dict[int, int]]
    summaries: list[FileSummary]


def decode_share(
    directory: str, pieces: list[Piece], generation: Path, settings: Settings, share: int, shares: int
) -> int:
    """Decode one of `shares` shares of the files, counted from 0, for `decode_files` to find; returns the bytes of it.

    Shares can be decoded on different machines at the same time, if they see the same directories.
    """
    bundles = make_bundles(directory, pieces, generation / DECODED, settings)[share::shares]
    return sum(decoded.bundle.weight_bytes for decoded in _run(bundles, settings))


def decode_files(
    directory: str,
    pieces: list[Piece],
    generation: Path,
    settings: Settings,
    progress: Progress | None = None,
) -> DecodedFiles:
    """Decode whole files into parts of `generation`; what was decoded before, in `DECODED` below it, is used.

    Raises `IngestError` when a worker is killed.
    """
    target = generation / DECODED
    decoded = _run(make_bundles(directory, pieces, target, settings), settings, progress)
    again = _sliced_streams(decoded, pieces)
    _adopt(decoded, generation)
    if again:
        # Lines that need a marker before them cannot be read in slices: such a file is decoded once more, in one piece.
        decoded = [_without(bundle, set(again), generation) for bundle in decoded]
        whole = [replace(piece, file=replace(piece.file, splittable=False)) for piece in again.values()]
        in_one_piece = _run(make_bundles(directory, whole, target, settings), settings)
        _adopt(in_one_piece, generation)
        decoded += in_one_piece
    slices: dict[int, list[FileSummary]] = defaultdict(list)
    for piece in pieces:
        if piece.lines_before is not None:
            stored = FileSummary(piece.file_id, piece.file.path, lines=piece.lines_before, recognised=True)
            slices[piece.file_id].append(stored)
    lines_before: dict[str, dict[int, int]] = {}
    for bundle in decoded:
        for summary in bundle.summaries:
            earlier = slices[summary.file_id]
            lines_before.setdefault(bundle.bundle.part, {})[summary.file_id] = sum(piece.lines for piece in earlier)
            earlier.append(summary)
    return DecodedFiles(lines_before, [settle(merge(of_file)) for of_file in slices.values()])


def _adopt(decoded: list[DecodedBundle], generation: Path) -> None:
    """Give the decoded parts a name in the generation, where they may be rewritten; the decoded ones stay as they
    are."""
    for bundle in decoded:
        for source in layout.part_files(generation / DECODED, bundle.bundle.part):
            link_or_copy(source, generation / source.parent.name / source.name)


def _sliced_streams(decoded: list[DecodedBundle], pieces: list[Piece]) -> dict[int, Piece]:
    """The pieces that were decoded in slices although their lines depend on one another."""
    asked = {piece.file_id: piece for piece in pieces}
    return {
        piece.file_id: asked[piece.file_id]
        for bundle in decoded
        for piece, summary in zip(bundle.bundle.pieces, bundle.summaries, strict=True)
        if summary.stateful and piece.span != asked[piece.file_id].span
    }


def _without(decoded: DecodedBundle, files: set[int], generation: Path) -> DecodedBundle:
    """A decoded bundle without the slices of some files; a slice fills its bundle, so that its part goes as a whole."""
    kept = [(p, s) for p, s in zip(decoded.bundle.pieces, decoded.summaries, strict=True) if p.file_id not in files]
    if len(kept) == len(decoded.summaries):
        return decoded
    for path in layout.part_files(generation, decoded.bundle.part):
        rewrite_part(path, path, without_files=files)
    pieces = tuple(piece for piece, _ in kept)
    return DecodedBundle(replace(decoded.bundle, pieces=pieces), [summary for _, summary in kept])


def _run(bundles: list[Bundle], settings: Settings, progress: Progress | None = None) -> list[DecodedBundle]:
    """Decode the bundles in parallel; the result is in their order and does not depend on timing."""
    total, done = sum(bundle.weight_bytes for bundle in bundles), 0
    before = [decoded for bundle in bundles if (decoded := decoded_before(bundle)) is not None]
    results = {decoded.bundle.part: decoded for decoded in before}
    missing = [bundle for bundle in bundles if bundle.part not in results]
    with _workers(len(missing), settings) as pool:
        if pool is None:
            finished: Iterator[DecodedBundle] = (decode_bundle(bundle, settings) for bundle in missing)
        else:
            with _main_module_hidden():
                futures = [pool.submit(decode_bundle, bundle, settings) for bundle in missing]
            finished = (future.result() for future in as_completed(futures))
        try:
            for decoded in chain(before, finished):
                results[decoded.bundle.part] = decoded
                done += decoded.bundle.weight_bytes
                if progress:
                    progress(done, total)
        except BrokenProcessPool as error:
            raise IngestError(
                "a worker process was killed, probably out of memory; lower NIXT_WORKERS or NIXT_BUNDLE_BYTES"
            ) from error
    return [results[bundle.part] for bundle in bundles]


@contextmanager
def _main_module_hidden() -> Iterator[None]:
    """Keep `multiprocessing` from importing the user's script in every worker.

    Workers need nothing of it, and a script without `if __name__ == "__main__"` would start the ingest again in each.
    """
    main = sys.modules["__main__"]
    hidden: dict[str, Any] = {name: vars(main)[name] for name in ("__file__", "__spec__") if name in vars(main)}
    try:
        main.__spec__ = None
        vars(main).pop("__file__", None)
        yield
    finally:
        vars(main).update(hidden)


def _end_with_parent() -> None:
    """End this worker as soon as the process that asked for it is gone: after a kill nothing must go on writing."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def _workers(bundles: int, settings: Settings) -> Iterator[Executor | None]:
    """The executor to use; None for work that is not worth a second process."""
    if settings.dask_scheduler and bundles:
        with _dask_cluster(settings.dask_scheduler) as cluster:
            yield cluster
        return
    if bundles < 2 or settings.workers < 2:
        yield None
        return
    # The Dagster process that calls this has threads, which fork would copy in whatever state they are in. A server
    # that has loaded the compiled scanner once forks workers that need not load it again.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["nixt_pipeline.store.worker"])
    with _interrupts_ignored():
        forkserver.ensure_running()
    with ProcessPoolExecutor(min(settings.workers, bundles), context, _end_with_parent) as pool:
        try:
            yield pool
        except BaseException:
            # Wait for what is being decoded, which is kept, and not for all the rest.
            pool.shutdown(cancel_futures=True)
            raise


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """What is started here ignores Ctrl-C, which a terminal sends to all processes: this one tells the others."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _dask_cluster(address: str) -> Iterator[Executor]:
    """The workers of a running Dask cluster, which see the logs and the data directory under the same names."""
    try:
        from distributed import Client
    except ImportError:
        raise IngestError(
            "NIXT_DASK_SCHEDULER is set, but Dask is missing: pip install 'nixt-pipeline[dask]'"
        ) from None
    try:
        client = Client(address, timeout=_DASK_TIMEOUT_S)
    except OSError as error:
        raise IngestError(f"no Dask scheduler answers at {address} (NIXT_DASK_SCHEDULER): {error}") from error
    with client, client.get_executor() as pool:
        yield pool
