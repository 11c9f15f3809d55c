"""The catalogue of labelled jobs: healthy ones that invite false alarms, and every fault at several strengths."""

from dataclasses import replace

from evaluation import faults, hangs
from evaluation.faults import Plant
from evaluation.labelled_jobs import Recording, Scenario, Shape
from nixt_pipeline.simulation.job import Workload

# Named after GPUs, and what is parallel beside data.
GPUS_16_TP4 = Shape(hosts=2, gpus_per_host=8, tensor_size=4, stages=1)
GPUS_32_TP8_PP2 = Shape(hosts=4, gpus_per_host=8, tensor_size=8, stages=2)
GPUS_32_TP4_PP2 = Shape(hosts=4, gpus_per_host=8, tensor_size=4, stages=2)
GPUS_32_TP8 = Shape(hosts=4, gpus_per_host=8, tensor_size=8, stages=1)
GPUS_32_DDP = Shape(hosts=4, gpus_per_host=8, tensor_size=1, stages=1)
GPUS_64_TP8_PP2 = Shape(hosts=8, gpus_per_host=8, tensor_size=8, stages=2)
GPUS_128_TP8_PP4 = Shape(hosts=16, gpus_per_host=8, tensor_size=8, stages=4)
GPUS_4_DDP = Shape(hosts=2, gpus_per_host=2, tensor_size=1, stages=1)

# Few operations, so that a job has tens of thousands of records at most, and large ones, so that a third of a healthy
# job is communication: otherwise a slow link costs nothing, and not to report it would be right.
STEP = Workload(microbatches=2, layers=1, tensor_bytes=16 * 2**20, layer_us=2_500.0, optimizer_us=4_000.0)
SHORT_STEP = replace(STEP, microbatches=1)
GRADIENT_BYTES = (160_000_000, 40_000_000)  # of one GPU's share of the model, in buckets
ONE_ALL_REDUCE = Workload(microbatches=0, gradient_bucket_bytes=(), loss_bytes=25_000_000)

SLOT = Recording(names="absent", p2p=False, capacity=1)  # NCCL 2.28
SLOT_FAST = replace(SLOT, dump_interval_us=500)  # the interval of NVIDIA's documentation
SLOT_SLOW = replace(SLOT, dump_interval_us=20_000)
RING_OVERFLOW = Recording(dump_interval_us=60_000_000)

STEPS = {16: 90, 32: 60, 64: 40, 128: 30}


def _scenario(
    name: str,
    *planted: tuple[type[Plant], float],
    shape: Shape = GPUS_32_TP8_PP2,
    recording: Recording | None = None,
) -> Scenario:
    """A job of ordinary length for its size."""
    short = shape.gpus >= 128
    buckets = tuple(size // shape.data_size for size in GRADIENT_BYTES[: 1 if short else None])
    workload = replace(SHORT_STEP if short else STEP, gradient_bucket_bytes=buckets)
    return Scenario(name, shape, workload, STEPS[shape.gpus], planted, recording or Recording())


def _twice_as_large(workload: Workload) -> Workload:
    """The same step with twice as many tokens in a microbatch; gradients stay as large as they were."""
    return replace(
        workload,
        tensor_bytes=2 * workload.tensor_bytes,
        activation_bytes=2 * workload.activation_bytes,
        layer_us=2 * workload.layer_us,
    )


def _healthy() -> list[Scenario]:
    plain = _scenario("healthy")
    return [
        plain,
        _scenario("healthy-16", shape=GPUS_16_TP4),
        _scenario("healthy-32-tp4", shape=GPUS_32_TP4_PP2),
        _scenario("healthy-32-ddp", shape=GPUS_32_DDP),
        _scenario("healthy-64", shape=GPUS_64_TP8_PP2),
        _scenario("healthy-128", shape=GPUS_128_TP8_PP4),
        _scenario("healthy-unnamed", recording=Recording(names="unknown")),
        _scenario("healthy-2.28", recording=SLOT_FAST),
        _scenario("healthy-2.28-sampled", recording=SLOT_SLOW, shape=GPUS_16_TP4),
        _scenario("healthy-loss-30%", recording=Recording(random_loss=0.3)),
        _scenario("healthy-cpu-timed", recording=Recording(timing_source="kernel_cpu")),
        _scenario("healthy-clocks", recording=Recording(clock_offset_us=20_000, clock_drift_ppm=20)),
        replace(plain, name="healthy-uneven-hosts", host_spread=0.01),
        replace(plain, name="healthy-imbalanced", compute_jitter=0.15),
        replace(plain, name="healthy-heavy-last-stage", last_stage=1.15),
        replace(plain, name="healthy-congested-now-and-then", congested_share=0.02),
        replace(plain, name="healthy-larger-batches", second_half=_twice_as_large(plain.workload)),
        replace(plain, name="healthy-pauses", pauses=True),
        replace(plain, name="healthy-warm-up", warm_up=True),
        Scenario("healthy-soak", GPUS_4_DDP, ONE_ALL_REDUCE, 10_000),
        Scenario("healthy-ring-overflow", GPUS_4_DDP, ONE_ALL_REDUCE, 6_000, recording=RING_OVERFLOW),
    ]


def _at_strengths(prefix: str, fault: type[Plant], strengths: tuple[float, ...], shape: Shape) -> list[Scenario]:
    return [_scenario(f"{prefix}-{strength:g}x", (fault, strength), shape=shape) for strength in strengths]


def _slow() -> list[Scenario]:
    return [
        *_at_strengths("slow-gpu", faults.SlowGpu, (1.1, 1.3, 1.6, 4), GPUS_32_TP8_PP2),
        *_at_strengths("slow-gpu-ddp", faults.SlowGpu, (1.1, 1.6), GPUS_32_DDP),
        *_at_strengths("slow-gpu-128", faults.SlowGpu, (1.3,), GPUS_128_TP8_PP4),
        *_at_strengths("slow-compute-host", faults.SlowComputeHost, (1.1, 1.3, 1.6, 4), GPUS_32_TP8_PP2),
        *_at_strengths("slow-compute-host-16", faults.SlowComputeHost, (1.3,), GPUS_16_TP4),
        *_at_strengths("slow-compute-host-128", faults.SlowComputeHost, (1.3,), GPUS_128_TP8_PP4),
        *_at_strengths("intermittent", faults.IntermittentLateness, (1.3, 2, 4), GPUS_32_TP8_PP2),
        *_at_strengths("hesitating-steps", faults.HesitatingSteps, (2, 4), GPUS_32_TP8_PP2),
        *_at_strengths("slow-nic-host", faults.SlowNicHost, (1.1, 1.3, 2, 4), GPUS_32_TP8_PP2),
        *_at_strengths("slow-nic-host-tp4", faults.SlowNicHost, (2,), GPUS_32_TP4_PP2),
        *_at_strengths("slow-nic-host-64", faults.SlowNicHost, (2,), GPUS_64_TP8_PP2),
        *_at_strengths("slow-nic-host-128", faults.SlowNicHost, (2,), GPUS_128_TP8_PP4),
        *_at_strengths("slow-nic-host-flat", faults.SlowNicHost, (2,), GPUS_32_TP8),
        *_at_strengths("slow-rail", faults.SlowRail, (1.3, 2, 4), GPUS_32_TP8),
        *_at_strengths("slow-nvlink-host", faults.SlowNvlinkHost, (1.3, 2, 4), GPUS_32_TP8_PP2),
        *_at_strengths("slow-nvlink-host-16", faults.SlowNvlinkHost, (4,), GPUS_16_TP4),
        *_at_strengths("compute-decay", faults.ComputeDecay, (1.6, 4), GPUS_32_TP8_PP2),
        *_at_strengths("nic-decay", faults.NicDecay, (2, 4), GPUS_32_TP8_PP2),
        *_at_strengths("fabric-window", faults.FabricWindow, (1.3, 2, 4), GPUS_32_TP8_PP2),
        *_at_strengths("slow-fabric", faults.SlowFabric, (1.3, 2, 4), GPUS_32_TP8_PP2),
    ]


def _under_difficult_conditions() -> list[Scenario]:
    """Faults without a healthy time before them, or beside what is uneven in healthy jobs too."""
    host, nic = _scenario("", (faults.SlowComputeHost, 1.6)), _scenario("", (faults.SlowNicHost, 4))
    gpu, nvlink = _scenario("", (faults.SlowGpu, 1.6)), _scenario("", (faults.SlowNvlinkHost, 4))
    return [
        replace(gpu, name="slow-gpu-from-start", from_start=True),
        replace(host, name="slow-compute-host-from-start", from_start=True),
        replace(nic, name="slow-nic-host-from-start", from_start=True),
        replace(nvlink, name="slow-nvlink-host-from-start", from_start=True),
        replace(gpu, name="slow-gpu-imbalanced", compute_jitter=0.15),
        replace(host, name="slow-compute-host-imbalanced", compute_jitter=0.15),
        replace(host, name="slow-compute-host-heavy-last-stage", last_stage=1.15),
        replace(gpu, name="slow-gpu-pauses", pauses=True, warm_up=True),
        replace(nic, name="slow-nic-host-congested", congested_share=0.02),
        replace(nic, name="slow-nic-host-larger-batches", second_half=_twice_as_large(nic.workload)),
    ]


def _stopped() -> list[Scenario]:
    return [
        _scenario("hang-tp", (hangs.HangTensor, 0)),
        _scenario("hang-dp", (hangs.HangData, 0)),
        _scenario("hang-pp", (hangs.HangPipeline, 0)),
        _scenario("hang-dp-128", (hangs.HangData, 0), shape=GPUS_128_TP8_PP4),
        _scenario("hang-dp-unnamed", (hangs.HangData, 0), recording=Recording(names="unknown")),
        _scenario("hang-tp-loss-10%", (hangs.HangTensor, 0), recording=Recording(random_loss=0.1)),
        _scenario("process-silent", (faults.ProcessSilent, 0)),
        _scenario("process-silent-loss-30%", (faults.ProcessSilent, 0), recording=Recording(random_loss=0.3)),
        _scenario("clock-skew", (faults.ClockSkew, 2.5)),
    ]


def _two_faults() -> list[Scenario]:
    return [
        _scenario("two-slow-gpu-and-nvlink", (faults.SlowGpu, 1.6), (faults.SlowNvlinkHost, 4)),
        _scenario("two-slow-compute-and-nic", (faults.SlowComputeHost, 1.6), (faults.SlowNicHost, 4)),
        _scenario("two-slow-gpus", (faults.SlowGpu, 1.6), (faults.SlowGpu, 1.6), shape=GPUS_64_TP8_PP2),
        _scenario("two-slow-host-and-clock", (faults.SlowComputeHost, 1.6), (faults.ClockSkew, 2.5)),
    ]


def _badly_recorded() -> list[Scenario]:
    """The same faults as seen through losses and missing fields."""
    slow_gpu, slow_host, slow_nic = (faults.SlowGpu, 1.6), (faults.SlowComputeHost, 1.6), (faults.SlowNicHost, 4)
    slow_nvlink, unnamed = (faults.SlowNvlinkHost, 4), Recording(names="unknown")
    overflow = Scenario(
        "slow-gpu-ring-overflow", GPUS_4_DDP, ONE_ALL_REDUCE, 6_000, ((faults.SlowGpu, 1.3),), RING_OVERFLOW
    )
    losses = [
        _scenario(f"{name}-loss-{loss:.0%}", fault, recording=Recording(random_loss=loss))
        for name, fault in (("slow-gpu", slow_gpu), ("slow-compute-host", slow_host), ("slow-nic-host", slow_nic))
        for loss in (0.01, 0.1, 0.3, 0.6)
    ]
    return [
        *losses,
        overflow,
        _scenario("slow-gpu-unnamed", slow_gpu, recording=unnamed),
        _scenario("slow-compute-host-unnamed", slow_host, recording=unnamed),
        _scenario("slow-nic-host-unnamed", slow_nic, recording=unnamed),
        _scenario("slow-nvlink-host-unnamed", slow_nvlink, recording=unnamed),
        _scenario("slow-gpu-2.28", slow_gpu, recording=SLOT_FAST),
        _scenario("slow-compute-host-2.28", slow_host, recording=SLOT_FAST),
        _scenario("slow-nic-host-2.28", slow_nic, recording=SLOT_FAST),
        _scenario("slow-compute-host-2.28-sampled", slow_host, recording=SLOT_SLOW, shape=GPUS_16_TP4),
        _scenario("slow-compute-host-clocks", slow_host, recording=Recording(clock_offset_us=5e5, clock_drift_ppm=50)),
        _scenario("slow-compute-host-cpu-timed", slow_host, recording=Recording(timing_source="kernel_cpu")),
    ]


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        *_healthy(),
        *_slow(),
        *_under_difficult_conditions(),
        *_stopped(),
        *_two_faults(),
        *_badly_recorded(),
    )
}
