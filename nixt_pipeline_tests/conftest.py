"""What every test shares: settings that keep to the test's own folder, and the fixtures' paths."""

import logging
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from nixt_pipeline.settings import Settings, load_settings

FIXTURES = Path(__file__).parent / "fixtures"

# How long an example takes says more about the machine than about the code.
hypothesis_settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first: a worker that begins one at the end would keep the other waiting."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads the developer's settings or writes outside its own folder."""
    for name in [name for name in os.environ if name.startswith("NIXT_") and name != "NIXT_CORPUS"]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    logging.getLogger("dagster").setLevel(logging.WARNING)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings below the test's folder, with one worker so that nothing starts a process unasked."""
    return load_settings(
        landing_dir=tmp_path / "landing", data_dir=tmp_path / "data", reports_dir=tmp_path / "reports", workers=1
    )


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder with whole jobs, named by NIXT_CORPUS."""
    path = os.environ.get("NIXT_CORPUS")
    if not path:
        pytest.skip("NIXT_CORPUS is not set")
    return Path(path)
