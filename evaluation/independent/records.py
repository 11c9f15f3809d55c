"""Inspector's records: what of a launch completed, numbered as the plugin numbers it, and the bytes of a line."""

from collections.abc import Iterator
from typing import NamedTuple

from evaluation.independent.launch import Timeline
from evaluation.independent.machines import Communicator, Gpu
from evaluation.independent.streams import Part

_PER_RANK = frozenset({"AllGather", "ReduceScatter"})


class Completed(NamedTuple):
    """An operation that completed on one GPU. `end_us`: since the begin of the job; `lost_us`: when what was not
    written by then is lost, because its communicator is destroyed."""

    gpu: Gpu
    part: Part
    sn: int
    exec_us: int
    end_us: float
    lost_us: float


def completed(
    timeline: Timeline, begin_us: float, lost_us: dict[int, float], minimum_bytes: int, p2p: bool
) -> Iterator[Completed]:
    """What the plugin sees of a launch that began at `begin_us`, in the order in which each rank launched it.

    Collectives count per communicator and function from 0, the small ones too; Sends and Recvs per communicator from 1,
    and only those that are tracked. What waits in vain is counted and never completes. `lost_us`: by rank.
    """
    for gpu in timeline.launch.cluster.gpus:
        counts: dict[tuple[Communicator, str], int] = {}
        for task in timeline.programs[gpu.rank].tasks:
            for part in task.parts:
                single = part.peer is None
                tracked = part.size_bytes >= minimum_bytes and (single or p2p)
                if not (single or tracked):
                    continue
                key = (part.communicator, part.function if single else "p2p")
                sn = counts[key] = counts.get(key, -1 if single else 0) + 1
                if tracked and task.end_us is not None and task.start_us is not None:
                    exec_us = int(task.end_us - task.start_us)
                    yield Completed(gpu, part, sn, exec_us, begin_us + task.end_us, lost_us[gpu.rank])


def line(record: Completed, written_us: int, named: bool) -> str:
    """A record as the plugin writes it. `named`: with the communicator's name, as from NCCL 2.30 on."""
    part, gpu = record.part, record.gpu
    group = part.communicator
    name = f'"comm_name":"{group.name}",' if named else ""
    revision = "v2.30.7-1" if named else ""
    if part.peer is None:
        sort, body = "coll", f'"coll":"{part.function}","coll_sn":{record.sn}'
    else:
        sort = "p2p"
        body = f'"p2p":"{part.function}","p2p_sn":{record.sn},"p2p_peer":{group.local_rank[part.peer]}'
    algorithm_gbs, bus_gbs = _bandwidths(part, record.exec_us)
    return (
        f'{{"header":{{"id":"{group.id}",{name}"rank":{group.local_rank[gpu.rank]},'
        f'"n_ranks":{len(group.ranks)},"nnodes":{group.nodes}}},'
        f'"metadata":{{"inspector_output_format_version":"v4.0","git_rev":"{revision}",'
        f'"rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":{written_us},'
        f'"hostname":"{gpu.host}","pid":{gpu.pid}}},'
        f'"{sort}_perf":{{{body},"{sort}_msg_size_bytes":{part.size_bytes},"{sort}_exec_time_us":{record.exec_us},'
        f'"{sort}_timing_source":"kernel_gpu","{sort}_algobw_gbs":{algorithm_gbs:.6f},"{sort}_busbw_gbs":{bus_gbs:.6f}}}}}\n'
    )


def _bandwidths(part: Part, exec_us: int) -> tuple[float, float]:
    """Algorithm and bus bandwidth in GB/s, by the plugin's formulas; 0 for functions that it does not know."""
    ranks = len(part.communicator.ranks)
    if exec_us == 0 or part.function == "All2All":
        return 0.0, 0.0
    traffic = part.size_bytes * (ranks if part.function in _PER_RANK else 1)
    algorithm_gbs = traffic / exec_us / 1e3
    if part.function == "AllReduce":
        return algorithm_gbs, algorithm_gbs * 2 * (ranks - 1) / ranks
    return algorithm_gbs, algorithm_gbs * ((ranks - 1) / ranks if part.function in _PER_RANK else 1)
