"""Raw events of old runs are dropped once a day, when a limit is set."""

from dataclasses import asdict
from datetime import UTC, datetime

import dagster as dg
from pydantic import Field

from nixt_pipeline.defs.common import Result, fleet_result
from nixt_pipeline.defs.fleet import fleet_asset, table_checks
from nixt_pipeline.defs.metadata import arrow_preview
from nixt_pipeline.fleet.retention_policy import RETENTION, apply_retention, plan_retention
from nixt_pipeline.quality.fleet import RETENTION_RULES, judge_retention
from nixt_pipeline.settings import Settings


class RetentionConfig(dg.Config):
    """Whether anything is dropped."""

    dry_run: bool = Field(default=False, description="Only list what would be dropped")


@fleet_asset(RETENTION, code_version="1", deps=("run_catalog",), automated=False)
def retention(config: RetentionConfig, settings: dg.ResourceParam[Settings]) -> Result:
    """**The runs whose raw events were dropped**, and why others keep theirs.

    The limits are settings (`NIXT_RETENTION_DAYS`, `NIXT_RETENTION_BYTES`), off by default. Baselines and runs with a
    P0 or P1 finding keep their events. Results and reports of every run stay; the landing directory is never touched.
    """
    now = datetime.now(UTC)
    steps = plan_retention(now, settings)
    if not config.dry_run:
        steps = apply_retention(steps, now, settings)
    table = RETENTION.write(RETENTION.of(map(asdict, steps)), settings)
    gone = [step for step in steps if step.action in ("drop", "dropped")]
    numbers = {"runs_dropped": len(gone), "freed_mb": sum(step.event_bytes for step in gone) / 1e6}
    shown = {"oldest runs": arrow_preview(table, table.column_names)}
    return fleet_result(RETENTION.path(settings), table.num_rows, shown, numbers)


_job = dg.define_asset_job(
    "drop_old_events",
    dg.AssetSelection.assets("retention"),
    description="Drops the raw events of runs beyond the limits of the retention policy.",
    executor_def=dg.in_process_executor,
)
# At night: rebuilding the catalog is the only other work, but no one is waiting for it then.
_schedule = dg.ScheduleDefinition(
    name="drop_old_events_daily",
    job=_job,
    cron_schedule="30 3 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Without limits (the default) nothing is dropped.",
)

defs = dg.Definitions(
    assets=[retention],
    asset_checks=[table_checks("retention", RETENTION_RULES, judge_retention, RETENTION)],
    jobs=[_job],
    schedules=[_schedule],
)
