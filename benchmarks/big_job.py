"""A large synthetic training job's logs, in the exact bytes of the NCCL 2.30 Inspector plugin.

    python benchmarks/big_job.py DIRECTORY --records 37500000

The job has 2,048 GPUs (tensor parallel 8 inside a host, data parallel 32, pipeline of 8 stages), of which the first
`files` processes have a log, as in NVIDIA's published job. Ranks wait for one another: a record's time is what the
transfer takes, the same for all ranks, plus the rank's own wait. Times are whole microseconds with log-normal tails, so
that they compress and count about as badly as real ones. The same arguments give the same bytes.
"""

import argparse
import gzip
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from nixt_pipeline.arrays import Ints
from nixt_pipeline.inspector.operations import algobw_gbs, busbw_gbs

TENSOR, DATA, STAGES = 8, 32, 8
PROCESSES = TENSOR * DATA * STAGES
GPUS_PER_HOST = 8
EPOCH_US = 1_756_587_600_000_000  # 2025-08-30 21:00:00 UTC
DUMP_INTERVAL_US = 500_000
WRITE_US = 4  # time between two records of one dump pass
OPERATION_US = 25_000  # mean time between two operations of a process
FIRST_PID = 20_000

MICROBATCHES, LAYERS = 8, 2
TENSOR_BYTES, EMBEDDING_BYTES, ACTIVATION_BYTES, NORM_BYTES, LOSS_BYTES = (
    33_554_432,
    16_777_216,
    8_388_608,
    8_192,
    16_384,
)
BUCKET_BYTES = (53_504_000, 53_504_000, 48_758_784, 33_554_432, 24_379_392, 13_504_512)
CHANNELS = 12  # of a verbose record

# Kinds of communicator: name, latency in us, GB/s, median wait in us.
_KINDS = (
    ("TP", 18.0, 330.0, 140.0),
    ("DP", 60.0, 44.0, 2_500.0),
    ("PP", 25.0, 46.0, 900.0),
    ("MP", 90.0, 44.0, 1_800.0),
    ("WORLD", 300.0, 40.0, 9_000.0),
)
_TP, _DP, _PP, _MP, _WORLD = range(5)
_TRANSFER_SIGMA, _WAIT_SIGMA = 0.09, 1.1  # of the logarithms


@dataclass(frozen=True)
class BigJob:
    """What was written; `bytes` before compression."""

    directory: Path
    files: int
    records: int
    bytes: int


@dataclass(frozen=True)
class _Operation:
    """One operation of a training step as one process sees it; `peer` only for P2P."""

    kind: int
    function: str
    size: int
    peer: int | None = None


@dataclass(frozen=True)
class _Place:
    """A process's communicator of one kind: number, rank, ranks and nodes."""

    group: int
    rank: int
    n_ranks: int
    nnodes: int


def write_big_job(
    directory: Path,
    records: int,
    *,
    files: int = 1669,
    seed: int = 0,
    verbose: bool = False,
    compress: bool = False,
) -> BigJob:
    """Write `records` records, shared evenly among `files` logs `<host>-pid<pid>.log`, into `directory`.

    About 455 bytes a record, 3.2 kB with `verbose` (per-channel kernel traces). `compress` writes `.log.gz`, as gzip -6
    would. Raises ValueError for more files than the job has processes.
    """
    if not 1 <= files <= PROCESSES:
        raise ValueError(f"the job has {PROCESSES} processes: files must be within 1 and {PROCESSES}, not {files}")
    directory.mkdir(parents=True, exist_ok=True)
    parallelism = {"tp": TENSOR, "pp": STAGES, "dp": DATA}
    about = {"name": "synthetic big job", "gpus": PROCESSES, "parallelism": parallelism, "nccl_version": "2.30.7"}
    (directory / "run.json").write_text(json.dumps(about) + "\n")

    def write(process: int) -> int:
        share = records // files + (process < records % files)
        text = _log(process, share, seed, verbose)
        path = directory / f"{_host(process)}-pid{FIRST_PID + process % GPUS_PER_HOST}.log"
        if compress:
            path.with_suffix(".log.gz").write_bytes(gzip.compress(text.tobytes(), 6, mtime=0))
        else:
            text.tofile(path)
        return int(text.size)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return BigJob(directory, files, records, sum(pool.map(write, range(files))))


def _host(process: int) -> str:
    return f"node-{process // GPUS_PER_HOST + 1:03d}"


def _places(process: int) -> tuple[_Place, ...]:
    """The process's place in each kind of communicator; ranks are numbered tensor first, pipeline stage last."""
    tensor, data, stage = process % TENSOR, process // TENSOR % DATA, process // (TENSOR * DATA)
    return (
        _Place(process // TENSOR, tensor, TENSOR, 1),
        _Place(stage * TENSOR + tensor, data, DATA, DATA),
        _Place(process % (TENSOR * DATA), stage, STAGES, STAGES),
        _Place(data, stage * TENSOR + tensor, STAGES * TENSOR, STAGES),
        _Place(0, process, PROCESSES, PROCESSES // GPUS_PER_HOST),
    )


def _step(stage: int) -> list[_Operation]:
    """One training step of a process of a pipeline stage, in order."""
    layer = [_Operation(_TP, "AllGather", TENSOR_BYTES), _Operation(_TP, "ReduceScatter", TENSOR_BYTES)] * LAYERS
    step = []
    for source, target in ((stage - 1, stage + 1), (stage + 1, stage - 1)):  # forward, then backward
        for _ in range(MICROBATCHES):
            if 0 <= source < STAGES:
                step.append(_Operation(_PP, "Recv", ACTIVATION_BYTES, source))
            step += layer
            if stage in (0, STAGES - 1):
                step.append(_Operation(_TP, "AllReduce", EMBEDDING_BYTES))
            if 0 <= target < STAGES:
                step.append(_Operation(_PP, "Send", ACTIVATION_BYTES, target))
    step += [_Operation(_DP, "ReduceScatter", size) for size in BUCKET_BYTES]
    step.append(_Operation(_MP, "AllReduce", NORM_BYTES))
    step += [_Operation(_DP, "AllGather", size) for size in BUCKET_BYTES]
    step.append(_Operation(_WORLD, "AllReduce", LOSS_BYTES))
    return step


def _log(process: int, records: int, seed: int, verbose: bool) -> NDArray[np.uint8]:
    """The text of one process's log."""
    places = _places(process)
    step = _step(process // (TENSOR * DATA))
    call = np.arange(records)
    operation = call % len(step)
    kind = np.array([op.kind for op in step])[operation]
    times = _times(process, places, step, operation, kind, seed)

    own = np.random.default_rng([seed, 1, process])
    clock = np.random.default_rng([seed, 2]).exponential(OPERATION_US, records).cumsum().astype(np.int64)
    phase = int(own.integers(DUMP_INTERVAL_US))
    # The dump thread wakes every interval and drains its communicators one after the other.
    dump = (clock + DUMP_INTERVAL_US - phase) // DUMP_INTERVAL_US
    order = np.lexsort((call, kind, dump))
    operation, times, dump = operation[order], times[order], dump[order]
    first_of_dump = np.searchsorted(dump, dump)
    stamps = EPOCH_US + phase + dump * DUMP_INTERVAL_US + (call - first_of_dump) * WRITE_US

    size, n_ranks = (
        np.array(values) for values in zip(*((op.size, places[op.kind].n_ranks) for op in step), strict=True)
    )
    numbers = np.empty((records, 5 + (4 + 6 * CHANNELS if verbose else 0)), np.int64)
    numbers[:, 0], numbers[:, 1], numbers[:, 2] = stamps, _sequence_numbers(step, call[order]), times
    numbers[:, 3], numbers[:, 4] = _bandwidths(step, operation, size, n_ranks, times)
    if verbose:
        numbers[:, 5:] = _traces(own, call[order], EPOCH_US + clock[order], times)
    decimals = np.zeros(numbers.shape[1], np.int64)
    decimals[3:5] = 6
    texts, starts = _texts(process, places, step, verbose)
    return _print(texts, starts, operation, numbers, decimals)


def _times(
    process: int, places: Sequence[_Place], step: list[_Operation], operation: Ints, kind: Ints, seed: int
) -> Ints:
    """Execution times in us: the collective's transfer, drawn alike by all of its ranks, and the rank's own wait."""
    traffic = np.array([op.size * (1 if op.peer is not None else places[op.kind].n_ranks - 1) for op in step], float)
    for number, op in enumerate(step):
        if op.function == "AllReduce":
            traffic[number] *= 2 / places[op.kind].n_ranks
    _names, latency, gbs, wait = (np.array(values) for values in zip(*_KINDS, strict=True))
    of_op = np.array([op.kind for op in step])
    transfer = (latency[of_op] + traffic / gbs[of_op] / 1e3)[operation]
    for number, place in enumerate(places):
        mine = np.flatnonzero(kind == number)
        together = np.random.default_rng([seed, 3, number, place.group])
        transfer[mine] *= together.lognormal(0, _TRANSFER_SIGMA, mine.size)
    waits = np.random.default_rng([seed, 4, process]).lognormal(0, _WAIT_SIGMA, operation.size) * wait[kind]
    return np.asarray(transfer + waits).astype(np.int64)


def _sequence_numbers(step: list[_Operation], call: Ints) -> Ints:
    """NCCL counts per communicator and function; the plugin counts P2P operations itself, from 1."""
    seen: dict[tuple[int, str], int] = {}
    before = []
    counters = [(op.kind, op.function if op.peer is None else "p2p") for op in step]
    for counter in counters:
        before.append(seen.get(counter, 0))
        seen[counter] = before[-1] + 1
    per_step = np.array([seen[counter] for counter in counters])
    first = np.array(before) + np.array([op.peer is not None for op in step])
    number, steps = call % len(step), call // len(step)
    return np.asarray(first[number] + steps * per_step[number])


def _bandwidths(step: list[_Operation], operation: Ints, size: Ints, n_ranks: Ints, times: Ints) -> tuple[Ints, Ints]:
    """Algorithm and bus bandwidth in millionths of GB/s, by the plugin's formulas."""
    columns = []
    for formula in (algobw_gbs, busbw_gbs):
        # Both formulas are a factor over the time.
        factor = np.array(
            [formula(op.function, int(s), int(n), 1.0) for op, s, n in zip(step, size, n_ranks, strict=True)], float
        )
        columns.append(np.floor(factor[operation] / times * 1e6 + 0.5).astype(np.int64))
    return columns[0], columns[1]


def _traces(random: np.random.Generator, call: Ints, end_us: Ints, times: Ints) -> Ints:
    """The numbers of the kernel traces: orders, then times, each for the operation and then channel by channel."""
    events = 2 + 3 * CHANNELS
    orders = call[:, None] * events + np.arange(1, events + 1)
    launched = (end_us - times)[:, None]
    started = launched + 10 + random.integers(0, 12, (call.size, CHANNELS))
    stopped = end_us[:, None] + random.integers(0, 12, (call.size, CHANNELS))
    channels = np.stack([started, stopped, stopped], axis=2).reshape(call.size, -1)
    return np.concatenate([orders, launched, launched + 6, channels], axis=1)


def _texts(
    process: int, places: Sequence[_Place], step: list[_Operation], verbose: bool
) -> tuple[NDArray[np.uint8], Ints]:
    """The fixed texts around a record's numbers, all joined, and where each begins; a row for each operation."""
    rows = []
    for op in step:
        place, name = places[op.kind], _KINDS[op.kind][0]
        kind, peer = ("coll", "") if op.peer is None else ("p2p", f',"p2p_peer":{op.peer}')
        comm_id = _communicator_id(op.kind, place.group)
        rows.append(
            [
                f'{{"header":{{"id":"{comm_id}","comm_name":"{name} Group {place.group}",'
                f'"rank":{place.rank},"n_ranks":{place.n_ranks},"nnodes":{place.nnodes}}},"metadata":{{'
                '"inspector_output_format_version":"v4.0","git_rev":"v2.30.7-1",'
                '"rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":',
                f',"hostname":"{_host(process)}","pid":{FIRST_PID + process % GPUS_PER_HOST}}},'
                f'"{kind}_perf":{{"{kind}":"{op.function}","{kind}_sn":',
                f'{peer},"{kind}_msg_size_bytes":{op.size},"{kind}_exec_time_us":',
                f',"{kind}_timing_source":"kernel_gpu","{kind}_algobw_gbs":',
                f',"{kind}_busbw_gbs":',
                *(_trace_texts(kind) if verbose else []),
                ("}]}" if verbose else "") + "}}\n",
            ]
        )
    encoded = [text.encode() for row in rows for text in row]
    starts = np.cumsum([0, *map(len, encoded)])
    bounds = np.stack([starts[:-1], starts[1:]], axis=1).reshape(len(rows), -1, 2)
    return np.frombuffer(b"".join(encoded), np.uint8), np.ascontiguousarray(bounds, np.int64)


def _trace_texts(kind: str) -> list[str]:
    """The texts before each number of both traces."""
    texts: list[str] = []
    closing = ""
    for suffix in ("sn", "ts"):
        texts += [f'{closing},"event_trace_{suffix}":{{"{kind}_start_{suffix}":', f',"{kind}_stop_{suffix}":']
        opening = ',"kernel_events":[{"channel_id":'
        for channel in range(CHANNELS):
            texts += [f'{opening}{channel},"kernel_start_{suffix}":', f',"kernel_stop_{suffix}":']
            texts.append(f',"kernel_record_{suffix}":')
            opening = '},{"channel_id":'
        closing = "}]}"
    return texts


def _communicator_id(kind: int, group: int) -> str:
    """A hash of 14 hex digits, as much as the plugin prints."""
    return f"0x{int(np.random.default_rng([kind, group]).integers(2**52, 2**56)):x}"


@njit(cache=True, nogil=True)
def _print(
    texts: NDArray[np.uint8], starts: NDArray[Any], operation: Ints, numbers: Ints, decimals: Ints
) -> NDArray[np.uint8]:
    """Records as text: the fixed texts of each record's operation with its numbers between them."""
    columns = numbers.shape[1]
    longest = 0
    for row in range(starts.shape[0]):
        longest = max(longest, starts[row, columns, 1] - starts[row, 0, 0])
    out = np.empty(operation.size * (longest + 20 * columns), np.uint8)
    digits = np.empty(20, np.uint8)
    at = 0
    for record in range(operation.size):
        bounds = starts[operation[record]]
        for column in range(columns + 1):
            for position in range(bounds[column, 0], bounds[column, 1]):
                out[at] = texts[position]
                at += 1
            if column == columns:
                break
            value, count = numbers[record, column], 0
            while value > 0 or count <= decimals[column]:
                digits[count] = 48 + value % 10
                value //= 10
                count += 1
            for place in range(count - 1, -1, -1):
                out[at] = digits[place]
                at += 1
                if place > 0 and place == decimals[column]:
                    out[at] = 46
                    at += 1
    return out[:at].copy()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Write the logs of a large synthetic training job.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--records", type=int, default=37_500_000)
    parser.add_argument("--files", type=int, default=1669)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true", help="with per-channel kernel traces, 3.2 kB a record")
    parser.add_argument("--gzip", action="store_true", dest="compress", help="write .log.gz, as gzip -6 would")
    options = vars(parser.parse_args())
    job = write_big_job(options.pop("directory"), options.pop("records"), **options)
    print(f"{job.records:,} records in {job.files:,} files, {job.bytes:,} bytes before compression: {job.directory}")


if __name__ == "__main__":
    main()
