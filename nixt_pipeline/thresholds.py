"""The numbers that decide a verdict, each with its meaning and where its value comes from, grouped by package.

What only shapes a computation stays beside it. `thresholds.diagnosis.min_blocks` is `[thresholds.diagnosis]` in
`nixt.toml` and `NIXT_THRESHOLDS__DIAGNOSIS__MIN_BLOCKS` in the environment.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator


def _threshold(default: float, meaning: str, origin: str) -> Any:
    """A field with its meaning and the source of its value, both for `docs/settings.md`."""
    return Field(default, description=meaning, json_schema_extra={"origin": origin})


class _Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class IngestThresholds(_Group):
    """Which numbers of a log are not plausible, and which records belong to one launch."""

    wrapped_exec_time_us: int = _threshold(
        10**15,
        "longer times are a subtraction below zero in the plugin",
        "The plugin's counters have 64 bits; 10^15 us are 31 years.",
    )
    max_message_bytes: int = _threshold(
        2**48,
        "larger sizes are the plugin's error for 8-bit types, and are repaired",
        "That error yields 2^64 - count; real counts stay below 2^48 bytes (256 TiB).",
    )
    max_sequence_number: int = _threshold(
        2**62 - 1,
        "larger ones are null and flagged, as are sizes above `max_message_bytes` that cannot be repaired",
        "A million operations a second for 146,000 years; the difference of any two below it fits 64 bits with a sign.",
    )
    min_timestamp_us: int = _threshold(
        1_577_836_800_000_000,
        "earlier times are not Unix times in microseconds",
        "The year 2020; Inspector was released in 2025.",
    )
    max_timestamp_us: int = _threshold(4_102_444_800_000_000, "nor are later ones", "The year 2100.")
    incarnation_gap_us: int = _threshold(
        600_000_000,
        "after a longer pause, a process id that is used again is another process",
        "Longer than any checkpoint in public logs.",
    )


class QualityThresholds(_Group):
    """When a data-quality check warns."""

    max_plausible_busbw_gbs: float = _threshold(
        2_000.0,
        "a higher bus bandwidth is an error of measurement",
        "NVLink 5 moves 900 GB/s in each direction, and NVLS can double the apparent rate; early RCCL builds reported"
        " ten times too much.",
    )
    bandwidth_mismatch_gbs: float = _threshold(
        0.001,
        "a larger difference between written and recomputed bandwidth points at another plugin's formula",
        "The two agree to six decimals in 4.2 million records.",
    )
    max_unusable_share: float = _threshold(
        0.01,
        "with a larger share of times that are zero or wrapped, the plugin's timing is in doubt",
        "GPU timing occasionally loses a stamp; in public logs well below 1 % of the times.",
    )


class AnalysisThresholds(_Group):
    """What analyses and figures rest on."""

    large_message_bytes: int = _threshold(
        1_000_000,
        "messages from this size on are used where latency would blur bandwidth",
        "The NIXT paper's own cut in its temporal and scaling queries.",
    )
    min_capture_rate: float = _threshold(
        0.5,
        "with a smaller share of the records, ranks are not compared",
        "Below it, comparing ranks compares samples.",
    )


class DiagnosisThresholds(_Group):
    """When a finding is made, how urgent it is, and what is not assessable."""

    min_complete_share: float = _threshold(
        0.5,
        "with fewer collectives that every rank logged, or fewer records, nothing is more urgent than P2",
        "Who came last is known of complete collectives only; when most are incomplete, the rest is a biased sample.",
    )
    max_clock_offset_us: int = _threshold(
        1_000_000,
        "hosts' clocks that are further apart are reported",
        "Dump times are written on the host's clock; NTP keeps hosts well within a second of one another.",
    )
    p1_cost_share: float = _threshold(
        0.10,
        "share of the time that a finding must cost to be a P1",
        "A ticket for 10 % of the time: the threshold of TraceML's impact score.",
    )
    p2_cost_share: float = _threshold(
        0.05,
        "share of the time that a finding must cost to be a P2",
        "Half of a P1 (the tiers of the diagnosis rules): worth a line in the log.",
    )
    min_slowdown: float = _threshold(
        1.1,
        "what computes this many times as long as its peers is a P2 even if it costs less",
        "Healthy GPUs of one kind differ by some percent.",
    )
    min_cost_share: float = _threshold(
        0.01,
        "but not if it costs less than this share of the time",
        "A judgement: what costs next to nothing is not worth a note.",
    )
    p1_slowdown: float = _threshold(
        1.2,
        "what computes this many times as long as its peers is a P1",
        "A GPU that is slower than its peers by a fifth is defective, whatever it costs so far.",
    )
    p1_transfer_ratio: float = _threshold(
        1.5,
        "so are lasting transfers that take this many times the best",
        "A link at two thirds of its speed is defective, whatever it costs so far.",
    )
    late_floor_us: float = _threshold(
        50.0,
        "shorter waits of a collective are ignored",
        "Ranks leave a collective some microseconds apart (tree and NVLS algorithms).",
    )
    late_spread_share: float = _threshold(
        0.2,
        "as are waits below this share of the transfer",
        "Ranks leave a collective some microseconds apart (tree and NVLS algorithms).",
    )
    min_blocks: int = _threshold(
        3, "time blocks of the job in which something must show", "One block is an incident, three are a condition."
    )
    min_density: float = _threshold(
        0.6,
        "share of the time blocks since the onset in which it must show",
        "A judgement: more often than not.",
    )
    min_blocks_without_cost: int = _threshold(
        4, "time blocks in which a slow path that costs little must show", "Three may be congestion."
    )
    max_diagnosed_launches: int = _threshold(
        20,
        "launches of one directory that are diagnosed: the last one and those with most records; a finding counts the"
        " others",
        "A launch costs a second or two; the tests and retries of one job are a dozen at most.",
    )
    max_diagnosed_parts: int = _threshold(
        250,
        "groups of communicators of one launch that share no process, such as replicas or jobs side by side, that are"
        " examined for hangs: those with most processes; a finding counts the others",
        "Each costs some scans of its records; of two GPUs each, this is a cluster of 500.",
    )
    max_chance: float = _threshold(
        0.01,
        "probability of naming a culprit by chance",
        "Family-wise: one false name in a hundred runs at most.",
    )
    min_last_share: float = _threshold(
        0.5,
        "share of the waiting in its collectives that must be for the named rank",
        "Rule B3 (k of m): it came last in at least half of the collectives in which ranks waited.",
    )
    slow_transfer_ratio: float = _threshold(
        1.15,
        "transfers that take this many times the best are slow; more where times vary by themselves",
        "Medians of a time block vary by a few percent.",
    )
    healthy_transfer_ratio: float = _threshold(
        1.07,
        "transfers below this are fast and clear those who take part; more where times vary by themselves",
        "Half of what makes a path slow.",
    )
    slow_transfer_floor_us: float = _threshold(
        5.0,
        "smaller differences are ignored",
        "Times are whole microseconds, and a launch takes some of them.",
    )
    min_diagnosed_cells: int = _threshold(
        20,
        "with fewer collectives recorded by several ranks a run is not assessable, nor a kernel comparable",
        "Fewer show no pattern.",
    )
    min_assessable_share: float = _threshold(
        0.1, "nor is a run with a smaller share of the collectives' records", "Rule B0: fewer are a biased sample."
    )
    assessable_cost_share: float = _threshold(
        0.2,
        "nor where times vary so much that a rank costing this share of them could be missed",
        "Who costs a fifth of the time must not be missed.",
    )
    max_unordered_share: float = _threshold(
        0.2,
        "nor if CUDA graph replays that cannot be distinguished are a larger share of it",
        "No rank would be seen in that much of the job; a fifth as for `assessable_cost_share`.",
    )
    silent_after_operations: int = _threshold(
        10,
        "operations that only one process lacks at its end before it is called silent",
        "A lost buffer holds fewer in a row.",
    )
    unmatched_p2p: int = _threshold(
        5,
        "Sends without a Recv, or the other way round, that are a mismatch",
        "One or two may be under way when a job ends (rules' table of stalls).",
    )
    paged_chance: float = _threshold(
        0.0001,
        "a hang is a P0 only when lost records alone would look so with a smaller probability",
        "Of thousands of jobs with lost records, hardly one may wake somebody up.",
    )
    lead_chance: float = _threshold(
        0.003,
        "nor is it told at all when lost records would explain with a larger probability that others got further",
        "Three in a thousand healthy jobs, of those that lose records at all.",
    )
    tail_chance: float = _threshold(
        0.01,
        "how unlikely it must be that as many processes lack their last operation, for a log to have lost its tail",
        "Records lost at random leave few processes without it.",
    )
    early_end_chance: float = _threshold(
        0.003,
        "how unlikely it must be, over all processes, that lost records alone took the end of one's log",
        "As for `lead_chance`.",
    )
    may_be_killed_share: float = _threshold(
        0.01,
        "a stop is no alarm when a killed job would leave such a log at a larger share of its moments",
        "Jobs are ended by their time limit or by a person far more often than they hang.",
    )
    seldom_killed_share: float = _threshold(
        0.1,
        "but where one communicator stands out, it is worth a note up to this share",
        "A judgement: nine of ten killed jobs look different.",
    )
    min_waited_share: float = _threshold(
        0.2,
        "of what somebody lacks in communication, the share that must be seen as waiting for it",
        "The rest may be hidden behind computation, or was not recorded.",
    )
    host_share: float = _threshold(
        0.75,
        "a host is late when so many of its processes are; otherwise the processes are named",
        "One of four or two of eight processes may hide their lateness, or have faults of their own.",
    )
    beyond_doubt_chance: float = _threshold(
        0.0001,
        "who no collective confirms is named only when chance explains it with a smaller probability",
        "A hundredth of `max_chance`.",
    )
    whole_log_share: float = _threshold(
        0.98,
        "with a smaller share of the records, nobody is named whom no collective confirms",
        "Two in a hundred are lost at the ends of logs, where a job begins and ends.",
    )
    gpu_launch_share: float = _threshold(
        0.8,
        "of the lateness, the share between launch and start of a kernel from which on the GPU is late",
        "A judgement: the rest is the scatter of launches.",
    )
    cpu_launch_share: float = _threshold(0.2, "up to which the CPU is late", "What `gpu_launch_share` leaves.")
    slow_transfer_deviations: float = _threshold(
        5.0,
        "standard deviations of the noise between time blocks that a path must be slower to be slow",
        "Noise has tails, and there are many paths and blocks.",
    )
    healthy_transfer_deviations: float = _threshold(
        2.5,
        "and may be slower to be fast",
        "The reference, the best tenth of healthy blocks, is 1.3 of them below the middle.",
    )
    usual_congested_share: float = _threshold(
        0.05,
        "share of the time blocks in which a healthy network is congested, unless the run itself shows more",
        "A judgement from congestion in shared fabrics: now and then.",
    )


class ComparisonThresholds(_Group):
    """When a run became slower, and which runs others are compared with."""

    margin: float = _threshold(
        0.05,
        "a smaller change between runs is ignored",
        "Rule B13; SuperBench takes repeated runs for equal within the same 5 %.",
    )
    error: float = _threshold(
        0.05,
        "probability of reporting a change that is none, over all kernels of a comparison together",
        "Rule B13: q < 0.05.",
    )
    floor_us: float = _threshold(
        1.0,
        "a smaller change of a transfer is the resolution of the times",
        "Times are whole microseconds.",
    )
    min_kernel_share: float = _threshold(
        0.01,
        "kernels below this share of the time are shown and decide nothing",
        "A judgement: what takes so little does not decide about a run.",
    )
    min_matched_share: float = _threshold(
        0.5,
        "with less of the time in kernels of both sides, the sides do different work",
        "A judgement: less than half does not speak for the whole.",
    )
    baseline_capture_rate: float = _threshold(
        0.8,
        "share of captured records that a run needs to be a baseline",
        "Rule B14.",
    )
    baseline_complete_share: float = _threshold(
        0.8,
        "share of complete collectives that a run needs to be a baseline",
        "Rule B14; where every rank lost the same operations, those that are left are complete, so that both are"
        " asked for.",
    )
    baseline_min_cells: int = _threshold(500, "complete collectives that it needs", "Rule B14.")
    baseline_min_runs: int = _threshold(
        3, "runs from which a baseline is established", "Three runs show whether one of them is odd."
    )
    baseline_outlier_mads: float = _threshold(
        5.0,
        "robust deviations from the other runs beyond which a run is not a baseline",
        "SuperBench removes what is further from the median, and repeats.",
    )
    baseline_mode_gap: float = _threshold(
        0.7,
        "part of the spread of all runs that a gap must be to divide them into two groups",
        "A judgement: two fabrics or two clock settings leave such a gap.",
    )
    baseline_max_age_days: int = _threshold(
        90,
        "older runs are not a baseline any more, unless pinned",
        "A quarter: drivers, firmware and cables change.",
    )


# Names that had their package in them before thresholds were grouped.
_RENAMED = {"margin": "comparison_margin", "error": "comparison_error", "floor_us": "comparison_floor_us"}


class Thresholds(_Group):
    """All of them, a group for each package."""

    ingest: IngestThresholds = IngestThresholds()
    quality: QualityThresholds = QualityThresholds()
    analysis: AnalysisThresholds = AnalysisThresholds()
    diagnosis: DiagnosisThresholds = DiagnosisThresholds()
    comparison: ComparisonThresholds = ComparisonThresholds()

    def by_name(self) -> list[tuple[str, float]]:
        """`group.name` and value of each, in alphabetical order."""
        return sorted(
            (f"{group}.{name}", v) for group, values in self.model_dump().items() for name, v in values.items()
        )

    def changed(self, group: str, **values: float) -> "Thresholds":
        """A copy with other values in one group. Raises `ValidationError` for a name that is not there."""
        present = getattr(self, group)
        return self.model_copy(update={group: type(present)(**{**present.model_dump(), **values})})

    @model_validator(mode="before")
    @classmethod
    def _sort_into_groups(cls, value: Any) -> Any:
        return regrouped(value)


def grouped() -> dict[str, type[_Group]]:
    """The groups by name."""
    return {name: type(field.default) for name, field in Thresholds.model_fields.items()}


def former_names() -> dict[str, tuple[str, str]]:
    """The name of each threshold before there were groups -> its group and present name."""
    return {
        _RENAMED.get(name, name): (group, name) for group, model in grouped().items() for name in model.model_fields
    }


def regrouped(value: Any) -> Any:
    """The values of `[thresholds]` with those that are named as before there were groups in their group."""
    former = former_names()
    if not isinstance(value, dict) or not former.keys() & value.keys():
        return value
    groups = {name: dict(given) if isinstance(given, dict) else given for name, given in value.items()}
    for old in former.keys() & value.keys():
        group, name = former[old]
        groups.setdefault(group, {})[name] = groups.pop(old)
    return groups
