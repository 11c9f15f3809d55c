"""Roles of communicators. Hosts are a to d, and a process is (host, pid)."""

from collections.abc import Iterable

import pytest

from nixt_pipeline.inspector.parallelism import Group, Launch, Shape, role_by_name, role_by_shape, roles

# As the frameworks write them; PyTorch adds `:<group name>`.
NAMES = {
    "tensor": (
        "TENSOR_MODEL_PARALLEL_GROUP", "TENSOR_MODEL_PARALLEL_GROUP:5", "TP Group 3", "mesh_tp:9", "mesh_tp", "tp:0",
        "tensor", "tensor_transpose", "model", "mp", "tensor_parallel", "TensorParallel",
    ),
    "data": (
        "DATA_PARALLEL_GROUP", "DATA_PARALLEL_GROUP_WITH_CP", "DATA_PARALLEL_GROUP_WITH_CP:3",
        "DATA_PARALLEL_GROUP_WITH_CP_GLOO", "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP",
        "INTER_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP", "mesh_dp_shard_cp", "mesh_dp_cp", "dp_cp", "dp-cp",
        "mesh_dp_shard", "mesh_dp_replicate", "mesh_dp", "mesh_fsdp", "fsdp_shard", "mesh_shard", "replicate", "dp:1",
        "DP Group 0", "data_parallel_group", "sequence_data_parallel", "zero_param_intra_parallel_group", "ddp",
    ),
    "pipeline": (
        "PIPELINE_MODEL_PARALLEL_GROUP", "mesh_pp", "pp:0", "PP Group 2", "stage", "pipe", "EMBEDDING_GROUP",
        "POSITION_EMBEDDING_GROUP", "shared_embedding",
    ),
    "context": (
        "CONTEXT_PARALLEL_GROUP", "HIERARCHICAL_CONTEXT_PARALLEL_GROUPS", "mesh_cp", "CP Group 1", "dcp:0", "pcp:0",
        "sequence_parallel", "mesh_sp", "context_autoregressive",
    ),
    "expert": ("EXPERT_MODEL_PARALLEL_GROUP", "mesh_ep", "ep:0", "ep_size_4", "expert", "moe"),
    "world": ("default_pg", "default_pg:0", "WORLD Group 0", "world:0", "world"),
    None: (
        # Across axes that are no data and context parallelism.
        "MODEL_PARALLEL_GROUP", "TENSOR_AND_DATA_PARALLEL_GROUP", "TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP",
        "TENSOR_AND_CONTEXT_PARALLEL_GROUP", "tp-cp-dp", "tp-cp", "tp-pp", "EXPERT_DATA_PARALLEL_GROUP",
        "INTRA_PARTIAL_EXPERT_DATA_PARALLEL_GROUP", "EXPERT_TENSOR_PARALLEL_GROUP",
        "EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP",
        "DATA_MODULO_EXPERT_PARALLEL_GROUP", "mesh_dp_shard_in_ep", "tensor_sequence",
        # No axis.
        "mesh_loss", "mesh_batch", "mesh_efsdp", "mesh_etp", "undefined:12", "my group", "stop", "metadata",
        "database", "http_pool", "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP", "", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("role", "name"), [(role, name) for role, names in NAMES.items() for name in names])
def test_a_name_tells_the_role(role: str | None, name: str | None) -> None:
    assert role_by_name(name) == role


def test_a_shape_tells_the_role_only_where_one_fits() -> None:
    world, tensor, data = Shape(8, "mixed", False), Shape(4, "nvlink-only", False), Shape(2, "nic-only", False)
    pipeline, other = Shape(2, "nic-only", True), Shape(4, "mixed", False)
    launch = [world, tensor, tensor, data, pipeline, other]
    assert [role_by_shape(shape, Launch(launch)) for shape in launch] == [
        "world", "tensor", "tensor", "data", "pipeline", None,
    ]  # fmt: skip
    assert role_by_shape(world, Launch([world])) is None
    assert role_by_shape(tensor, Launch([tensor, Shape(2, "nvlink-only", False)])) == "world"


def test_one_rank_on_each_host_of_a_rack_is_data_parallel_and_not_tensor() -> None:
    # 64 GPUs on 16 trays of one NVLink domain: NCCL says one node of each communicator.
    world, tray, across = (
        Shape(64, "nvlink-only", False, 16, 64), Shape(4, "nvlink-only", False, 1, 4),
        Shape(16, "nvlink-only", False, 16, 16),
    )  # fmt: skip
    two_trays = Shape(8, "nvlink-only", False, 2, 8)
    launch = [world, *[tray] * 16, *[across] * 4, two_trays]
    assert [role_by_shape(shape, Launch(launch)) for shape in (world, tray, across, two_trays)] == [
        "world", "tensor", "data", None,
    ]  # fmt: skip
    # Where none stays on a host, one GPU on each may be either.
    assert role_by_shape(across, Launch([world, across, across])) is None


def group(name: str | None, members: Iterable[tuple[str, int]], n_ranks: int | None = None) -> Group:
    processes = frozenset(members)
    hosts = len({host for host, _ in processes})
    size = n_ranks or len(processes)
    kind = "nvlink-only" if hosts == 1 else "nic-only" if hosts == len(processes) else "mixed"
    return Group(name, Shape(size, kind, False, hosts, len(processes)), frozenset(processes))


ALL = [(host, pid) for host in "abcd" for pid in range(4)]
HOSTS = [[(host, pid) for pid in range(4)] for host in "abcd"]
RAILS = [[(host, pid) for host in "abcd"] for pid in range(4)]


def told(*groups: Group) -> list[str | None]:
    return [role for role, _ in roles(groups)]


def test_a_name_that_fits_tells() -> None:
    groups = [group("default_pg", ALL), *(group("mesh_tp", host) for host in HOSTS)]
    assert roles(groups) == [("world", "name"), *[("tensor", "name")] * 4]


@pytest.mark.parametrize("name", ["default_pg:0", "TENSOR_MODEL_PARALLEL_GROUP", "mesh_pp"])
def test_a_child_of_a_split_has_its_parents_name_and_the_role_of_its_shape(name: str) -> None:
    groups = [group(name, ALL), *(group(name, host) for host in HOSTS), *(group(name, rail) for rail in RAILS)]
    assert told(*groups)[1:] == ["tensor"] * 4 + ["data"] * 4


def test_a_world_that_is_smaller_than_the_job_is_none() -> None:
    # The true one wrote no record.
    groups = [*(group("world", host) for host in HOSTS), *(group("mesh_dp", rail) for rail in RAILS)]
    assert told(*groups) == ["tensor"] * 4 + ["data"] * 4


def test_replicas_that_share_no_process_have_a_world_each() -> None:
    replicas = [[*HOSTS[0], *HOSTS[1]], [*HOSTS[2], *HOSTS[3]]]
    assert told(*(group("world", replica) for replica in replicas)) == ["world", "world"]


def test_a_world_is_known_by_its_size_where_logs_are_missing() -> None:
    assert told(group("world", ALL[:12], n_ranks=16), group("mesh_tp", HOSTS[0])) == ["world", "tensor"]


def test_names_of_axes_that_cross_in_more_than_one_rank_are_not_believed() -> None:
    # Both are said to hold all GPUs of a host; the shapes are as good as nothing else.
    groups = [group("mesh_tp", HOSTS[0]), group("mesh_dp", HOSTS[0]), group("default_pg", ALL)]
    assert roles(groups) == [("tensor", "shape"), ("tensor", "shape"), ("world", "name")]


def test_context_parallelism_may_lie_within_data_or_tensor_parallelism() -> None:
    groups = [group("DATA_PARALLEL_GROUP_WITH_CP", RAILS[0]), group("CONTEXT_PARALLEL_GROUP", RAILS[0][:2])]
    assert told(*groups) == ["data", "context"]


def test_what_spans_several_axes_is_not_guessed_from_its_shape() -> None:
    assert told(group("default_pg", ALL), group("tp-cp-dp", HOSTS[0])) == ["world", None]
