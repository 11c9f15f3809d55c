"""What keeps the fleet's assets up to date without a schedule."""

import dagster as dg

from nixt_pipeline.defs.common import FLEET

_fleet_automation = dg.AutomationConditionSensorDefinition(
    "fleet_automation",
    target=dg.AssetSelection.groups(FLEET),
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Updates the fleet assets whenever any run has new results, even if other runs failed.",
)

defs = dg.Definitions(sensors=[_fleet_automation])
