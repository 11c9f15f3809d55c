"""How long a transfer takes, and which links it uses.

Ring algorithms at the speed of their slowest link: `latency + bytes on the wire / bandwidth`. Within a domain the wire
is NVLink; across domains each GPU of a domain brings a network card, up to what NVLink carries between them.
"""

from dataclasses import dataclass
from math import log2

import numpy as np

from evaluation.independent.faults import Fault, Path
from evaluation.independent.machines import Cluster, Communicator
from evaluation.independent.streams import Meeting

# Times of equal transfers scatter by a few per cent, and now and then by more.
_SCATTER, _TABLE = 0.03, 8192


@dataclass(frozen=True)
class Congestion:
    """A time in which everything between domains takes `factor` times as long, in us since the job began."""

    start_us: float
    end_us: float
    factor: float


def wire_bytes(function: str, size_bytes: int, ranks: int) -> float:
    """Bytes that the busiest link carries in a ring, for the size that one rank contributes."""
    if function == "AllReduce":
        return 2 * size_bytes * (ranks - 1) / ranks
    if function in ("AllGather", "ReduceScatter"):
        return float(size_bytes * (ranks - 1))
    if function == "All2All":
        return size_bytes * (ranks - 1) / ranks
    return float(size_bytes)


class Fabric:
    """The links of a cluster. Speeds in GB/s of one GPU's NVLink and one GPU's share of the network cards."""

    def __init__(
        self,
        cluster: Cluster,
        nvlink_gbs: float,
        nic_gbs: float,
        seed: int,
        congestions: tuple[Congestion, ...] = (),
        faults: tuple[Fault, ...] = (),
    ) -> None:
        self._gpus = {gpu.rank: gpu for gpu in cluster.gpus}
        self._nvlink_gbs, self._nic_gbs = nvlink_gbs, nic_gbs
        self._scatter = np.exp(np.abs(np.random.default_rng([seed, 77]).normal(0.0, _SCATTER, _TABLE)))
        self._congestions = congestions
        self._faults = [fault for fault in faults if fault.link]
        self._known: dict[tuple[int, tuple[int, ...]], tuple[Path, list[Fault]]] = {}

    def path(self, communicator: Communicator, ends: tuple[int, ...] = ()) -> Path:
        """The links between GPUs that meet: all of a communicator, or the two ends of a Send."""
        return self._path_and_faults(communicator, ends)[0]

    def usual_us(self, path: Path, function: str, size_bytes: int) -> float:
        """Time of a transfer on healthy, empty links, in us."""
        return self._latency_us(path) + max(self._link_us(path, function, size_bytes))

    def transfer_us(self, meeting: Meeting, start_us: float) -> float:
        """Time from the last arrival to the end, in us; larger where a fault or congestion is on the way."""
        task, part = meeting.came[0]
        ends = () if part.peer is None else tuple(sorted((task.rank, part.peer)))
        if len(set(ends)) == 1:
            return 2.0  # To itself: a copy.
        path, faults = self._path_and_faults(part.communicator, ends)
        size_bytes = max(part.size_bytes for _, part in meeting.came)
        inside_us, between_us = self._link_us(path, part.function, size_bytes)
        if path.crosses:
            between_us *= max([c.factor for c in self._congestions if c.start_us <= start_us < c.end_us], default=1.0)
        step = max(task.step for task, _ in meeting.came)
        for fault in faults:
            if fault.link == "nvlink":
                inside_us *= fault.factor(step)
            else:
                between_us *= fault.factor(step)
        key = part.communicator.number * 7919 + meeting.number * 31 + sum(ends) * 17
        lasting_us = self._latency_us(path) + max(inside_us, between_us) * float(self._scatter[key % _TABLE])
        return lasting_us + _standstill_us(faults, start_us, lasting_us)

    def _latency_us(self, path: Path) -> float:
        return (18.0 if path.crosses else 6.0) + 3.0 * log2(len(path.gpus))

    def _link_us(self, path: Path, function: str, size_bytes: int) -> tuple[float, float]:
        """Times on NVLink and on the network cards, in us; 0 where a link is not used."""
        ranks = len(path.gpus)
        carried = wire_bytes(function, size_bytes, ranks)
        inside_us = carried / self._nvlink_gbs / 1e3 if path.shares_domain else 0.0
        between_us = carried / (self._nic_gbs * ranks / path.domains) / 1e3 if path.crosses else 0.0
        return inside_us, between_us

    def _path_and_faults(self, communicator: Communicator, ends: tuple[int, ...]) -> tuple[Path, list[Fault]]:
        key = (communicator.number, ends)
        if key not in self._known:
            path = Path(tuple(self._gpus[rank] for rank in (ends or communicator.ranks)))
            self._known[key] = (path, [fault for fault in self._faults if fault.is_on(path)])
        return self._known[key]


def _standstill_us(faults: list[Fault], start_us: float, lasting_us: float) -> float:
    """How long links that are down hold a transfer up, in us."""
    held_us = 0.0
    for fault in faults:
        for down_us, up_us in fault.down:
            now_us = start_us + held_us
            if down_us < now_us + lasting_us and now_us < up_us:
                held_us += up_us - max(now_us, down_us)
    return held_us
