"""The documentation names what there is: settings with their defaults, commands, files."""

import re
from pathlib import Path

import pytest

from nixt_pipeline.settings import Settings, Thresholds

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")

# The default of `workers` depends on the machine; these are written as words or left empty.
WITHOUT_FIXED_DEFAULT = {"workers", "sacct_command", "report_url"}


def rows() -> dict[str, str]:
    """Setting or threshold -> default, from the tables of the page."""
    return dict(re.findall(r"^\| `(\w+)` \| `?(.*?)`? ?\| ", OPERATIONS, flags=re.MULTILINE))


def test_every_setting_is_documented_with_its_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # away from any nixt.toml
    documented = {name: default for name, default in rows().items() if name.startswith("NIXT_")}
    fields = set(Settings.model_fields) - {"thresholds"}
    assert set(documented) == {f"NIXT_{name.upper()}" for name in fields}
    for name in fields - WITHOUT_FIXED_DEFAULT:
        variable = f"NIXT_{name.upper()}"
        monkeypatch.setenv(variable, documented[variable])  # the documented text must mean the default
        assert getattr(Settings(), name) == Settings.model_fields[name].default, variable


def test_every_threshold_is_documented_with_its_default() -> None:
    documented = {name: default for name, default in rows().items() if not name.startswith("NIXT_")}
    assert {name: float(default) for name, default in documented.items()} == {
        name: float(field.default) for name, field in Thresholds.model_fields.items()
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert missing == []
