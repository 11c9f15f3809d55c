"""When a run became slower, which runs others are compared with, and which hosts to drain."""

from nixt_pipeline.thresholds.group import Group, threshold


class ComparisonThresholds(Group):
    """When a run became slower, and which runs others are compared with."""

    margin: float = threshold(
        0.05,
        "smaller changes between runs are ignored",
        "Rule B13; SuperBench treats repeated runs as equal within the same 5 %.",
    )
    error: float = threshold(
        0.05,
        "probability of reporting a change where there is none, over all kernels of a comparison",
        "Rule B13: q < 0.05.",
    )
    floor_us: float = threshold(
        1.0, "smaller changes of a transfer are within the resolution of the times", "Times are whole microseconds."
    )
    min_kernel_share: float = threshold(
        0.01,
        "kernels below this share of the time are shown, but do not decide",
        "A judgement: what takes so little time does not decide about a run.",
    )
    min_matched_share: float = threshold(
        0.5,
        "with a smaller share of the time in kernels of both sides, the sides do different work",
        "A judgement: less than half does not represent the whole.",
    )
    baseline_capture_rate: float = threshold(0.8, "capture rate that a run needs to be a baseline", "Rule B14.")
    baseline_complete_share: float = threshold(
        0.8,
        "share of complete collectives that a run needs to be a baseline",
        "Rule B14; if all ranks lost the same operations, the remaining ones are complete, hence both thresholds.",
    )
    baseline_min_cells: int = threshold(500, "complete collectives that it needs", "Rule B14.")
    baseline_min_runs: int = threshold(
        3, "runs needed to establish a baseline", "Three runs show whether one of them is an outlier."
    )
    baseline_outlier_mads: float = threshold(
        5.0,
        "robust deviations from the other runs beyond which a run is not a baseline",
        "SuperBench removes the run farthest from the median, and repeats.",
    )
    baseline_mode_gap: float = threshold(
        0.7,
        "share of the spread of all runs that a gap must have to split them into two groups",
        "A judgement: two fabrics or two clock settings leave such a gap.",
    )
    baseline_max_age_days: int = threshold(
        90, "older runs are no longer a baseline, unless pinned", "A quarter: drivers, firmware and cables change."
    )
    countable_capture_rate: float = threshold(
        0.95,
        "capture rate from which counts and volumes of a run are those of the job",
        "A judgement: counts that are off by as much as the margin decide nothing.",
    )
    characteristic_share: float = threshold(
        0.05,
        "share of a run's bytes from which a kernel is part of the run's workload",
        "A few kernels carry nearly all bytes (97 % in the paper's top two to four); small ones come and go."
        " Bytes, because times vary from run to run.",
    )
    min_replicates: int = threshold(
        3,
        "runs on different hosts from which hosts are part of what varies by chance",
        "As for `min_host_sets`: two show one difference and no spread.",
    )
    max_namespaced_pid: int = threshold(
        300,
        "process ids below this are those of a container",
        "Kernel threads take the first few hundred process ids of a machine; a process namespace starts at 1.",
    )
    min_host_sets: int = threshold(
        3, "sets of hosts needed to know how much hosts differ", "Two show one difference and no spread."
    )
    finding_cost_error: float = threshold(
        1.5,
        "factor by which the cost of a finding may be underestimated when a slowdown is explained by it",
        "A judgement: the cost of a finding is an estimate, good to about half.",
    )
    host_recent_runs: int = threshold(
        3,
        "a host is to be drained only if a finding flags it in one of this many of its latest runs",
        "A judgement: after three runs without a finding it counts as repaired.",
    )
