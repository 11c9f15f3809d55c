"""The simulation's physics, on jobs small enough to reason about, and what its recorders keep of them."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evaluation import faults, hangs
from evaluation.faulty_job import FaultyJob
from evaluation.labelled_jobs import Recording, Scenario, Shape, write_labelled_job
from evaluation.scenarios import SCENARIOS
from nixt_pipeline.simulation.job import EPOCH_US, LINK_GBS, WRITE_US, Job, Member, Record, Recorder, Workload

TWO_BY_TWO = Shape(hosts=2, gpus_per_host=2, tensor_size=2, stages=1)
FOUR_HOSTS = Shape(hosts=4, gpus_per_host=2, tensor_size=2, stages=2)
STEP = Workload(microbatches=1, layers=1, gradient_bucket_bytes=(10_000_000,))
MEMBER = Member("0xab", "WORLD Group 0", 0, 2, 2, "node-01", 20_000)

JsonRecord = dict[str, dict[str, Any]]


def small_job(workload: Workload = STEP, **arguments: Any) -> Job:
    """Two hosts with two GPUs each; tensor parallel inside a host, data parallel across."""
    return Job(("a", "b"), 2, 2, 1, 0, workload, **arguments)


def records_of(job: Job, function: str, name: str) -> list[list[Record]]:
    """The records of each collective of the communicators called `name`, in order."""
    collectives = defaultdict(list)
    for records in job.records:
        for record in records:
            if record.function == function and (record.member.comm_name or "").startswith(name):
                collectives[record.member.comm_id, record.sn].append(record)
    return list(collectives.values())


def read(directory: Path) -> list[JsonRecord]:
    return [json.loads(line) for path in sorted(directory.glob("*.log")) for line in path.read_text().splitlines()]


def body(record: JsonRecord) -> dict[str, Any]:
    return record.get("coll_perf") or record["p2p_perf"]


def scenario(*planted: tuple[type[faults.Plant], float], shape: Shape = FOUR_HOSTS, **changes: Any) -> Scenario:
    return Scenario("a small job", shape, STEP, 20, planted, **changes)


# ---- physics


def test_the_last_rank_to_arrive_has_the_shortest_time_and_the_others_waited_for_it() -> None:
    job = small_job()
    job.clock[:] = [0, 700, 200, 5_000]
    job.collective(job.world, "AllReduce", 16_384)
    times = [records[0].exec_us for records in job.records]
    # All leave together, so times differ by exactly the arrivals, give or take the start of a kernel (some 3 us).
    assert np.argmin(times) == 3
    assert times[0] - times[3] == pytest.approx(5_000, abs=25)
    assert times[1] - times[3] == pytest.approx(4_300, abs=25)
    assert len({records[0].end_us for records in job.records}) == 1


def test_one_slow_link_slows_every_rank_of_its_communicator_and_no_other_communicator() -> None:
    job = small_job()
    job.network[0] = 1 / 4  # rank 0 is in DP group 0 with rank 2; ranks 1 and 3 are group 1
    job.collective(job.data, "ReduceScatter", 42_000_000)
    times = [records[0].exec_us for records in job.records]
    # 42 MB at 42 GB/s take 1 ms, at a quarter of it 4 ms; 25 us latency, noise of 2 %, which only slows.
    assert times[1] == pytest.approx(1_025, rel=0.1)
    assert times[3] == pytest.approx(1_025, rel=0.1)
    assert times[0] == pytest.approx(4_025, rel=0.1)
    assert times[2] == pytest.approx(4_025, rel=0.1)


def test_a_slow_nvlink_does_not_touch_the_network() -> None:
    job = small_job()
    job.nvlink[:2] = 1 / 10
    for comms in (job.tensor, job.data):
        job.collective(comms, "AllGather", 32_000_000)
    tensor_us = [records[0].exec_us for records in job.records]
    data_us = [records[1].exec_us for records in job.records]
    assert tensor_us[0] > 8 * tensor_us[2]
    # The hosts meet in the data-parallel group: the late one, which had the slow link, needs the transfer alone.
    assert data_us[0] == pytest.approx(32_000_000 / LINK_GBS["network"] / 1e3, rel=0.15)


def test_a_receiver_waits_for_its_sender_and_the_sender_does_not_wait_afterwards() -> None:
    job = Job(("a", "b"), 1, 1, 2, 0, STEP)
    job.clock[:] = [3_000, 0]
    job.send(0, 1)
    sent, received = job.records[0][0], job.records[1][0]
    assert (sent.function, sent.peer, received.function, received.peer) == ("Send", 1, "Recv", 0)
    assert received.exec_us - sent.exec_us == pytest.approx(3_000, abs=25)
    assert job.clock[0] == 3_000
    assert job.clock[1] == received.end_us


def test_all_ranks_share_the_sequence_numbers_which_count_from_zero_per_communicator_and_function() -> None:
    job = small_job(Workload(microbatches=2, layers=1))
    job.step()
    job.step()
    # Two steps, two microbatches, forward and backward: eight AllGathers in each tensor-parallel group.
    seen = defaultdict(list)
    for records in job.records:
        for record in records:
            if record.function == "AllGather" and (record.member.comm_name or "").startswith("TP"):
                seen[record.member.comm_id, record.member.rank].append(record.sn)
    assert len(seen) == 4
    assert all(numbers == list(range(8)) for numbers in seen.values())
    # Every rank tells the same size of the same collective.
    assert {len({record.size for record in records}) for records in records_of(job, "ReduceScatter", "DP")} == {1}


def test_bandwidths_are_the_formulas_of_size_ranks_and_time(tmp_path: Path) -> None:
    write_labelled_job(tmp_path, scenario(), 0)
    # Traffic per record in message sizes, then the bus factor, for two ranks and for eight.
    formulas = {
        ("AllGather", 2): (2, 1 / 2),
        ("ReduceScatter", 2): (2, 1 / 2),
        ("AllReduce", 8): (1, 2 * 7 / 8),
        ("Send", 2): (1, 1),
        ("Recv", 2): (1, 1),
    }
    kinds = set()
    for record in read(tmp_path):
        kind = "coll" if "coll_perf" in record else "p2p"
        values = {key.removeprefix(f"{kind}_"): value for key, value in body(record).items()}
        key = (values[kind], record["header"]["n_ranks"])
        traffic, factor = formulas[key]
        algobw = values["msg_size_bytes"] * traffic / values["exec_time_us"] / 1e3
        assert values["algobw_gbs"] == pytest.approx(algobw, abs=1e-6)
        assert values["busbw_gbs"] == pytest.approx(algobw * factor, abs=1e-6)
        kinds.add(key)
    assert kinds == set(formulas)


def test_a_rank_that_hangs_stops_its_communicator_first_and_then_everything() -> None:
    job = FaultyJob(("a", "b"), 2, 2, 1, 0, STEP, "given", True)
    job.step()
    job.hanging = (job.data, 0)
    job.step()
    # Rank 0 is in DP group 0 with rank 2: neither completes its second ReduceScatter, ranks 1 and 3 do.
    last = [max(record.sn for record in records if record.function == "ReduceScatter" and
                (record.member.comm_name or "").startswith("DP")) for records in job.records]  # fmt: skip
    assert last == [0, 1, 0, 1]
    # Nobody completes the loss of the second step.
    assert [sum(record.function == "AllReduce" for record in records) for records in job.records] == [1, 1, 1, 1]


def test_a_rank_that_hangs_in_one_family_has_completed_everything_before_in_the_others() -> None:
    job = FaultyJob(("a", "b"), 2, 2, 2, 0, STEP, "given", True)
    job.step()
    job.hanging = (job.tensor, 2)  # on the second stage
    job.step()
    # The second step's activations arrived, its tensor-parallel AllGather never began.
    done = Counter(record.function for record in job.records[2])
    assert (done["Recv"], done["Send"], done["AllGather"]) == (2, 1, 2)
    # The first stage completed the AllGather of its forward pass and waits for gradients.
    assert Counter(record.function for record in job.records[0])["AllGather"] == 3


# ---- what is recorded


def record(end_us: float, sn: int, peer: int | None = None) -> Record:
    return Record(MEMBER, "Send" if peer is not None else "AllReduce", sn, peer, 1_000_000, 100, end_us)


def sequence_numbers(log: str) -> list[int]:
    return [json.loads(line)["coll_perf"]["coll_sn"] for line in log.splitlines()]


def test_a_ring_keeps_the_newest_records_of_each_dump_pass() -> None:
    recorder = Recorder(phase_us=0, interval_us=1_000, capacity=2)
    # The first pass, at 1 ms, finds 0, 1, 2 and keeps two of them; the second, at 2 ms, finds 3.
    log, count = recorder.log([record(100, 0), record(200, 1), record(300, 2), record(1_500, 3)])
    assert sequence_numbers(log) == [1, 2, 3]
    assert count == 3


def test_collectives_and_p2p_have_a_ring_each() -> None:
    _, count = Recorder(phase_us=0, interval_us=1_000, capacity=1).log([record(100, 0), record(200, 1, peer=1)])
    assert count == 2


def test_a_record_is_stamped_when_it_is_written_by_its_hosts_clock() -> None:
    recorder = Recorder(phase_us=250, interval_us=1_000_000, clock_offset_us=-40.0, clock_drift_ppm=100.0)
    log, _ = recorder.log([record(100, 0), record(2_500_000, 1), record(2_600_000, 2)])
    stamps = [json.loads(line)["metadata"]["dump_timestamp_us"] for line in log.splitlines()]
    # The passes are at 250 us and at 3,000,250 us, when the clock has gained 300 us.
    assert stamps == [EPOCH_US + 210, EPOCH_US + 3_000_510, EPOCH_US + 3_000_510 + WRITE_US]


def test_a_plugin_of_2_28_writes_no_name_and_no_p2p(tmp_path: Path) -> None:
    write_labelled_job(tmp_path, scenario(recording=Recording(names="absent", p2p=False, capacity=1)), 0)
    records = read(tmp_path)
    assert {tuple(record["header"]) for record in records} == {("id", "rank", "n_ranks", "nnodes")}
    assert {record["metadata"]["git_rev"] for record in records} == {"v2.28.9-1"}
    assert not any("p2p_perf" in record for record in records)


@pytest.mark.parametrize("loss", [0.1, 0.6])
def test_a_job_with_random_losses_loses_that_share(tmp_path: Path, loss: float) -> None:
    label = write_labelled_job(tmp_path, scenario(recording=Recording(random_loss=loss)), 0)
    # 8 ranks x 20 steps x (4 TP + 2 DP + 1 WORLD + 2 P2P) = 1440 operations: the share's deviation is below 0.013.
    assert (label.operations, label.records) == (1_440, len(read(tmp_path)))
    assert label.loss == pytest.approx(loss, abs=0.04)


def test_the_slot_of_2_28_keeps_one_operation_of_a_communicator_in_each_interval(tmp_path: Path) -> None:
    recording = Recording(names="absent", p2p=False, capacity=1, dump_interval_us=50_000)
    write_labelled_job(tmp_path, scenario(recording=recording), 0)
    passes = Counter(
        (record["header"]["id"], record["header"]["rank"], record["metadata"]["dump_timestamp_us"] // 25_000)
        for record in read(tmp_path)
    )
    assert set(passes.values()) == {1}


# ---- labels


def test_the_same_seed_gives_the_same_job_and_another_seed_another(tmp_path: Path) -> None:
    first = write_labelled_job(tmp_path / "first", scenario((faults.SlowGpu, 2)), 1)
    again = write_labelled_job(tmp_path / "again", scenario((faults.SlowGpu, 2)), 1)
    other = write_labelled_job(tmp_path / "other", scenario((faults.SlowGpu, 2)), 2)
    assert first == again != other
    assert read(tmp_path / "first") == read(tmp_path / "again")


def test_a_slow_gpu_is_the_last_to_arrive_from_its_onset_on(tmp_path: Path) -> None:
    label = write_labelled_job(tmp_path, scenario((faults.SlowGpu, 2)), 0)
    (fault,) = label.faults
    assert (fault.kind, fault.level, fault.exact, fault.strength) == ("late-arrival", "rank", True, "2x")
    times: defaultdict[tuple[str, int], dict[str, int]] = defaultdict(dict)
    for record in read(tmp_path):
        if record["header"]["comm_name"].startswith("TP") and body(record)["coll"] == "AllGather":
            process = f"{record['metadata']['hostname']}-pid{record['metadata']['pid']}"
            times[record["header"]["id"], body(record)["coll_sn"]][process] = body(record)["coll_exec_time_us"]
    shortest = [min(cell, key=cell.__getitem__) for (_, sn), cell in times.items()
                if fault.processes[0] in cell and sn >= 30]  # fmt: skip
    # 20 steps of two AllGathers; the fault is there from step 11 at the latest.
    assert shortest == [fault.processes[0]] * 10


def test_without_pipelines_a_slow_network_card_looks_the_same_on_every_host(tmp_path: Path) -> None:
    flat = Shape(hosts=4, gpus_per_host=2, tensor_size=2, stages=1)
    label = write_labelled_job(tmp_path, scenario((faults.SlowNicHost, 2), shape=flat), 0)
    (fault,) = label.faults
    assert fault.candidates == label.hosts
    assert not fault.exact


def test_pipelines_tell_which_network_card_is_slow_unless_send_and_recv_are_not_recorded(tmp_path: Path) -> None:
    # Hosts 0 and 1 are a stage, 2 and 3 the other; pipelines connect 0 with 2 and 1 with 3. The rings alone leave two
    # hosts, and so do the edges alone; both together leave one.
    (seen,) = write_labelled_job(tmp_path / "seen", scenario((faults.SlowNicHost, 2)), 0).faults
    recording = Recording(names="absent", p2p=False)
    label = write_labelled_job(tmp_path / "unseen", scenario((faults.SlowNicHost, 2), recording=recording), 0)
    (unseen,) = label.faults
    assert (seen.exact, seen.candidates) == (True, seen.hosts)
    stage = label.hosts[:2] if unseen.hosts[0] in label.hosts[:2] else label.hosts[2:]
    assert (unseen.exact, unseen.candidates) == (False, stage)


def test_a_process_that_falls_silent_ends_before_the_others(tmp_path: Path) -> None:
    label = write_labelled_job(tmp_path, scenario((faults.ProcessSilent, 0)), 0)
    (process,) = label.faults[0].processes
    counts = {path.stem: len(path.read_text().splitlines()) for path in tmp_path.iterdir()}
    assert counts[process] < 0.6 * max(counts.values())
    assert len(set(counts.values()) - {counts[process]}) == 1


def test_a_fault_from_the_start_is_there_in_the_first_step(tmp_path: Path) -> None:
    label = write_labelled_job(tmp_path, scenario((faults.SlowComputeHost, 2), from_start=True), 0)
    assert label.faults[0].onset_us == EPOCH_US


def test_the_cost_of_a_fault_is_the_time_that_the_job_would_have_saved(tmp_path: Path) -> None:
    label = write_labelled_job(tmp_path / "slow", scenario((faults.SlowComputeHost, 2), from_start=True), 0)
    # A step takes 10 ms forward and 10 ms backward on each of two stages, and 15.6 ms on all: 55.6 ms. One slow stage
    # makes that 20 + 40 + 31.2 = 91.2 ms. Transfers add a little to both.
    assert label.cost_share == pytest.approx(35.6 / 91.2, abs=0.02)
    assert write_labelled_job(tmp_path / "healthy", scenario(), 0).cost_share == 0
    assert write_labelled_job(tmp_path / "hang", scenario((hangs.HangData, 0)), 0).cost_share == pytest.approx(1)


def test_two_faults_never_share_a_host() -> None:
    planted = [faults.SlowGpu, faults.SlowComputeHost, faults.SlowNicHost, faults.ClockSkew]
    job = FaultyJob(tuple("abcd"), 1, 1, 1, 0, STEP, "given", True)
    random = np.random.default_rng(0)
    assert sorted(plant(job, 2, 10, random).host for plant in planted) == [0, 1, 2, 3]


def test_the_catalogue_has_every_fault_and_each_scenario_a_name_of_its_own() -> None:
    planted = {plant for listed in SCENARIOS.values() for plant, _ in listed.faults}
    assert planted == {
        faults.SlowGpu,
        faults.SlowComputeHost,
        faults.IntermittentLateness,
        faults.HesitatingSteps,
        faults.SlowNicHost,
        faults.SlowRail,
        faults.SlowNvlinkHost,
        faults.ComputeDecay,
        faults.NicDecay,
        faults.FabricWindow,
        faults.SlowFabric,
        hangs.HangTensor,
        hangs.HangData,
        hangs.HangPipeline,
        faults.ProcessSilent,
        faults.ClockSkew,
    }
    assert all(name == listed.name for name, listed in SCENARIOS.items())
    assert len(SCENARIOS) == 110  # a name that is used twice would be listed once
