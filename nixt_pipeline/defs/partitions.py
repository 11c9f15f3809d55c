"""The one partition dimension: a run, which is one dump directory of one training job.

Runs appear when jobs end, so the partitions are dynamic: the sensor `finished_runs` adds one per directory.
"""

import dagster as dg

PARTITION_NAME = "run"

runs = dg.DynamicPartitionsDefinition(name=PARTITION_NAME)
