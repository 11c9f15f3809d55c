"""The example of docs/extending.md, as a reader would try it: loaded and materialised by Dagster's own commands."""

import re
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from nixt_pipeline.settings import Settings
from nixt_pipeline.store.ingest import ingest
from nixt_pipeline_tests.defs.conftest import drop_job

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent
RUN = "nccl-inspector-41012"


@pytest.mark.slow
def test_the_example_is_loaded_and_materialised(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for language, name in (("python", "my_analyses.py"), ("yaml", "workspace.yaml")):
        (text,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
        assert text.startswith(f"# {name}\n")
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert len([line for line in (tmp_path / "my_analyses.py").read_text().splitlines() if line]) <= 20
    ingest(drop_job(settings.landing_dir, RUN), RUN, settings)  # below the working directory, as the defaults are
    monkeypatch.setenv("PATH", str(BIN), prepend=":")
    monkeypatch.setenv("DAGSTER_DISABLE_TELEMETRY", "yes")
    home = subprocess.check_output([sys.executable, "-m", "nixt_pipeline.defs.home"], text=True).strip()
    monkeypatch.setenv("DAGSTER_HOME", home)
    with dg.DagsterInstance.get() as instance:
        instance.add_dynamic_partitions("run", [RUN])  # as the sensor does
        for command in re.findall(r"^dagster (?:definitions|asset) .*$", PAGE, flags=re.MULTILINE):
            subprocess.run(command.split(), check=True, cwd=tmp_path)
        event = instance.get_latest_materialization_event(dg.AssetKey("allreduce_by_host"))
    assert event is not None and event.asset_materialization is not None
    materialisation = event.asset_materialization
    assert materialisation.partition == RUN
    assert materialisation.metadata["hosts"].value == 1
    # From the job: three collectives, with a record of each of two ranks, of 100 us and of 50 us.
    table = materialisation.metadata["table"]
    assert isinstance(table, dg.TableMetadataValue)
    assert table.records[0].data == {"hostname": "node-01", "records": 6, "median_us": 75.0}
