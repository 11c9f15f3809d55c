"""Communicators, processes and global ranks, from who wrote what."""

from pathlib import Path

from nixt_pipeline.settings import Settings
from nixt_pipeline_tests.records import collective, write_log
from nixt_pipeline_tests.store.examples import query, take_in


def test_dimension_tables_say_who_wrote_what(tmp_path: Path, settings: Settings) -> None:
    for pid in (1, 2):
        world = collective(comm="0xf", name="WORLD Group 0", rank=pid - 1, n_ranks=2, nnodes=1, pid=pid)
        write_log(tmp_path / "in" / f"a-pid{pid}.log", world, collective(comm="0x1", rank=pid, n_ranks=4, pid=pid))
    take_in(tmp_path / "in", settings)
    assert query(
        settings, "SELECT id, ranks_seen, n_ranks, parallel_role, parallel_role_source FROM communicators ORDER BY id"
    ) == [
        ("0x1", 2, 4, "tensor", "name"),
        ("0xf", 2, 2, "world", "name"),
    ]
    assert query(settings, "SELECT pid, global_rank, communicators, records FROM processes ORDER BY pid") == [
        (1, 0, 2, 2),
        (2, 1, 2, 2),
    ]


def test_the_global_rank_is_the_order_of_most_communicators_whatever_they_are_called(
    tmp_path: Path, settings: Settings
) -> None:
    # A child of a split in reverse order has its parent's name and the lowest id.
    for pid in (1, 2):
        lines = [
            collective(comm="0xf", name="default_pg", rank=pid - 1, n_ranks=2, pid=pid),
            collective(comm="0xe", name="mesh_dp", rank=pid - 1, n_ranks=2, pid=pid),
            collective(comm="0x1", name="default_pg", rank=2 - pid, n_ranks=2, pid=pid),
        ]
        write_log(tmp_path / "in" / f"a-pid{pid}.log", *lines)
    take_in(tmp_path / "in", settings)
    assert query(settings, "SELECT pid, global_rank FROM processes ORDER BY pid") == [(1, 0), (2, 1)]
