"""The role of a communicator in the job's parallelism, told from its name or, more cautiously, from its shape."""

import re
from dataclasses import dataclass

# Names as Megatron-LM, NeMo, DeepSpeed and PyTorch give them. The first match wins: TENSOR_MODEL_PARALLEL_GROUP is
# tensor, EXPERT_DATA_PARALLEL_GROUP shards experts.
_NAMES = tuple(
    (role, re.compile(pattern, re.IGNORECASE))
    for role, pattern in (
        ("world", r"world|default_pg"),
        ("expert", r"expert|(?<![a-z])(?:ep|moe)(?![a-z])"),
        ("pipeline", r"pipe|(?<![a-z])pp(?![a-z])|embedding"),
        ("context", r"context|sequence|(?<![a-z])(?:cp|sp)(?![a-z])"),
        ("tensor", r"tensor|(?<![a-z])(?:tp|mp)(?![a-z])|model_parallel"),
        ("data", r"data|(?<![a-z])(?:dp|ddp|fsdp|hsdp)(?![a-z])|replica|shard"),
    )
)


@dataclass(frozen=True)
class Shape:
    """What is known of a communicator without its name."""

    n_ranks: int | None
    coll_type: str | None
    only_p2p: bool


def role_by_name(comm_name: str | None) -> str | None:
    """The role that the framework's name for the communicator says, or None."""
    if not comm_name:
        return None
    return next((role for role, pattern in _NAMES if pattern.search(comm_name)), None)


def role_by_shape(shape: Shape, launch: list[Shape]) -> str | None:
    """The role that the shape suggests among all communicators of one launch, or None where more than one fits.

    The largest communicator of a launch is its world when it is the only one of that size; one that only carries P2P is
    a pipeline; inside nodes it is tensor parallel if others cross nodes; one rank per node, with collectives, is data
    parallel.
    """
    sizes = [other.n_ranks or 0 for other in launch]
    if shape.n_ranks is None or shape.n_ranks < 2 or len(launch) < 2:
        return None
    if shape.n_ranks == max(sizes) and sizes.count(shape.n_ranks) == 1:
        return "world"
    if shape.only_p2p:
        return "pipeline"
    crossing = any(other.coll_type in ("nic-only", "mixed") for other in launch)
    if shape.coll_type == "nvlink-only" and crossing:
        return "tensor"
    return "data" if shape.coll_type == "nic-only" else None
