"""Which runs lose their raw events, by age and by size, and which keep them.

The policy names runs; nothing else is ever deleted. Runs that new ones are compared with, and runs with urgent
findings, keep their events, because they may be needed for another look. Every run keeps its small results.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import pyarrow as pa

from nixt_pipeline.analysis.run_kernels import RUN_KERNELS
from nixt_pipeline.errors import NixtError
from nixt_pipeline.fleet.against import MAX_MEMBERS
from nixt_pipeline.fleet.baselines import current_baselines, members
from nixt_pipeline.fleet.catalog import catalog_rows
from nixt_pipeline.fleet.tables import FleetTable, Row
from nixt_pipeline.inspector.taxonomy import I64, RUN, STRING, Column, Role
from nixt_pipeline.settings import Settings, Thresholds
from nixt_pipeline.store import layout
from nixt_pipeline.store.catalog import publish_catalog
from nixt_pipeline.store.dropped import collect, dropped
from nixt_pipeline.store.ingest import run_lock
from nixt_pipeline.store.manifest import published_runs, read_manifest
from nixt_pipeline.store.retention import drop_events, event_bytes

_DAY_US = 86_400_000_000


RETENTION = FleetTable(
    "retention",
    RUN,
    Column("action", STRING, Role.DERIVED, "", "drop (planned), dropped, keep, or failed", nullable=False),
    Column("event_bytes", I64, Role.COUNTER, "bytes", "Size of the run's raw events", nullable=False),
    Column("reason", STRING, Role.DERIVED, "", "Why", nullable=False),
)


@dataclass(frozen=True)
class Holding:
    """What a run holds: `held` says why its events are kept whatever the limits, empty when they need not be."""

    run: str
    ended_us: int
    event_bytes: int
    held: str = ""


@dataclass(frozen=True)
class Step:
    """What happens to the events of one run, and why."""

    run: str
    action: Literal["drop", "keep", "dropped", "failed"]
    event_bytes: int
    reason: str


def plan(holdings: Iterable[Holding], settings: Settings, now_us: int) -> list[Step]:
    """What the policy does to each run, the oldest first: events go when a run is older than `retention_days`, and,
    the oldest first, while all events together are larger than `retention_bytes`. 0 means without limit."""
    ordered = sorted(holdings, key=lambda holding: (holding.ended_us, holding.run))
    left = sum(holding.event_bytes for holding in ordered)
    steps = []
    for holding in ordered:
        age_days = (now_us - holding.ended_us) / _DAY_US
        reason = ""
        if settings.retention_days and age_days > settings.retention_days:
            reason = f"older than {settings.retention_days:g} days"
        elif settings.retention_bytes and left > settings.retention_bytes:
            reason = f"all events together take more than {settings.retention_bytes / 1e9:g} GB"
        if not holding.event_bytes:
            continue
        if reason and not holding.held:
            left -= holding.event_bytes
            steps.append(Step(holding.run, "drop", holding.event_bytes, reason))
        else:
            steps.append(Step(holding.run, "keep", holding.event_bytes, holding.held or "within the limits"))
    return steps


def plan_retention(now: datetime, settings: Settings) -> list[Step]:
    """What the policy would do to the runs of the store; nothing is changed."""
    rows = catalog_rows(settings)
    used = _used_baselines(current_baselines(rows, settings), settings.thresholds)
    holdings = [
        Holding(row["run"], _ended_us(row), event_bytes(row["run"], settings), _held(row, used, settings))
        for row in rows
    ]
    return plan(holdings, settings, int(now.timestamp() * 1e6))


def apply_retention(steps: Sequence[Step], now: datetime, settings: Settings) -> list[Step]:
    """Drop what the steps say; returns them with what became of each. Files go once no reader can have them open
    (`Settings.unlink_grace_s`): those of earlier times now, those of these steps the next time."""
    done = []
    for step in steps:
        if step.action == "drop":
            try:
                freed = drop_events(step.run, settings, step.reason, now)
                step = Step(step.run, "dropped", freed, step.reason)
            except NixtError as error:
                step = Step(step.run, "failed", step.event_bytes, str(error))
        done.append(step)
    if any(step.action == "dropped" for step in done):
        # Readers no longer find the files before they are removed.
        publish_catalog(settings)
    for run in published_runs(settings):
        with run_lock(run, settings):
            collect(run, settings)
    return done


def _used_baselines(table: pa.Table, limits: Thresholds) -> set[str]:
    """The members of baselines that the next run of their workload would be compared with."""
    newest: dict[str, int] = {}
    for row in table.to_pylist():
        newest[row["workload"]] = max(newest.get(row["workload"], 0), row["first_dump_us"] or 0)
    groups = [members(table, workload, began_us + 1, limits) for workload, began_us in newest.items()]
    return {run for modes in groups for runs in modes.values() for run in runs[:MAX_MEMBERS]}


def _held(row: Row, used: set[str], settings: Settings) -> str:
    """Why a run keeps its events whatever the limits."""
    has_results = layout.results_path(RUN_KERNELS.name, row["run"], settings).exists() and row["analysed"]
    if dropped(read_manifest(row["run"], settings).directory(settings)) is not None:
        return ""  # after the marker was written: there is nothing left to keep
    if not (has_results and row["verdict"]):
        return "not analysed yet"
    if "baselines" in settings.retention_keep and row["run"] in used:
        return "a baseline"
    if "findings" in settings.retention_keep and row["worst_severity"] in ("P0", "P1"):
        return f"has a finding of severity {row['worst_severity']}"
    return ""


def _ended_us(row: Row) -> int:
    """When the run ended, or when it was ingested if its log does not tell."""
    if row["last_dump_us"]:
        return int(row["last_dump_us"])
    return int(datetime.fromisoformat(row["ingested_at"]).astimezone(UTC).timestamp() * 1e6)
