"""When something stands out among its peers, and what was too little recorded for a verdict."""

from nixt_pipeline.thresholds.group import Group, threshold


class DiagnosisThresholds(Group):
    """When a finding is made, how urgent it is, and what is not assessable."""

    min_complete_share: float = threshold(
        0.5,
        "with fewer collectives that every rank logged, or fewer records, nothing is more urgent than P2",
        "Who came last is known of complete collectives only; when most are incomplete, the rest is a biased sample.",
    )
    max_clock_offset_us: int = threshold(
        1_000_000,
        "hosts' clocks that are further apart are reported",
        "Dump times are written on the host's clock; NTP keeps hosts well within a second of one another.",
    )
    p1_cost_share: float = threshold(
        0.10,
        "share of the time that a finding must cost to be a P1",
        "A ticket for 10 % of the time: the threshold of TraceML's impact score.",
    )
    p2_cost_share: float = threshold(
        0.05,
        "share of the time that a finding must cost to be a P2",
        "Half of a P1 (the tiers of the diagnosis rules): worth a line in the log.",
    )
    min_slowdown: float = threshold(
        1.1,
        "what computes this many times as long as its peers is a P2 even if it costs less",
        "Healthy GPUs of one kind differ by some percent.",
    )
    min_cost_share: float = threshold(
        0.01,
        "but not if it costs less than this share of the time",
        "A judgement: what costs next to nothing is not worth a note.",
    )
    p1_slowdown: float = threshold(
        1.2,
        "what computes this many times as long as its peers is a P1",
        "A GPU that is slower than its peers by a fifth is defective, whatever it costs so far.",
    )
    p1_transfer_ratio: float = threshold(
        1.5,
        "so are lasting transfers that take this many times the best",
        "A link at two thirds of its speed is defective, whatever it costs so far.",
    )
    late_floor_us: float = threshold(
        50.0,
        "shorter waits of a collective are ignored",
        "Ranks leave a collective some microseconds apart (tree and NVLS algorithms).",
    )
    late_spread_share: float = threshold(
        0.2,
        "as are waits below this share of the transfer",
        "Ranks leave a collective some microseconds apart (tree and NVLS algorithms).",
    )
    min_blocks: int = threshold(
        3, "time blocks of the job in which something must show", "One block is an incident, three are a condition."
    )
    min_density: float = threshold(
        0.6,
        "share of the time blocks since the onset in which it must show",
        "A judgement: more often than not.",
    )
    min_blocks_without_cost: int = threshold(
        4, "time blocks in which a slow path that costs little must show", "Three may be congestion."
    )
    max_diagnosed_launches: int = threshold(
        20,
        "launches of one directory that are diagnosed: the last one and those with most records; a finding counts the"
        " others",
        "A launch costs a second or two; the tests and retries of one job are a dozen at most.",
    )
    max_diagnosed_parts: int = threshold(
        250,
        "groups of communicators of one launch that share no process, such as replicas or jobs side by side, that are"
        " examined for hangs: those with most processes; a finding counts the others",
        "Each costs some scans of its records; of two GPUs each, this is a cluster of 500.",
    )
    max_chance: float = threshold(
        0.01,
        "probability of naming a culprit by chance",
        "Family-wise: one false name in a hundred runs at most.",
    )
    min_last_share: float = threshold(
        0.5,
        "share of the waiting in its collectives that must be for the named rank",
        "Rule B3 (k of m): it came last in at least half of the collectives in which ranks waited.",
    )
    slow_transfer_ratio: float = threshold(
        1.15,
        "transfers that take this many times the best are slow; more where times vary by themselves",
        "Medians of a time block vary by a few percent.",
    )
    healthy_transfer_ratio: float = threshold(
        1.07,
        "transfers below this are fast and clear those who take part; more where times vary by themselves",
        "Half of what makes a path slow.",
    )
    slow_transfer_floor_us: float = threshold(
        5.0,
        "smaller differences are ignored",
        "Times are whole microseconds, and a launch takes some of them.",
    )
    min_diagnosed_cells: int = threshold(
        20,
        "with fewer collectives recorded by several ranks a run is not assessable, nor a kernel comparable",
        "Fewer show no pattern.",
    )
    min_assessable_share: float = threshold(
        0.1, "nor is a run with a smaller share of the collectives' records", "Rule B0: fewer are a biased sample."
    )
    assessable_cost_share: float = threshold(
        0.2,
        "nor where times vary so much that a rank costing this share of them could be missed",
        "Who costs a fifth of the time must not be missed.",
    )
    max_unordered_share: float = threshold(
        0.2,
        "nor if CUDA graph replays that cannot be distinguished are a larger share of it",
        "No rank would be seen in that much of the job; a fifth as for `assessable_cost_share`.",
    )
    silent_after_operations: int = threshold(
        10,
        "operations that only one process lacks at its end before it is called silent",
        "A lost buffer holds fewer in a row.",
    )
    unmatched_p2p: int = threshold(
        5,
        "Sends without a Recv, or the other way round, that are a mismatch",
        "One or two may be under way when a job ends (rules' table of stalls).",
    )
    paged_chance: float = threshold(
        0.0001,
        "a hang is a P0 only when lost records alone would look so with a smaller probability",
        "Of thousands of jobs with lost records, hardly one may wake somebody up.",
    )
    lead_chance: float = threshold(
        0.003,
        "nor is it told at all when lost records would explain with a larger probability that others got further",
        "Three in a thousand healthy jobs, of those that lose records at all.",
    )
    tail_chance: float = threshold(
        0.01,
        "how unlikely it must be that as many processes lack their last operation, for a log to have lost its tail",
        "Records lost at random leave few processes without it.",
    )
    early_end_chance: float = threshold(
        0.003,
        "how unlikely it must be, over all processes, that lost records alone took the end of one's log",
        "As for `lead_chance`.",
    )
    may_be_killed_share: float = threshold(
        0.01,
        "a stop is no alarm when a killed job would leave such a log at a larger share of its moments",
        "Jobs are ended by their time limit or by a person far more often than they hang.",
    )
    seldom_killed_share: float = threshold(
        0.1,
        "but where one communicator stands out, it is worth a note up to this share",
        "A judgement: nine of ten killed jobs look different.",
    )
    min_waited_share: float = threshold(
        0.2,
        "of what somebody lacks in communication, the share that must be seen as waiting for it",
        "The rest may be hidden behind computation, or was not recorded.",
    )
    host_share: float = threshold(
        0.75,
        "a host is late when so many of its processes are; otherwise the processes are named",
        "One of four or two of eight processes may hide their lateness, or have faults of their own.",
    )
    beyond_doubt_chance: float = threshold(
        0.0001,
        "who no collective confirms is named only when chance explains it with a smaller probability",
        "A hundredth of `max_chance`.",
    )
    whole_log_share: float = threshold(
        0.98,
        "with a smaller share of the records, nobody is named whom no collective confirms",
        "Two in a hundred are lost at the ends of logs, where a job begins and ends.",
    )
    gpu_launch_share: float = threshold(
        0.8,
        "of the lateness, the share between launch and start of a kernel from which on the GPU is late",
        "A judgement: the rest is the scatter of launches.",
    )
    cpu_launch_share: float = threshold(0.2, "up to which the CPU is late", "What `gpu_launch_share` leaves.")
    slow_transfer_deviations: float = threshold(
        5.0,
        "standard deviations of the noise between time blocks that a path must be slower to be slow",
        "Noise has tails, and there are many paths and blocks.",
    )
    healthy_transfer_deviations: float = threshold(
        2.5,
        "and may be slower to be fast",
        "The reference, the best tenth of healthy blocks, is 1.3 of them below the middle.",
    )
    usual_congested_share: float = threshold(
        0.05,
        "share of the time blocks in which a healthy network is congested, unless the run itself shows more",
        "A judgement from congestion in shared fabrics: now and then.",
    )
    stall_ratio: float = threshold(
        10.0,
        "a single collective that takes this many times as long as usual on all of its ranks stood still",
        "Congestion takes twice or three times as long; a link that goes down takes a second or more.",
    )
    stall_floor_us: float = threshold(
        100_000.0,
        "unless that is less than this",
        "InfiniBand and RoCE retry after some hundred milliseconds at the earliest.",
    )
    min_stalls: int = threshold(
        2, "times that transfers must stand still to be told", "Once may be a switch that was replaced."
    )
    told_loss_share: float = threshold(
        0.02,
        "lost records are told for information from this share on",
        "Less is lost at the ends of most logs.",
    )
    capture_gap_share: float = threshold(
        0.5,
        "as is a process of which a smaller share of what its peers have was recorded",
        "A judgement: it was not recorded as they were.",
    )
    many_short_logs_share: float = threshold(
        0.5,
        "when a larger share of the logs ends early, it is the end of the job that was not recorded, and no process is"
        " called silent",
        "A judgement: more than half are no exception.",
    )
    unwritten_us: float = threshold(
        1_000_000.0,
        "nor are as many as are sent in this time: a process that is killed has not written its last records",
        "Dump intervals of up to a second are in use; the plugin's documentation has 500 ms.",
    )
