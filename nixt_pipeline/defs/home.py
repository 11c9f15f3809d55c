"""Where Dagster keeps its history, and how its UI is started without knowing Dagster: `nixt ui`.

In a checkout, `dagster dev -w workspace.yaml` does the same with `dagster.yaml`, which describes the same instance.
"""

import os
import sys
from pathlib import Path
from typing import NoReturn

from nixt_pipeline.settings import Settings
from nixt_pipeline.store.files import write_text

# The part of the instance's configuration that holds wherever its home is; `dagster.yaml` has it word for word.
INSTANCE_CONFIG = """\
concurrency:
  runs:
    # Each ingest uses NIXT_WORKERS processes (all cores by default): raise this for many small runs on a large machine.
    max_concurrent_runs: 4
    # A training run is worked on by one Dagster run at a time; a second one waits in the queue.
    tag_concurrency_limits:
      - key: dagster/partition
        value:
          applyLimitPerUniqueValue: true
        limit: 1

# A run whose process dies (out of memory, reboot) is marked as failed and tried once more. A step that fails by itself,
# such as a check that stops a run, would fail again: the sensor decides about those.
run_monitoring:
  enabled: true
run_retries:
  enabled: true
  max_retries: 1
  retry_on_asset_or_op_failure: false

# A look at a slow file system must not hold up the automation of the cross-run assets.
sensors:
  use_threads: true
  num_workers: 2

retention:
  sensor:
    purge_after_days:
      skipped: 2
      success: 7
      failure: 30

telemetry:
  enabled: false
# The dialog that asks for an e-mail address on the first visit.
nux:
  enabled: false
"""
# The daemon gives up on a sensor after this long, with an error that names no timeout. The default of 60 s is short for
# a landing directory on a slow file system.
_SENSOR_TIMEOUT_S = 300


def prepare_home(settings: Settings) -> Path:
    """Make sure that Dagster's home below the data directory exists, and return it; an edited config is kept."""
    home = (settings.data_dir / "dagster").resolve()
    config = home / "dagster.yaml"
    if not config.exists():
        write_text(INSTANCE_CONFIG, config)
    return home


def ui_environment(settings: Settings) -> dict[str, str]:
    """The environment for Dagster's processes; a DAGSTER_HOME that is set already wins."""
    return {
        "DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS": str(_SENSOR_TIMEOUT_S),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        **os.environ,
        "DAGSTER_HOME": os.environ.get("DAGSTER_HOME") or str(prepare_home(settings)),
    }


def serve(settings: Settings, host: str = "127.0.0.1", port: int = 3000) -> NoReturn:
    """Become `dagster dev`: the UI, and the daemon that looks for finished runs. Does not return."""
    command = ["-m", "dagster", "dev", "-m", "nixt_pipeline.definitions", "--host", host, "--port", str(port)]
    os.execve(sys.executable, [sys.executable, *command], ui_environment(settings))
