"""What the second simulation's plugin writes, and what is true of the jobs that it was written for."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from evaluation.independent.__main__ import tasks
from evaluation.independent.clocks import EPOCH_US, Clock
from evaluation.independent.data_parallel import Ddp, Fsdp
from evaluation.independent.faults import Fault
from evaluation.independent.jobs import Attempt, Job, write_job
from evaluation.independent.kinds import KINDS, draw_job
from evaluation.independent.launch import Launch, Workload, run
from evaluation.independent.machines import Cluster, Communicators, Gpu
from evaluation.independent.megatron import Megatron, Passes
from evaluation.independent.mixture import Exchange, Mixture, Routing
from evaluation.independent.pace import Habits
from evaluation.independent.plugin import Plugin, log_files
from evaluation.independent.records import Completed, line
from evaluation.independent.streams import Part
from nixt_pipeline.api import ingest_run
from nixt_pipeline.settings import load_settings

CLUSTER = Cluster(tuple(Gpu(rank, f"host-{rank // 2}", 100 + rank, rank % 2, rank // 2) for rank in range(4)))
MADE = Communicators(CLUSTER, 1, {"world": "WORLD {n}"})
WORLD, PAIR = MADE.make("world", [0, 1, 2, 3]), MADE.make("pair", [0, 2])
CLOCKS = {"host-0": Clock(), "host-1": Clock(offset_us=5e6)}


def ddp(make: Communicators) -> Workload:
    """Computing for 30 ms a step, and two buckets of 8 MB."""
    return Ddp(make.make("world", make.ranks), (1 << 23, 1 << 23), 10e3, 20e3, loss_every=1)


def small_job(*faults: Fault, workload: Callable[[Communicators], Workload] = ddp, plugin: Plugin | None = None) -> Job:
    """Twelve steps of four GPUs on two hosts."""
    launch = Launch(
        cluster=CLUSTER,
        workload=workload,
        steps=12,
        seed=11,
        nvlink_gbs=200.0,
        nic_gbs=20.0,
        names={},
        habits=Habits(),
    )
    return Job("small", 11, "ddp", (Attempt(launch, faults),), plugin or Plugin(interval_us=10e3), CLOCKS, sleeps=True)


def at(end_us: float, sn: int, part: Part | None = None, lost_us: float = 1e9) -> Completed:
    return Completed(CLUSTER.gpus[0], part or Part(WORLD, "AllReduce", 1 << 20), sn, 100, end_us, lost_us)


def numbers(records: list[Completed], plugin: Plugin) -> list[tuple[str, int]]:
    """Communicator and number of what rank 0's log holds, in its order."""
    content = log_files(records, ["host-0-pid100"], plugin, CLOCKS, seed=5)["host-0-pid100.log"]
    lines = [json.loads(text) for text in content.splitlines()]
    return [(entry["header"]["id"], (entry.get("coll_perf") or entry["p2p_perf"]).get("coll_sn")) for entry in lines]


def test_a_line_is_the_line_that_the_plugin_wrote() -> None:
    # A record of the released plugin (2.30.7): 32 MiB in 160 us on 2 ranks.
    written = (
        '{"header":{"id":"' + PAIR.id + '","comm_name":"unknown","rank":0,"n_ranks":2,"nnodes":2},'
        '"metadata":{"inspector_output_format_version":"v4.0","git_rev":"v2.30.7-1",'
        '"rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":1795955856989375,'
        '"hostname":"host-0","pid":100},"coll_perf":{"coll":"AllReduce","coll_sn":0,'
        '"coll_msg_size_bytes":33554432,"coll_exec_time_us":160,"coll_timing_source":"kernel_gpu",'
        '"coll_algobw_gbs":209.715200,"coll_busbw_gbs":209.715200}}\n'
    )
    record = at(0.0, 0, Part(PAIR, "AllReduce", 33554432))._replace(exec_us=160)
    assert line(record, 1795955856989375, named=True) == written
    older = written.replace('"comm_name":"unknown",', "").replace("v2.30.7-1", "")
    assert line(record, 1795955856989375, named=False) == older


def test_a_send_names_its_peer_by_the_rank_in_the_communicator() -> None:
    text = line(at(0.0, 3, Part(PAIR, "Send", 17331200, 2))._replace(exec_us=61), 0, named=True)
    perf = json.loads(text)["p2p_perf"]
    assert (perf["p2p"], perf["p2p_sn"], perf["p2p_peer"], perf["p2p_busbw_gbs"]) == ("Send", 3, 1, 284.118033)


def test_a_ring_keeps_the_latest_between_two_passes() -> None:
    # Passes are 1000 us apart: three operations fall between two of them wherever they begin, the fourth is alone.
    records = [at(5000.0 + number, number) for number in range(3)] + [at(9000.0, 3)]
    assert [sn for _, sn in numbers(records, Plugin(ring=2, interval_us=1000.0))] == [1, 2, 3]
    assert [sn for _, sn in numbers(records, Plugin(ring=1, interval_us=1000.0))] == [2, 3]


def test_a_pass_writes_the_newest_communicator_first() -> None:
    records = [at(5000.0, 0), at(5000.1, 0, Part(PAIR, "AllReduce", 1 << 20))]
    assert [name for name, _ in numbers(records, Plugin(interval_us=1000.0))] == [PAIR.id, WORLD.id]


def test_what_no_pass_came_for_before_the_end_is_lost() -> None:
    records = [at(5000.0, 0, lost_us=1e9), at(5000.0, 1, lost_us=5000.0)]
    assert [sn for _, sn in numbers(records, Plugin(interval_us=1000.0))] == [0]


def test_a_clock_drifts_and_is_set() -> None:
    clock = Clock(offset_us=100.0, drift=1e-3, stepped_at_us=2000.0, step_us=-50.0)
    assert [clock.unix_us(time_us) - EPOCH_US for time_us in (0.0, 1000.0, 2000.0)] == [100, 1101, 2052]


def test_small_operations_count_and_are_not_recorded(tmp_path: Path) -> None:
    write_job(small_job(plugin=Plugin(ring=1, interval_us=100.0)), tmp_path / "slots")
    write_job(small_job(), tmp_path / "rings")
    slots, rings = ((tmp_path / name / "nccl-inspector-910011" / "host-0-pid100.log") for name in ("slots", "rings"))
    assert '"comm_name"' not in slots.read_text() and '"comm_name"' in rings.read_text()
    # Three AllReduces in each of 12 steps, the loss (16 kB) among them.
    sns = [json.loads(text)["coll_perf"]["coll_sn"] for text in rings.read_text().splitlines()]
    assert sns == list(range(36))


def test_equal_seeds_give_equal_bytes_and_others_do_not(tmp_path: Path) -> None:
    kind = "late-every-nth-step"
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        write_job(draw_job(kind, seed), tmp_path / name)
    bytes_of = {
        name: {path.name: path.read_bytes() for path in sorted((tmp_path / name).rglob("*")) if path.is_file()}
        for name in "abc"
    }
    assert bytes_of["a"] == bytes_of["b"]
    assert bytes_of["a"] != bytes_of["c"]


EXPERTS = Exchange(1 << 20, 4e3, 4e3, expert_gradient_bytes=1 << 22, dense_gradient_bytes=1 << 22, grouped=True)
PASSES = Passes(4, 1, 1, 2e3, 0.1, True, 1 << 22, 1 << 20, buckets=2, bucket_bytes=1 << 20, embedding_bytes=1 << 20)


@pytest.mark.parametrize(
    ("workload", "ring"),
    [
        (ddp, 1),
        (ddp, 1024),
        (lambda make: Mixture.over(make, [[0, 1], [2, 3]], Routing(2, 1, 5, drifts=True), EXPERTS), 1024),
        (lambda make: Megatron.over(make, 1, 2, 2, PASSES), 1024),
        (lambda make: Fsdp.over(make, [[0, 1], [2, 3]], 2, 1 << 20, 3e3), 1024),
    ],
    ids=["ddp, slots", "ddp", "experts", "pipeline", "hybrid"],
)
def test_every_line_is_a_record_to_the_decoder(
    tmp_path: Path, workload: Callable[[Communicators], Workload], ring: int
) -> None:
    job = small_job(workload=workload, plugin=Plugin(ring=ring, interval_us=10e3))
    truth = write_job(job, tmp_path / "job")
    settings = load_settings(data_dir=tmp_path / "data", landing_dir=tmp_path, reports_dir=tmp_path, workers=1)
    summary = ingest_run(tmp_path / "job" / "nccl-inspector-910011", settings).to_json()
    assert summary["rejected_lines"] == summary["foreign_lines"] == 0
    assert summary["records"]["stored"] == truth["records"] > 0
    sends = any(b'"p2p_perf"' in path.read_bytes() for path in (tmp_path / "job").rglob("*.log"))
    assert sends is (summary["records"]["p2p"] > 0)


def test_seeds_take_the_kinds_in_turn() -> None:
    assert tasks(range(1, 4), "slow-p") == [("slow-path", 1), ("slow-path", 2), ("slow-path", 3)]
    assert [kind for kind, _ in tasks(range(2), "")] == ["late-gpu", "late-host"]
    with pytest.raises(SystemExit, match="no kind contains 'nobody'"):
        tasks(range(1), "nobody")


def test_the_cost_is_the_difference_to_the_twin(tmp_path: Path) -> None:
    late = Fault("late", frozenset({1}), 4, 12, strength=1.5)
    job = small_job(late)
    truth = write_job(job, tmp_path / "job")
    launch = job.attempts[0].launch
    wall_us, twin_us = run(launch, (late,)).wall_us, run(launch).wall_us
    (fault,) = truth["faults"]
    assert fault["cost_share"] == pytest.approx((wall_us - twin_us) / wall_us, abs=1e-4)
    # It computes for 30 ms a step, 10 us a bucket aside, and is 1.5 times as slow in 8 of 12 steps: 120 ms, of which
    # 1 % of difference between GPUs may be hidden.
    assert wall_us - twin_us == pytest.approx(8 * 15e3, rel=0.08)
    lasting_us = wall_us - run(launch, (late,)).begins_us(late.ranks, 4)
    assert fault["cost_share_since_onset"] == pytest.approx((wall_us - twin_us) / lasting_us, abs=1e-4)
    assert (fault["ranks"], fault["processes"], fault["ideal"]["level"]) == ([1], ["host-0-pid101"], "exact")


def test_a_slow_card_in_a_job_with_one_communicator_may_be_anybodys(tmp_path: Path) -> None:
    slow = Fault("link", frozenset({2}), 2, 12, strength=3.0, link="nic")
    (fault,) = write_job(small_job(slow), tmp_path / "job")["faults"]
    assert fault["ideal"]["level"] == "run"


def test_a_dead_process_leaves_a_log_that_ends_first(tmp_path: Path) -> None:
    dead = Fault("dead", frozenset({3}), 6, 12, family="world", ordinal=1)
    truth = write_job(small_job(dead, plugin=Plugin(interval_us=1e6)), tmp_path / "job")
    logs = sorted((tmp_path / "job").rglob("*.log"))
    counts = [len(path.read_text().splitlines()) for path in logs]
    # Six steps of three collectives, and one of the seventh. All of it takes less than the second between two passes of
    # the dump thread, so that the dead process lived to see one at most.
    assert counts[:3] == [19] * 3
    assert counts[3] < 19
    assert truth["faults"][0]["cost_share"] is None


@pytest.mark.parametrize(("ordinal", "level"), [(0, "none"), (1, "run")])
def test_a_hang_between_two_steps_looks_like_the_end(tmp_path: Path, ordinal: int, level: str) -> None:
    hang = Fault("hang", frozenset({3}), 6, 12, family="world", ordinal=ordinal)
    (fault,) = write_job(small_job(hang), tmp_path / "job")["faults"]
    assert (fault["ideal"]["level"], fault["before"]) == (level, ["world", ordinal, 6])


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_can_be_drawn(kind: str) -> None:
    job = draw_job(kind, 1)
    faults = [fault for attempt in job.attempts for fault in attempt.faults]
    assert bool(faults) is not kind.startswith("healthy")
    assert job.name == f"{kind}-1"
