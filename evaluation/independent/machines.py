"""The machines of a job: hosts, GPUs, processes, NVLink domains, and the communicators that are made of them."""

from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Gpu:
    """One GPU, which is one rank of the job. `domain` is its NVLink domain: what NCCL counts as a node."""

    rank: int
    host: str
    pid: int
    slot: int
    domain: int

    @property
    def process(self) -> str:
        """The process that drives it, as log files are named."""
        return f"{self.host}-pid{self.pid}"


@dataclass(frozen=True)
class Cluster:
    """The GPUs of a job in the order of their ranks, and their machines."""

    gpus: tuple[Gpu, ...]

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Host names in the order of ranks."""
        return tuple(dict.fromkeys(gpu.host for gpu in self.gpus))

    def on_host(self, host: str) -> frozenset[int]:
        """The ranks on a host."""
        return frozenset(gpu.rank for gpu in self.gpus if gpu.host == host)

    def of_process(self, process: str) -> frozenset[int]:
        """The ranks that a process drives."""
        return frozenset(gpu.rank for gpu in self.gpus if gpu.process == process)

    def without(self, rank: int) -> "Cluster":
        """The cluster that is left when the process of one GPU is gone; the others keep their place."""
        return Cluster(tuple(gpu for gpu in self.gpus if gpu.rank != rank))


@dataclass(frozen=True, eq=False)
class Communicator:
    """A group of GPUs, by rank of the job in the order of their ranks in the group. `family` is what it is for."""

    number: int
    id: str
    name: str
    family: str
    ranks: tuple[int, ...]
    nodes: int
    local_rank: dict[int, int] = field(repr=False)


class Communicators:
    """Makes communicators of one launch; ids are 14 hexadecimal digits drawn from `salt`, as the plugin cuts them."""

    def __init__(self, cluster: Cluster, salt: int, names: dict[str, str]) -> None:
        self.ranks = [gpu.rank for gpu in cluster.gpus]
        self._domain = {gpu.rank: gpu.domain for gpu in cluster.gpus}
        self._salt = salt
        self._names = names
        self.made: list[Communicator] = []

    def make(self, family: str, ranks: list[int]) -> Communicator:
        """A communicator of these ranks. `{n}` in the family's name is its number among its family."""
        number = len(self.made)
        siblings = sum(other.family == family for other in self.made)
        digits = (self._salt * 0x9E3779B97F4A7C15 + (number + 1) * 0xC2B2AE3D27D4EB4F) % 2**56
        made = Communicator(
            number=number,
            id=f"0x{digits:014x}",
            name=self._names.get(family, "unknown").replace("{n}", str(siblings)),
            family=family,
            ranks=tuple(ranks),
            nodes=len({self._domain[rank] for rank in ranks}),
            local_rank={rank: place for place, rank in enumerate(ranks)},
        )
        self.made.append(made)
        return made
