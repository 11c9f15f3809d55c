"""What Inspector's dump thread writes of what completed, and what becomes of it: rings, slots, passes, files, cuts."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil

import numpy as np

from evaluation.independent.clocks import Clock
from evaluation.independent.records import Completed, line

# Standard I/O writes blocks of this size, where a killed writer's file ends.
_BLOCK_BYTES = 4096
# Writing one record takes the dump thread about this long.
_WRITE_US = 2.0


@dataclass(frozen=True)
class Plugin:
    """How the job's Inspector was set up, and what was lost of its logs.

    `ring`: operations kept per communicator between two passes, 1 for the slot of NCCL 2.28 and 2.29. `lost_by_peer`:
    the share of Sends and Recvs lost on half of a rank's peers (2.30 looks for their times at the wrong channels).
    `missing`: processes without a log; `cut`: processes whose file ends at a block, with the share that is left.
    """

    ring: int = 1024
    interval_us: float = 100_000.0
    lost_by_peer: float = 0.0
    missing: frozenset[str] = frozenset()
    cut: dict[str, float] = field(default_factory=dict)

    @property
    def has_slots(self) -> bool:
        """Whether it is the first generation: one slot, no names, no Send and Recv, no least size."""
        return self.ring == 1

    @property
    def minimum_bytes(self) -> int:
        """Smaller operations are not recorded."""
        return 0 if self.has_slots else 8192


def log_files(
    records: Iterable[Completed], processes: Iterable[str], plugin: Plugin, clocks: dict[str, Clock], seed: int
) -> dict[str, bytes]:
    """The logs of all processes, by file name, as they lie there after the job."""
    draws = np.random.default_rng([seed, 4242])
    by_process: dict[str, list[Completed]] = {process: [] for process in processes}
    for record in _timed(records, plugin, draws):
        by_process[record.gpu.process].append(record)
    logs = {}
    for process, own in by_process.items():
        phase_us = float(draws.random()) * plugin.interval_us
        if process not in plugin.missing:
            content = "".join(_passes(own, phase_us, plugin, clocks)).encode()
            if process in plugin.cut:
                content = content[: int(len(content) * plugin.cut[process]) // _BLOCK_BYTES * _BLOCK_BYTES]
            logs[f"{process}.log"] = content
    return logs


def _timed(records: Iterable[Completed], plugin: Plugin, draws: np.random.Generator) -> Iterable[Completed]:
    """Those of which the plugin finds a GPU time: at least 1 us, and not lost for its peer."""
    lossy: dict[tuple[str, int | None], float] = {}
    for record in records:
        if record.exec_us == 0:
            continue
        if plugin.lost_by_peer and record.part.peer is not None:
            edge = (record.part.communicator.id + str(record.gpu.rank), record.part.peer)
            if edge not in lossy:
                lossy[edge] = plugin.lost_by_peer if draws.random() < 0.5 else 0.0
            if draws.random() < lossy[edge]:
                continue
        yield record


def _passes(records: list[Completed], phase_us: float, plugin: Plugin, clocks: dict[str, Clock]) -> Iterable[str]:
    """The lines that one process's dump thread writes, pass by pass, the newest communicator first."""
    waiting: dict[int, dict[tuple[int, int, bool], list[Completed]]] = defaultdict(lambda: defaultdict(list))
    for record in sorted(records, key=lambda record: record.end_us):
        number = max(0, ceil((record.end_us - phase_us) / plugin.interval_us))
        if phase_us + number * plugin.interval_us <= record.lost_us:
            group = record.part.communicator
            ring = (-group.number, group.local_rank[record.gpu.rank], record.part.peer is not None)
            waiting[number][ring].append(record)
    for number in sorted(waiting):
        now_us = phase_us + number * plugin.interval_us
        for ring in sorted(waiting[number]):
            for record in waiting[number][ring][-plugin.ring :]:
                yield line(record, clocks[record.gpu.host].unix_us(now_us), named=not plugin.has_slots)
                now_us += _WRITE_US
