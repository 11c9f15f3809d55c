"""The role of a communicator in the job's parallelism, told from its name or, more cautiously, from its shape.

Frameworks name what they think of, and a child of `ncclCommSplit` has its parent's name: size and members decide first
whether a name can be true.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from nixt_pipeline.disjoint_sets import DisjointSets
from nixt_pipeline.grouping import grouped

Process = tuple[str, int] | str

# Words of the names that Megatron-LM, NeMo, DeepSpeed, PyTorch, torchtitan, vLLM and MaxText give, by the axis that
# they mean. `dcp` and `pcp` are vLLM's context parallelism of decoding and of prefill.
_WORDS = {
    "expert": "expert experts ep moe",
    "pipeline": "pipeline pipelines pipe pp stage stages embedding embeddings",
    "context": "context sequence cp sp dcp pcp ulysses",
    "tensor": "tensor tp mp",
    "data": "data dp ddp fsdp hsdp zero replica replicas replicate shard shards sharded",
}
_AXIS_OF = {word: axis for axis, words in _WORDS.items() for word in words.split()}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

# Two ranks that differ in one of these axes differ in none of the others.
_ORTHOGONAL = frozenset({"tensor", "pipeline", "data"})
# A process in more groups than this is in no job's grid.
_MOST_GROUPS = 64


@dataclass(frozen=True)
class Shape:
    """What is known of a communicator without its name; `hosts` and `ranks_seen` where a rank recorded it."""

    n_ranks: int | None
    coll_type: str | None
    only_p2p: bool
    hosts: int | None = None
    ranks_seen: int | None = None

    @property
    def inside_a_host(self) -> bool:
        """Whether no rank of it is known to be on another host: a rack is one node to NCCL."""
        return self.coll_type == "nvlink-only" and (self.hosts or 1) == 1

    @property
    def one_rank_per_host(self) -> bool:
        """Whether no two of its ranks share a host."""
        return self.coll_type == "nic-only" or (self.hosts or 1) > 1 == (self.ranks_seen or 0) / (self.hosts or 1)


@dataclass(frozen=True)
class Group:
    """A communicator of a launch: its name, its shape, and which processes are known to be in it."""

    name: str | None
    shape: Shape
    members: frozenset[Process]


def axes_by_name(comm_name: str | None) -> frozenset[str]:
    """The axes of parallelism that the framework's name for a communicator mentions: several where it spans them, such
    as TENSOR_AND_DATA_PARALLEL_GROUP; `world` when it says that it spans all."""
    spelled = [word.lower() for word in _WORD.findall(comm_name or "")]
    words = [word.removesuffix("parallel") for word in spelled]
    axes = frozenset(_AXIS_OF[word] for word in words if word in _AXIS_OF)
    if axes:
        return axes
    if "world" in words or ("default" in words and "pg" in words):
        return frozenset({"world"})
    if "model" in words:
        # An axis of a mesh called model is tensor parallel; a model-parallel group spans tensor and pipeline.
        return frozenset({"tensor", "pipeline"} if "parallel" in spelled else {"tensor"})
    return frozenset()


def role_by_name(comm_name: str | None) -> str | None:
    """The role that the framework's name for the communicator says, or None where it says none or spans several axes.

    Gradients are reduced over data and context parallelism together (DATA_PARALLEL_GROUP_WITH_CP, dp_shard_cp), and
    such groups have that name whether there is context parallelism or not.
    """
    axes = axes_by_name(comm_name)
    if axes == {"data", "context"}:
        return "data"
    return next(iter(axes)) if len(axes) == 1 else None


def roles(groups: Sequence[Group]) -> list[tuple[str | None, str | None]]:
    """The role of each communicator of a launch, and what shows it: its `name`, unless size or members contradict it,
    or else its `shape`."""
    told: list[tuple[str | None, str | None]] = [(None, None)] * len(groups)
    for numbers in _components(groups):
        together = [groups[number] for number in numbers]
        launch = Launch([group.shape for group in together])
        processes = len(frozenset().union(*(group.members for group in together)))
        untrue = _inherited(together) | _crossed(together)
        for place, (number, group) in enumerate(zip(numbers, together, strict=True)):
            axes, role = axes_by_name(group.name), role_by_name(group.name)
            if place in untrue or (role == "world" and (group.shape.n_ranks or 0) < processes):
                axes, role = frozenset(), None
            if role:
                told[number] = role, "name"
            elif not axes and (role := role_by_shape(group.shape, launch, processes)):
                told[number] = role, "shape"
    return told


class Launch:
    """What the shapes of a launch have in common."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        sizes = Counter(shape.n_ranks or 0 for shape in shapes)
        self.communicators = len(shapes)
        self.largest = max(sizes, default=0)
        self.one_largest = sizes[self.largest] == 1
        self.crossing = any(shape.coll_type is not None and not shape.inside_a_host for shape in shapes)
        self.inside = any(shape.inside_a_host for shape in shapes)


def role_by_shape(shape: Shape, launch: Launch, processes: int = 0) -> str | None:
    """The role that the shape suggests among all communicators of a launch of at least so many `processes`, or None
    where more than one fits.

    The largest communicator of a launch is its world when it is the only one of that size; one that only carries P2P is
    a pipeline; inside hosts it is tensor parallel if others cross hosts; one rank per host, with collectives, is data
    parallel.
    """
    if shape.n_ranks is None or shape.n_ranks < 2 or launch.communicators < 2:
        return None
    if shape.n_ranks == launch.largest >= processes and launch.one_largest:
        return "world"
    if shape.only_p2p:
        return "pipeline"
    if shape.inside_a_host:
        return "tensor" if launch.crossing else None
    # Within a rack, a tensor-parallel group may have one rank on each host as well, if none stays on a host.
    return "data" if shape.one_rank_per_host and (shape.coll_type == "nic-only" or launch.inside) else None


def _components(groups: Sequence[Group]) -> list[list[int]]:
    """The numbers of groups that share processes, directly or through others: only those say something about one
    another."""
    together: DisjointSets[Process] = DisjointSets()
    for group in groups:
        for one, other in pairwise(group.members):
            together.join(other, one)

    def part_of(number: int) -> object:
        members = groups[number].members
        return together.find(next(iter(members))) if members else number

    return list(grouped(range(len(groups)), part_of).values())


def _inherited(groups: Sequence[Group]) -> set[int]:
    """Those that have the name of a larger one in which all of their members are: `ncclCommSplit` copies it."""
    named = (place for place, group in enumerate(groups) if group.name)
    found: set[int] = set()
    for places in grouped(named, lambda place: groups[place].name).values():
        larger: dict[Process, set[int]] = defaultdict(set)
        by_size = grouped(places, lambda place: groups[place].shape.n_ranks or 0)
        for _, same_size in sorted(by_size.items(), reverse=True):
            for place in same_size:
                members = groups[place].members
                if members and set.intersection(*(larger[member] for member in members)):
                    found.add(place)
            for place in same_size:
                if place not in found:
                    for member in groups[place].members:
                        larger[member].add(place)
    return found


def _crossed(groups: Sequence[Group]) -> set[int]:
    """Those of which two share several members though their names say axes that cross in one rank at most."""
    kinds: dict[tuple[str, frozenset[Process]], list[int]] = defaultdict(list)
    for place, group in enumerate(groups):
        role = role_by_name(group.name)
        if role in _ORTHOGONAL:
            kinds[role, group.members].append(place)
    of_process: dict[Process, list[tuple[str, frozenset[Process]]]] = defaultdict(list)
    for kind in kinds:
        for member in kind[1]:
            of_process[member].append(kind)
    found: set[int] = set()
    for own in of_process.values():
        for one, other in combinations(own[:_MOST_GROUPS], 2):
            if one[0] != other[0] and len(one[1] & other[1]) > 1:
                found.update(kinds[one], kinds[other])
    return found
