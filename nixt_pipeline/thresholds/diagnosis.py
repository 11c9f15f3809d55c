"""When something stands out among its peers, and what was too little recorded for a verdict."""

from nixt_pipeline.thresholds.group import Group, threshold


class DiagnosisThresholds(Group):
    """When a finding is made, how urgent it is, and what is not assessable."""

    min_complete_share: float = threshold(
        0.5,
        "with a smaller share of complete collectives, or of records, no finding is more severe than P2",
        "Only complete collectives show who came last; if most are incomplete, the rest is a biased sample.",
    )
    max_clock_offset_us: int = threshold(
        1_000_000,
        "larger clock offsets between hosts are reported",
        "Dump times come from the host's clock; NTP keeps hosts well within a second of each other.",
    )
    p1_cost_share: float = threshold(
        0.10,
        "share of the time that a finding must cost to be a P1",
        "10 % of the time is worth a ticket: the threshold of TraceML's impact score.",
    )
    p2_cost_share: float = threshold(
        0.05,
        "share of the time that a finding must cost to be a P2",
        "Half of a P1 (the tiers of the diagnosis rules): worth a line in the log.",
    )
    min_slowdown: float = threshold(
        1.1,
        "computation this many times as long as that of the peers is a P2 even if it costs less",
        "Healthy GPUs of one kind differ by a few percent.",
    )
    min_cost_share: float = threshold(
        0.01,
        "unless it costs less than this share of the time",
        "A judgement: what costs next to nothing is not worth a note.",
    )
    p1_slowdown: float = threshold(
        1.2,
        "computation this many times as long as that of the peers is a P1",
        "A GPU a fifth slower than its peers is defective, whatever it costs so far.",
    )
    p1_transfer_ratio: float = threshold(
        1.5,
        "as are persistent transfers this many times as long as the best",
        "A link at two thirds of its speed is defective, whatever it costs so far.",
    )
    late_floor_us: float = threshold(
        50.0,
        "shorter waits in a collective are ignored",
        "Ranks leave a collective a few microseconds apart (tree and NVLS algorithms).",
    )
    late_spread_share: float = threshold(
        0.2,
        "as are waits below this share of the transfer",
        "Ranks leave a collective a few microseconds apart (tree and NVLS algorithms).",
    )
    min_blocks: int = threshold(
        3, "number of time blocks in which an effect must show", "One block is an incident, three are a condition."
    )
    min_density: float = threshold(
        0.6, "share of the time blocks since the onset in which it must show", "A judgement: more often than not."
    )
    min_blocks_without_cost: int = threshold(
        4, "time blocks in which a slow path that costs little must show", "Three may be congestion."
    )
    max_diagnosed_launches: int = threshold(
        20,
        "launches diagnosed per directory: the last one and those with the most records; a finding counts the others",
        "A launch costs a second or two; the tests and retries of one job are a dozen at most.",
    )
    max_diagnosed_parts: int = threshold(
        250,
        "groups of communicators of a launch that share no process, such as replicas or jobs side by side, that"
        " are examined for hangs: the largest ones; a finding counts the others",
        "Each costs several scans of its records; at two GPUs each, this is a cluster of 500.",
    )
    max_chance: float = threshold(
        0.01, "probability of naming a culprit by chance", "Family-wise: at most one false name in a hundred runs."
    )
    noted_chance: float = threshold(
        0.1,
        "probability of naming an intermittent straggler by chance up to which it is still a P2",
        "In a job of two hosts, five stalls cannot give a smaller one.",
    )
    min_checkpoint_steps: float = threshold(
        8.0,
        "pauses of rank 0 or of the first replica that are fewer steps apart are a P2",
        "Checkpoints are a hundred steps or more apart, and logging at every step causes hardly any pause.",
    )
    min_last_share: float = threshold(
        0.5,
        "share of the waiting in its collectives that must be for the named rank",
        "Rule B3 (k of m): it came last in at least half of the collectives in which ranks waited.",
    )
    slow_transfer_ratio: float = threshold(
        1.15,
        "transfers this many times as long as the best are slow; the ratio is higher where times vary anyway",
        "Medians of a time block vary by a few percent.",
    )
    healthy_transfer_ratio: float = threshold(
        1.07,
        "transfers below this are fast and clear their ranks; the ratio is higher where times vary anyway",
        "Half of what makes a path slow.",
    )
    slow_transfer_floor_us: float = threshold(
        5.0, "smaller differences are ignored", "Times are whole microseconds, and a kernel launch takes a few of them."
    )
    min_diagnosed_cells: int = threshold(
        20,
        "with fewer collectives recorded by several ranks, a run is not assessable, nor is a kernel comparable",
        "Fewer show no pattern.",
    )
    min_assessable_share: float = threshold(
        0.1, "nor is a run with a smaller share of the collectives' records", "Rule B0: fewer are a biased sample."
    )
    assessable_cost_share: float = threshold(
        0.2,
        "nor is a run in which times vary so much that a rank costing this share of them could be missed",
        "A rank that costs a fifth of the time must not be missed.",
    )
    max_unordered_share: float = threshold(
        0.2,
        "nor is a run in which indistinguishable CUDA graph replays are a larger share",
        "No rank would stand out in that much of the job; a fifth as for `assessable_cost_share`.",
    )
    silent_after_operations: int = threshold(
        10,
        "operations that only one process lacks at its end before it is called silent",
        "A lost buffer holds fewer in a row.",
    )
    unmatched_p2p: int = threshold(
        5,
        "Sends without a Recv, or Recvs without a Send, that are a mismatch",
        "One or two may be in flight when a job ends (rules' table of stalls).",
    )
    paged_chance: float = threshold(
        0.0001,
        "a hang is a P0 only if record loss alone would explain it with a smaller probability",
        "Of ten thousand jobs with record loss, at most one should page.",
    )
    lead_chance: float = threshold(
        0.003,
        "nor is it reported if record loss would explain the lead of other processes with a larger probability",
        "Three in a thousand healthy jobs among those that lose records.",
    )
    tail_chance: float = threshold(
        0.01,
        "a log has lost its tail if that many missing last operations are less likely than this by chance",
        "Records lost at random leave few processes without their last operation.",
    )
    early_end_chance: float = threshold(
        0.003,
        "a log has lost its end if record loss would end it that early with a smaller probability, over all processes",
        "As for `lead_chance`.",
    )
    may_be_killed_share: float = threshold(
        0.01,
        "a stop does not page if a killed job would leave such a log at a larger share of its moments",
        "Jobs are ended by their time limit or by a user far more often than they hang.",
    )
    seldom_killed_share: float = threshold(
        0.1,
        "but if one communicator stands out, it is a P2 up to this share",
        "A judgement: nine of ten killed jobs look different.",
    )
    min_waited_share: float = threshold(
        0.2,
        "share of a rank's missing communication time that must be visible as waiting for it",
        "The rest may be hidden behind computation, or was not recorded.",
    )
    host_share: float = threshold(
        0.75,
        "share of a host's processes that must be late for the host to be named instead of its processes",
        "One of four or two of eight processes may hide their lateness, or have faults of their own.",
    )
    beyond_doubt_chance: float = threshold(
        0.0001,
        "a rank that no collective confirms is named only if chance explains it with a smaller probability",
        "A hundredth of `max_chance`.",
    )
    whole_log_share: float = threshold(
        0.98,
        "with a smaller share of the records, a rank that no collective confirms is not named",
        "Up to two in a hundred are lost where a job begins and ends.",
    )
    gpu_launch_share: float = threshold(
        0.8,
        "the GPU is the cause if this share of the lateness, or more, lies between launch and start of a kernel",
        "A judgement: the rest is the scatter of launches.",
    )
    cpu_launch_share: float = threshold(
        0.2, "the CPU is the cause up to this share", "The remainder of `gpu_launch_share`."
    )
    slow_transfer_deviations: float = threshold(
        5.0,
        "standard deviations of the noise between time blocks by which a slow path must be slower",
        "Noise has tails, and there are many paths and blocks.",
    )
    healthy_transfer_deviations: float = threshold(
        2.5,
        "by which a fast path may be slower than the reference",
        "The reference, the best tenth of healthy blocks, is 1.3 of them below the median.",
    )
    usual_congested_share: float = threshold(
        0.05,
        "share of the time blocks in which a healthy network is congested, unless the run itself shows more",
        "A judgement from congestion in shared fabrics: intermittent.",
    )
    stall_ratio: float = threshold(
        10.0,
        "a single collective this many times as long as usual on all of its ranks is a stall",
        "Congestion doubles or triples a time; a link that goes down takes a second or more.",
    )
    stall_floor_us: float = threshold(
        100_000.0,
        "unless it is shorter than this",
        "InfiniBand and RoCE retry after a few hundred milliseconds at the earliest.",
    )
    min_stalls: int = threshold(
        2,
        "stalls that can be a P1; fewer are a P2, whatever they cost",
        "A single one may be a switch that was replaced, or a job that was suspended.",
    )
    told_loss_share: float = threshold(
        0.02,
        "share of lost records from which record loss is reported, for information",
        "Less is lost at the ends of most logs.",
    )
    capture_gap_share: float = threshold(
        0.5,
        "as is a process with a smaller share of the records that its peers have",
        "A judgement: it was not recorded as they were.",
    )
    many_short_logs_share: float = threshold(
        0.5,
        "if a larger share of the logs ends early, the end of the job was not recorded, and no process is"
        " called silent",
        "A judgement: more than half is not an exception.",
    )
    unwritten_us: float = threshold(
        1_000_000.0,
        "nor is a process that lacks only what is sent in this time: a killed process has not written its last records",
        "Dump intervals of up to a second are in use; the plugin's documentation has 500 ms.",
    )
