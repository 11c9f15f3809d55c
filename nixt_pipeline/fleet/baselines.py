"""Which runs are fit to be compared with: `<data>/results/baselines.parquet`, one row for each run.

A baseline belongs to a workload. Its members are complete, unsuspicious and similar; a user can pin or reject a run.
Nothing is ever averaged into a drifting reference: a run that has become slower gets a finding, and does not
become a member.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from nixt_pipeline.fleet.decisions import Decision, DecisionsError, read_decisions
from nixt_pipeline.fleet.tables import FleetTable, Row
from nixt_pipeline.fleet.workload import all_kernels, workload_of
from nixt_pipeline.grouping import grouped
from nixt_pipeline.inspector.taxonomy import BOOL, F64, I32, I64, RUN, STRING, Column, Role
from nixt_pipeline.settings import Settings, Thresholds
from nixt_pipeline.store.reading import warn_once

VERSION = "2"

BASELINES = FleetTable(
    "baselines",
    RUN,
    Column("workload", STRING, Role.DERIVED, "", "Runs with the same value do the same work", nullable=False),
    Column("fit", BOOL, Role.DERIVED, "", "Whether the run is a member of its workload's baseline", nullable=False),
    Column("reason", STRING, Role.DERIVED, "", "Why it is one, or is not", nullable=False),
    Column("decision", STRING, Role.CONFIGURATION, "", "pinned or rejected by a user; null if left to the rules"),
    Column("mode", I32, Role.DERIVED, "", "1 or 2: the group of similar runs, if a workload has two"),
    Column("level", F64, Role.DERIVED, "", "Transfer times relative to the median of the workload's runs"),
    Column("established", BOOL, Role.DERIVED, "", "Whether the baseline has enough members", nullable=False),
    Column("first_dump_us", I64, Role.COUNTER, "us", "Earliest plausible write time of the run"),
)


@dataclass(frozen=True)
class Candidate:
    """A run on its way into the baseline."""

    run: str
    workload: str
    first_dump_us: int | None
    transfers: Mapping[tuple[object, ...], tuple[float, float]]  # kernel -> median transfer, time it stands for
    fit: bool
    reason: str
    decision: str | None = None
    mode: int | None = None
    level: float | None = None


def update_baselines(catalog_rows: Sequence[Row], settings: Settings) -> pa.Table:
    """Judge every run of the run catalog and write the result."""
    return BASELINES.write(current_baselines(catalog_rows, settings), settings)


def current_baselines(catalog_rows: Sequence[Row], settings: Settings) -> pa.Table:
    """The table as `update_baselines` would write it: for readers of a store that they may not write to."""
    kernels = all_kernels((row["run"] for row in catalog_rows), settings)
    return find_baselines(catalog_rows, kernels, _decisions(settings), settings.thresholds)


def _decisions(settings: Settings) -> dict[str, Decision]:
    """What people decided; when their file is damaged, what the table of baselines remembers of it."""
    try:
        return read_decisions(settings)
    except DecisionsError as error:
        warn_once(f"{error}; until then the last known decisions apply")
        rows = read_baselines(settings).to_pylist()
        return {row["run"]: Decision(decision=row["decision"], reason=row["reason"]) for row in rows if row["decision"]}


def find_baselines(
    catalog_rows: Iterable[Row],
    kernels: Mapping[str, Sequence[Row]],
    decisions: Mapping[str, Decision],
    limits: Thresholds,
) -> pa.Table:
    """The table of baselines. `kernels` has the rows of `run_kernels` of each run."""
    analysed = (row for row in catalog_rows if row["run"] in kernels)
    found = (_candidate(row, kernels[row["run"]], decisions.get(row["run"]), limits) for row in analysed)
    rows: list[dict[str, Any]] = []
    for candidates in grouped(found, lambda candidate: candidate.workload).values():
        judged = _alike(candidates, limits)
        established = sum(c.fit for c in judged) >= limits.comparison.baseline_min_runs or any(
            c.fit and c.decision == "pinned" for c in judged
        )
        names = [column.name for column in BASELINES.columns if column.name != "established"]
        rows += [{name: getattr(c, name) for name in names} | {"established": established} for c in judged]
    return BASELINES.of(sorted(rows, key=lambda row: str(row["run"])))


def members(
    table: pa.Table, workload: str, before_us: int, limits: Thresholds, without: str = ""
) -> dict[int, list[str]]:
    """Mode -> its members among runs that began before `before_us` and have not expired then; pinned ones first, then
    the newest.

    Pinned runs do not expire. Empty when the baseline is not established.
    """
    oldest_us = before_us - limits.comparison.baseline_max_age_days * 86_400_000_000
    rows = [
        row
        for row in table.to_pylist()
        if row["workload"] == workload
        and row["fit"]
        and row["run"] != without
        and (row["decision"] == "pinned" or oldest_us <= (row["first_dump_us"] or 0) < before_us)
    ]
    if len(rows) < limits.comparison.baseline_min_runs and not any(row["decision"] == "pinned" for row in rows):
        return {}
    rows.sort(key=lambda row: (row["decision"] != "pinned", -(row["first_dump_us"] or 0), row["run"]))
    by_mode = grouped(rows, lambda row: row["mode"] or 1)
    found = {mode: [row["run"] for row in its] for mode, its in by_mode.items()}
    pinned = {row["mode"] or 1 for row in rows if row["decision"] == "pinned"}
    # A group of which one run is there yet is no group: the first slow run is no reference for the second.
    alone = {mode for mode, runs in found.items() if len(found) > 1 and len(runs) < 2 and mode not in pinned}
    return {mode: runs for mode, runs in sorted(found.items()) if mode not in alone}


def read_baselines(settings: Settings) -> pa.Table:
    """The stored table; empty before the first."""
    stored = BASELINES.read(settings)
    return BASELINES.of(()) if stored is None else stored


def _candidate(row: Row, kernels: Sequence[Row], decision: Decision | None, limits: Thresholds) -> Candidate:
    # Results of earlier versions have no capped transfer.
    usable = [kernel for kernel in kernels if kernel["cells"] and kernel["transfer_capped_us"] is not None]
    key = ("coll", "n_ranks", "nnodes", "coll_msg_size_bytes")
    transfers = {
        tuple(kernel[name] for name in key): (kernel["transfer_capped_us"], kernel["transfer_us"] * kernel["n_ranks"])
        for kernel in usable
    }
    pinned = (decision is not None and decision.decision == "pinned") or (decision is None and row["baseline"])
    said = decision.decision if decision else ("pinned" if row["baseline"] else None)
    obstacle = _obstacle(row, usable, limits)
    if decision and decision.decision == "rejected":
        obstacle = f"rejected: {decision.reason or 'by a user'}"
    elif pinned and usable:
        obstacle = ""
    why = (decision.reason if decision else "") or ("by a user" if decision else "marked as baseline in run.json")
    reason = obstacle or (f"pinned: {why}" if pinned else _fitness(row))
    workload = workload_of(row["gpus"], kernels, limits)
    return Candidate(row["run"], workload, row["first_dump_us"], transfers, not obstacle, reason, said)


def _obstacle(row: Row, usable: Sequence[Row], limits: Thresholds) -> str:
    """Why a run is no reference; empty when it may be one."""
    if not usable:
        return "no transfer times: no collective was recorded by all ranks with GPU times"
    if row["verdict"] is None:
        return "not diagnosed yet"
    if row["verdict"] == "not-assessable":
        return "not assessable"
    found = urgent_finding(row)
    if found:
        return found
    captured, complete = row["capture_rate"], row["complete_share"]
    if captured is None or complete is None:
        return f"its capture rate is unknown: nixt report {row['run']} computes it"
    if captured < limits.comparison.baseline_capture_rate:
        return f"only {captured:.0%} of the records were captured"
    if complete < limits.comparison.baseline_complete_share:
        return f"only {complete:.0%} of the collectives were recorded by all ranks"
    cells = sum(kernel["cells"] for kernel in usable)
    if cells < limits.comparison.baseline_min_cells:
        return f"only {cells} usable collectives"
    return ""


def _fitness(row: Row) -> str:
    """Why a run that nothing speaks against is fit, without calling it better than it is."""
    found = f"with findings up to {row['worst_severity']} only" if row["worst_severity"] else "without findings"
    shares = row["capture_rate"], row["complete_share"]
    if min(shares) >= 0.995:  # what would be printed as 100 %
        return f"complete and {found}"
    return f"{shares[0]:.0%} of the records captured, {shares[1]:.0%} of the collectives by all ranks, {found}"


def urgent_finding(row: Row) -> str:
    """What keeps a run of the run catalog from ever being the reference of a comparison; empty for most."""
    if row["worst_severity"] in ("P0", "P1"):
        return f"has a finding of severity {row['worst_severity']}"
    return "slower than the baseline it was compared with" if row["regressed"] else ""


def _alike(candidates: Sequence[Candidate], limits: Thresholds) -> list[Candidate]:
    """Drop outliers, and tell two groups apart, among the runs of one workload."""
    levels = _levels(candidates)
    placed = [replace(c, level=float(np.exp(level))) for c, level in zip(candidates, levels, strict=True)]
    fit = [number for number, c in enumerate(placed) if c.fit]
    modes = _modes([levels[number] for number in fit], limits)
    if _follow_one_another([placed[number] for number in fit], modes):
        # Not two kinds of run that take turns, but a change: the slower side of it is no reference.
        for number, mode in zip(fit, modes, strict=True):
            if mode == 2 and placed[number].decision != "pinned":
                slower = f"{placed[number].level:.2f} times as long as the runs before or after a change"
                placed[number] = replace(placed[number], fit=False, reason=slower)
        fit, modes = [number for number in fit if placed[number].fit], [1] * sum(placed[number].fit for number in fit)
    for mode in (1, 2):
        group = [number for number, its in zip(fit, modes, strict=True) if its == mode]
        kept = _without_outliers([levels[number] for number in group], limits)
        for number, is_kept in zip(group, kept, strict=True):
            placed[number] = replace(placed[number], mode=mode)
            if not is_kept and placed[number].decision != "pinned":
                unlike = f"unlike the other runs: takes {placed[number].level:.2f} times as long"
                placed[number] = replace(placed[number], fit=False, reason=unlike)
    return placed


def _levels(candidates: Sequence[Candidate]) -> list[float]:
    """The logarithm of each run's transfer times relative to the workload's middle, weighted by time."""
    by_kernel: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for candidate in candidates:
        if candidate.fit or not any(c.fit for c in candidates):
            for key, (transfer_us, _) in candidate.transfers.items():
                by_kernel[key].append(transfer_us)
    middle = {key: float(np.median(values)) for key, values in by_kernel.items()}
    levels = []
    for candidate in candidates:
        common = [(middle[key], *both) for key, both in candidate.transfers.items() if middle.get(key)]
        weights = [weight for _, _, weight in common]
        ratios = [np.log(transfer_us / usual) for usual, transfer_us, _ in common if transfer_us > 0]
        usable = len(ratios) == len(weights) and sum(weights) > 0
        levels.append(float(np.average(ratios, weights=weights)) if usable else 0.0)
    return levels


def _modes(levels: Sequence[float], limits: Thresholds) -> list[int]:
    """1 for each, or 1 and 2 where a wide gap divides the runs and at least two lie on each side."""
    if len(levels) < 4:
        return [1] * len(levels)
    ordered = np.sort(levels)
    gaps = np.diff(ordered)
    widest = int(gaps.argmax())
    spread = float(ordered[-1] - ordered[0])
    divided = (
        gaps[widest] > limits.comparison.baseline_mode_gap * spread
        and gaps[widest] > np.log1p(limits.comparison.margin)
        and 2 <= widest + 1 <= len(levels) - 2
    )
    border = (ordered[widest] + ordered[widest + 1]) / 2
    return [2 if divided and level > border else 1 for level in levels]


def _follow_one_another(candidates: Sequence[Candidate], modes: Sequence[int]) -> bool:
    """Whether there are two groups, and one had ended when the other began."""
    if 2 not in modes:
        return False
    began: dict[int, list[int]] = {1: [], 2: []}
    for candidate, mode in zip(candidates, modes, strict=True):
        began[mode].append(candidate.first_dump_us or 0)
    return max(began[1]) < min(began[2]) or max(began[2]) < min(began[1])


def _without_outliers(levels: Sequence[float], limits: Thresholds) -> list[bool]:
    """Whether each run stays: the farthest goes as long as it is more than so many deviations from the others' median.

    Deviations are robust (1.4826 times the median absolute deviation), and at least a fifth of the margin, because runs
    that happen to agree closely make an outlier of every other.
    """
    kept = list(range(len(levels)))
    while len(kept) > 2:
        values = np.array([levels[number] for number in kept])
        distances = np.abs(values - np.median(values))
        deviation = max(1.4826 * float(np.median(distances)), limits.comparison.margin / 5)
        if distances.max() <= limits.comparison.baseline_outlier_mads * deviation:
            break
        del kept[int(distances.argmax())]
    return [number in kept for number in range(len(levels))]
