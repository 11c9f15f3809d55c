"""A Dagster instance in memory, the code location over a test's own folders, and a run of a few records."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from nixt_pipeline.definitions import build_definitions
from nixt_pipeline.defs.partitions import PARTITION_NAME
from nixt_pipeline.defs.resources import NixtSettings
from nixt_pipeline.settings import Settings
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log

RUN = "nccl-inspector-7"


def resource(settings: Settings) -> NixtSettings:
    """The settings as the resource that assets ask for; a directory counts as finished at once."""
    overrides = {
        "landing_dir": str(settings.landing_dir),
        "data_dir": str(settings.data_dir),
        "reports_dir": str(settings.reports_dir),
        "workers": 1,
        "quiet_period_s": 0,
        "unlink_grace_s": settings.unlink_grace_s,
    }
    return NixtSettings(overrides=overrides)


@pytest.fixture
def nixt(settings: Settings) -> NixtSettings:
    """The resource over the test's own folders."""
    return resource(settings)


@pytest.fixture
def definitions(nixt: NixtSettings) -> dg.Definitions:
    """The code location over the test's folders."""
    return build_definitions(nixt)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """An instance that forgets everything."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def drop_job(landing: Path, run: str = RUN, collectives: int = 3) -> Path:
    """What a job of two ranks on one host leaves behind: the same collectives from each of them."""
    for rank in (0, 1):
        lines = [
            # Rank 1 comes last every time: it waits for nobody. 1 MB in 100 us are 10 GB/s, in 50 us 20 GB/s.
            collective(
                sn=sn,
                rank=rank,
                n_ranks=2,
                pid=100 + rank,
                time_us=(100, 50)[rank],
                at_us=EPOCH_US + sn,
                busbw=(10.0, 20.0)[rank],
            )
            for sn in range(collectives)
        ]
        write_log(landing / run / f"node-01-pid{100 + rank}.log", *lines)
    return landing / run


def execute(
    definitions: dg.Definitions,
    instance: dg.DagsterInstance,
    run: str = RUN,
    job: str = "ingest_run",
    only: Sequence[str] = (),
    config: Mapping[str, Any] | None = None,
) -> dg.ExecuteInProcessResult:
    """Run a job for one run, as the sensor would have it run; `only` restricts it to some of its assets."""
    instance.add_dynamic_partitions(PARTITION_NAME, [run])
    return definitions.resolve_job_def(job).execute_in_process(
        instance=instance,
        partition_key=run,
        run_config=config,
        asset_selection=[dg.AssetKey(name) for name in only] or None,
        raise_on_error=False,
    )
