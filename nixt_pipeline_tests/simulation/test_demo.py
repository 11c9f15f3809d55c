"""The synthetic job: the plugin's bytes, the planned records, and physics that makes the late host look fast."""

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import mean

import pytest

from nixt_pipeline.simulation.demo import DEMO_JOBS, write_demo_job
from nixt_pipeline.simulation.job import EPOCH_US, Member, Record, format_record

TENSOR_RANK = Member("0xab", "TP Group 0", 1, 4, 1, "node-01", 20001)
PIPELINE_RANK = Member("0xcd", "PP Group 7", 0, 2, 2, "node-01", 20007)


def read_records(directory: Path) -> list[dict[str, dict[str, str | int | float]]]:
    return [json.loads(line) for path in sorted(directory.glob("*.log")) for line in path.read_text().splitlines()]


def mean_time_us_by_host(directory: Path, communicator: str, coll: str, first_sn: int) -> dict[str, float]:
    times = defaultdict(list)
    for record in read_records(directory):
        body = record.get("coll_perf", {})
        wanted = str(record["header"]["comm_name"]).startswith(communicator) and body.get("coll") == coll
        if wanted and int(body["coll_sn"]) >= first_sn:
            times[str(record["metadata"]["hostname"])].append(float(body["coll_exec_time_us"]))
    return {host: mean(values) for host, values in times.items()}


def test_a_collective_is_written_as_the_plugin_writes_it() -> None:
    # AllGather traffic is 1,000,000 B x 4 ranks in 500 us = 8 GB/s; the bus carries 3/4 of it.
    assert format_record(Record(TENSOR_RANK, "AllGather", 7, None, 1_000_000, 500, 0), 1756587600100000) == (
        '{"header":{"id":"0xab","comm_name":"TP Group 0","rank":1,"n_ranks":4,"nnodes":1},'
        '"metadata":{"inspector_output_format_version":"v4.0","git_rev":"v2.30.7-1",'
        '"rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":1756587600100000,'
        '"hostname":"node-01","pid":20001},'
        '"coll_perf":{"coll":"AllGather","coll_sn":7,"coll_msg_size_bytes":1000000,"coll_exec_time_us":500,'
        '"coll_timing_source":"kernel_gpu","coll_algobw_gbs":8.000000,"coll_busbw_gbs":6.000000}}\n'
    )


def test_an_all_reduce_counts_the_message_once_and_the_bus_twice() -> None:
    # 1,000,000 B in 500 us = 2 GB/s; a ring of 4 carries 2 x 3/4 of it.
    line = format_record(Record(TENSOR_RANK, "AllReduce", 0, None, 1_000_000, 500, 0), EPOCH_US)
    assert '"coll_algobw_gbs":2.000000,"coll_busbw_gbs":3.000000' in line


def test_a_p2p_record_has_its_own_keys_and_a_peer() -> None:
    # 1,000,000 B in 3 us = 333.333... GB/s, six decimals.
    line = format_record(Record(PIPELINE_RANK, "Send", 1, 1, 1_000_000, 3, 0), EPOCH_US)
    assert line.endswith(
        '"p2p_perf":{"p2p":"Send","p2p_sn":1,"p2p_peer":1,"p2p_msg_size_bytes":1000000,"p2p_exec_time_us":3,'
        '"p2p_timing_source":"kernel_gpu","p2p_algobw_gbs":333.333333,"p2p_busbw_gbs":333.333333}}\n'
    )


def test_an_operation_without_time_has_no_bandwidth() -> None:
    line = format_record(Record(TENSOR_RANK, "AllGather", 0, None, 1_000_000, 0, 0), EPOCH_US)
    assert '"coll_exec_time_us":0,' in line
    assert '"coll_algobw_gbs":0.000000,"coll_busbw_gbs":0.000000' in line


def test_every_rank_writes_one_log_with_the_planned_number_of_records(tmp_path: Path) -> None:
    job = write_demo_job(tmp_path, hosts=2, gpus_per_host=2, steps=3)
    # Per rank and step, tensor parallel: 4 microbatches x forward and backward x 2 layers x (AllGather + ReduceScatter)
    # = 32; one WORLD AllReduce; nothing data parallel, for a stage is one host. P2P: 4 activations and 4 gradients.
    assert (job.files, job.collective_records, job.p2p_records) == (4, 4 * 3 * 33, 4 * 3 * 8)
    logs = sorted(tmp_path.iterdir())
    assert [path.name for path in logs] == [
        "node-01-pid20000.log",
        "node-01-pid20001.log",
        "node-02-pid20002.log",
        "node-02-pid20003.log",
    ]
    assert job.bytes == sum(path.stat().st_size for path in logs)
    assert len(read_records(tmp_path)) == job.records == 4 * 3 * 41


def test_the_default_job_is_the_documented_one(tmp_path: Path) -> None:
    job = write_demo_job(tmp_path)
    # 32 ranks x 40 steps x (32 tensor parallel + 6 data parallel + 1 WORLD + 8 P2P)
    assert (job.files, job.records) == (32, 60_160)
    assert job.fault == "computation on node-02 takes 1.6 times as long from step 20 of 40 on"


def test_sequence_numbers_count_per_communicator_and_function(tmp_path: Path) -> None:
    write_demo_job(tmp_path, hosts=2, gpus_per_host=2, steps=2)
    numbers = defaultdict(list)
    for record in read_records(tmp_path):
        header, body = record["header"], record.get("coll_perf", {})
        if body:
            numbers[header["id"], header["rank"], body["coll"]].append(body["coll_sn"])
    # Two steps of 16 tensor parallel AllGathers and 16 ReduceScatters, each counted from 0; two AllReduces.
    assert {len(values) for values in numbers.values()} == {32, 2}
    assert all(sorted(values) == list(range(len(values))) for values in numbers.values())


def test_p2p_sequence_numbers_count_a_ranks_sends_and_receives_together_from_1(tmp_path: Path) -> None:
    write_demo_job(tmp_path, hosts=2, gpus_per_host=1, steps=1)
    bodies = [record["p2p_perf"] for record in read_records(tmp_path) if "p2p_perf" in record]
    first_stage = {body["p2p_sn"]: body["p2p"] for body in bodies if body["p2p_peer"] == 1}
    # All activations go out before the first gradient comes back.
    assert first_stage == {1: "Send", 2: "Send", 3: "Send", 4: "Send", 5: "Recv", 6: "Recv", 7: "Recv", 8: "Recv"}


def test_the_late_host_has_the_shortest_times(tmp_path: Path) -> None:
    write_demo_job(tmp_path, hosts=4, gpus_per_host=2, steps=6, late_host="node-02", late_from_step=3)
    # Three gradient buckets a step: from sequence number 9 on the fault is there. node-01 shares its communicators.
    gradients = mean_time_us_by_host(tmp_path, "DP", "ReduceScatter", first_sn=9)
    assert gradients["node-02"] < gradients["node-01"] / 2
    everyone = mean_time_us_by_host(tmp_path, "WORLD", "AllReduce", first_sn=3)
    assert min(everyone, key=everyone.__getitem__) == "node-02"


def test_without_a_fault_no_host_stands_out(tmp_path: Path) -> None:
    job = write_demo_job(tmp_path, hosts=4, gpus_per_host=2, steps=6, late_host=None)
    times = mean_time_us_by_host(tmp_path, "DP", "ReduceScatter", first_sn=9)
    assert job.fault == ""
    assert max(times.values()) < 2 * min(times.values())


def test_a_hung_gpu_stops_the_whole_job(tmp_path: Path) -> None:
    job = write_demo_job(tmp_path, hosts=2, gpus_per_host=2, steps=4, late_host=None, hung_host="node-02")
    assert job.fault == "node-02-pid20002 hangs before step 2 of 4"
    # One AllReduce of the whole job ends each step: the two steps before the hang, on each of 4 ranks.
    world = [record for record in read_records(tmp_path) if record["header"]["comm_name"] == "WORLD Group 0"]
    assert [record["coll_perf"]["coll_sn"] for record in world] == [0, 1] * 4


@pytest.mark.parametrize("job", DEMO_JOBS)
def test_every_job_of_the_demo_can_be_written(tmp_path: Path, job: str) -> None:
    written = write_demo_job(tmp_path, steps=1, **DEMO_JOBS[job])
    assert (written.fault == "") == (job == "healthy")


def test_a_slow_network_card_slows_every_rank_of_its_communicators(tmp_path: Path) -> None:
    write_demo_job(tmp_path, hosts=4, gpus_per_host=2, steps=2, late_host=None, slow_network_host="node-04")
    times = mean_time_us_by_host(tmp_path, "DP", "AllGather", first_sn=0)
    # node-03 and node-04 form a stage; their link is 16 times slower, and both see it.
    assert min(times["node-03"], times["node-04"]) > 10 * max(times["node-01"], times["node-02"])


def test_records_are_written_in_dump_passes_of_rising_time(tmp_path: Path) -> None:
    write_demo_job(tmp_path, hosts=2, gpus_per_host=1, steps=4)
    stamps = [
        json.loads(line)["metadata"]["dump_timestamp_us"]
        for line in (tmp_path / "node-01-pid20000.log").read_text().splitlines()
    ]
    steps = [later - earlier for earlier, later in pairwise(stamps)]
    # Within a pass a record takes 4 us to write; between passes lies at least most of the 100 ms interval.
    assert {step for step in steps if step < 50_000} == {4}
    assert max(steps) >= 50_000


def test_the_same_seed_gives_the_same_bytes_and_another_seed_gives_others(tmp_path: Path) -> None:
    contents = []
    for name, seed in (("first", 1), ("again", 1), ("other", 2)):
        write_demo_job(tmp_path / name, seed=seed, hosts=1, gpus_per_host=2, steps=1, late_host=None)
        contents.append((tmp_path / name / "node-01-pid20000.log").read_bytes())
    assert contents[0] == contents[1]
    assert contents[0] != contents[2]


def test_a_host_that_the_job_does_not_have_is_an_error_that_lists_the_hosts(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no host 'node-09' in a job of 2 hosts; choose from node-01, node-02"):
        write_demo_job(tmp_path, hosts=2, late_host="node-09")


def test_a_single_rank_communicator_writes_nothing(tmp_path: Path) -> None:
    job = write_demo_job(tmp_path, hosts=1, gpus_per_host=1, steps=1, late_host=None)
    assert (job.files, job.records) == (1, 0)
