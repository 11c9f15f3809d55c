import subprocess
import sys
from pathlib import Path

import pytest

from nixt_pipeline.defs.home import INSTANCE_CONFIG, prepare_home, ui_environment
from nixt_pipeline.settings import Settings, load_settings


@pytest.fixture(autouse=True)
def no_home_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)


def test_the_home_lies_below_the_data_directory(settings: Settings) -> None:
    home = prepare_home(settings)
    assert home == settings.data_dir / "dagster"
    assert (home / "dagster.yaml").read_text(encoding="utf-8") == INSTANCE_CONFIG


@pytest.mark.slow
def test_the_home_for_commands_of_dagster_is_printed(tmp_path: Path) -> None:
    printed = subprocess.check_output([sys.executable, "-m", "nixt_pipeline.defs.home"], text=True)
    assert printed == f"{tmp_path}/data/dagster\n"
    assert (tmp_path / "data" / "dagster" / "dagster.yaml").exists()


def test_the_home_is_absolute_as_dagster_demands(tmp_path: Path) -> None:
    assert prepare_home(load_settings(data_dir="data")) == tmp_path / "data" / "dagster"


def test_an_edited_configuration_is_kept(settings: Settings) -> None:
    config = prepare_home(settings) / "dagster.yaml"
    config.write_text("storage: {}\n", encoding="utf-8")
    prepare_home(settings)
    assert config.read_text(encoding="utf-8") == "storage: {}\n"


@pytest.mark.parametrize("exists", [True, False])
def test_a_home_that_is_set_already_wins_and_gets_the_limits(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    home = tmp_path / "srv"
    if exists:
        home.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    assert ui_environment(settings)["DAGSTER_HOME"] == str(home)
    assert (home / "dagster.yaml").read_text(encoding="utf-8") == INSTANCE_CONFIG
    assert not (settings.data_dir / "dagster").exists()


def test_the_configuration_of_a_home_that_is_set_already_is_kept(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "dagster.yaml"
    config.write_text("nux:\n  enabled: false\n", encoding="utf-8")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    assert ui_environment(settings)["DAGSTER_DISABLE_TELEMETRY"] == "yes"
    assert config.read_text(encoding="utf-8") == "nux:\n  enabled: false\n"


def test_nothing_is_reported_to_anybody(settings: Settings) -> None:
    assert ui_environment(settings)["DAGSTER_DISABLE_TELEMETRY"] == "yes"
    assert "telemetry:\n  enabled: false" in INSTANCE_CONFIG
