"""Each run against the baseline of its workload, or against an earlier run: `<data>/results/run_comparison.parquet`.

What a run is compared with is chosen here, for the asset and for `nixt compare B`. A run is compared again only when
it, or what it is compared with, has changed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from nixt_pipeline.analysis.run_kernels import RUN_KERNELS
from nixt_pipeline.fleet.baselines import current_baselines, members, read_baselines, urgent_finding
from nixt_pipeline.fleet.compare.compare import ComparisonError, compare_on_machines
from nixt_pipeline.fleet.compare.comparison import Comparison, Measure
from nixt_pipeline.fleet.compare.matching import Side
from nixt_pipeline.fleet.compare.summaries import RunSummary, sound_summaries, stored_summary
from nixt_pipeline.fleet.tables import FleetTable, Row
from nixt_pipeline.grouping import grouped
from nixt_pipeline.inspector.taxonomy import BOOL, F64, I64, RUN, STRING, Column, Role
from nixt_pipeline.settings import Settings, Thresholds
from nixt_pipeline.store import layout

# Part of a row's state: raise it when a row would come out differently.
VERSION = "3"
# More members add little to the variance, and each is read anew for each comparison.
MAX_MEMBERS = 8
# What a comparison is made of.
_RESULTS = (RUN_KERNELS.name, "findings")

_NAMES = pa.list_(pa.string())


def _change(name: str, meaning: str) -> Column:
    return Column(name, F64, Role.DERIVED, "", meaning)


COMPARISONS = FleetTable(
    "run_comparison",
    RUN,
    Column("workload", STRING, Role.DERIVED, "", "Runs with the same one do the same work"),
    Column("first_dump_us", I64, Role.COUNTER, "us", "Earliest plausible write time of the run"),
    Column("against", _NAMES, Role.DERIVED, "", "The runs it was compared with; empty when there is none"),
    Column("reference", STRING, Role.DERIVED, "", "baseline, or previous: an earlier run without urgent findings"),
    Column("verdict", STRING, Role.DERIVED, "", "As of nixt compare: regressed, slower-other-hosts, equivalent, ..."),
    Column("suspected", BOOL, Role.DERIVED, "", "Whether the verdict rests on one run on each side"),
    Column("reason", STRING, Role.DERIVED, "", "The verdict in a sentence"),
    _change("transfer_change", "Relative change of the transfer over all comparable kernels"),
    _change("transfer_low", "Lower end of its interval"),
    _change("transfer_high", "Upper end of its interval"),
    _change("waiting_change", "Change of waiting, relative to the whole time"),
    _change("waiting_low", "Lower end of its interval"),
    _change("waiting_high", "Upper end of its interval"),
    _change("transfer_explained", "Share of the longer transfer that findings of the slower side explain"),
    _change("waiting_explained", "Share of the longer waiting that they explain"),
    Column("explained_by", _NAMES, Role.DERIVED, "", "Hosts that these findings name"),
    Column("state", STRING, Role.IDENTIFIER, "", "What the row was made from", nullable=False),
)


@dataclass(frozen=True)
class Reference:
    """What a run is compared with: `kind` is baseline or previous."""

    kind: str
    groups: tuple[tuple[str, ...], ...]

    @property
    def runs(self) -> tuple[str, ...]:
        """All of its runs."""
        return tuple(run for group in self.groups for run in group)


def update_comparisons(catalog_rows: Sequence[Row], settings: Settings) -> tuple[pa.Table, list[Comparison]]:
    """Compare the runs of the run catalog whose comparison is new or out of date; write and return the whole table,
    and the comparisons that were made."""
    known = {row["run"]: row for row in COMPARISONS.rows(settings) or ()}
    facts = {row["run"]: row for row in catalog_rows}
    rows, made = [], []
    for run, workload, reference in references(read_baselines(settings), facts, settings.thresholds):
        state = _state(run, reference, settings)
        row = known.get(run)
        if row is None or row["state"] != state:
            comparison = None
            if reference:
                for summary in sound_summaries([run], lambda name: stored_summary(name, facts[name], settings)):
                    comparison = compare_with(summary, reference, facts, settings)
            began_us = facts[run]["first_dump_us"]
            row = {"run": run, "workload": workload, "first_dump_us": began_us, "state": state}
            row |= _row(reference, comparison)
            made += [comparison] if comparison else []
        rows.append(row)
    table = COMPARISONS.of(sorted(rows, key=lambda row: str(row["run"])))
    return COMPARISONS.write(table, settings), made


def references(
    table: pa.Table, facts: Mapping[str, Row], limits: Thresholds
) -> Iterator[tuple[str, str, Reference | None]]:
    """Run, workload and what the run is to be compared with, for each run of the `table` of baselines."""
    in_time = sorted(table.to_pylist(), key=lambda row: (row["first_dump_us"] or 0, row["run"]))
    for workload, rows in grouped(in_time, lambda row: row["workload"]).items():
        its = pa.Table.from_pylist(rows, schema=table.schema)
        previous = None
        for row in rows:
            run = row["run"]
            if run in facts:
                yield run, workload, reference_of(run, workload, row["first_dump_us"], its, previous, limits)
                previous = run if _may_be_previous(row, facts[run], limits) else previous


def _may_be_previous(row: Row, facts: Row, limits: Thresholds) -> bool:
    """Whether a run may be the reference of the next one while its workload has no baseline.

    It need not have a baseline's sample, but an urgent finding rules it out: being faster than a run with a slow host
    says nothing.
    """
    assessed = facts["verdict"] in ("findings", "none-found")
    captured = (facts["capture_rate"] or 0.0) >= limits.analysis.min_capture_rate
    return assessed and captured and row["decision"] != "rejected" and not urgent_finding(facts)


def reference_of(
    run: str, workload: str, began_us: int | None, table: pa.Table, previous: str | None, limits: Thresholds
) -> Reference | None:
    """The baseline of the run's workload as it was when the run began, or else the run `previous`; None without."""
    groups = members(table, workload, began_us or 0, limits, without=run)
    if groups:
        return Reference("baseline", tuple(tuple(runs[:MAX_MEMBERS]) for runs in groups.values()))
    return Reference("previous", ((previous,),)) if previous else None


def compare_with_reference(runs: Sequence[str], rows: Sequence[Row], settings: Settings) -> Comparison:
    """Compare one analysed run with what the asset `run_comparison` would compare it with: the baseline of its workload
    as of the run's beginning, or else an earlier run of the same work. Raises `ComparisonError`."""
    if len(runs) != 1:
        raise ComparisonError(f"{len(runs)} runs are selected; only one can be compared with a baseline")
    facts = {row["run"]: row for row in rows}
    # The stored table can be older than the diagnosis of the latest run; the asset has just made its own anew.
    table = current_baselines(rows, settings)
    reference = {run: found for run, _, found in references(table, facts, settings.thresholds)}.get(runs[0])
    if reference is None:
        raise ComparisonError(
            f"run {runs[0]} has no baseline, and no earlier run of the same work qualifies: "
            f"`nixt baselines` says why; name the runs to compare with, or pin one"
        )
    found = compare_with(stored_summary(runs[0], facts[runs[0]], settings), reference, facts, settings)
    if found is None:
        raise ComparisonError(f"the results of {', '.join(reference.runs)} are damaged; nixt report rebuilds them")
    return found


def compare_with(
    run: RunSummary, reference: Reference, facts: Mapping[str, Row], settings: Settings
) -> Comparison | None:
    """Compare a run with its reference. Where a workload has two groups of runs, with the one that it is most like.
    None when the files of all of them are damaged."""
    groups = [
        sound_summaries(group, lambda name: stored_summary(name, facts[name], settings)) for group in reference.groups
    ]
    sides = [Side(group[0].run if reference.kind == "previous" else "its baseline", group) for group in groups if group]
    found = [compare_on_machines(side, Side(run.run, (run,)), settings) for side in sides]
    return min(found, key=lambda comparison: abs(_value(comparison.transfer, "change") or 0.0), default=None)


def _state(run: str, reference: Reference | None, settings: Settings) -> str:
    """Changes with the run, with what it is compared with, and with the kernels and findings of each."""
    names = (run, *(reference.runs if reference else ()))
    paths = {name: [layout.results_path(result, name, settings) for result in _RESULTS] for name in names}
    times = {name: "/".join(str(path.stat().st_mtime_ns) for path in paths[name] if path.exists()) for name in names}
    return " ".join((VERSION, *(f"{name}@{time}" for name, time in times.items())))


def _row(reference: Reference | None, comparison: Comparison | None) -> dict[str, Any]:
    if reference is None or comparison is None:
        return {"against": []}
    return {
        "against": [run.run for run in comparison.a.runs],
        "reference": reference.kind,
        "verdict": comparison.verdict,
        "suspected": comparison.suspected,
        "reason": comparison.reason,
        **_explained(comparison),
        **{
            f"{name}_{part}": _value(measure, part)
            for name, measure in (("transfer", comparison.transfer), ("waiting", comparison.waiting))
            for part in ("change", "low", "high")
        },
    }


def _explained(comparison: Comparison) -> dict[str, Any]:
    found = comparison.explanation
    if found is None:
        return {}
    return {
        "transfer_explained": found.transfer_share,
        "waiting_explained": found.waiting_share,
        "explained_by": sorted({host for cause in found.causes for host in cause.hosts}),
    }


def _value(measure: Measure | None, part: str) -> float | None:
    return getattr(measure.estimate, part) if measure and measure.estimate else None
