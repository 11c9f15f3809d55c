"""The page of settings is complete, means what it says, and each setting is read somewhere."""

import ast
import re
from pathlib import Path

import pytest

import nixt_pipeline
from nixt_pipeline.settings import Settings, load_settings
from nixt_pipeline.settings_reference import settings_reference
from nixt_pipeline.thresholds import grouped

COMMITTED = Path(__file__).parents[1] / "docs" / "settings.md"
PACKAGE = Path(nixt_pipeline.__file__).parent
# The default of `workers` depends on the machine.
DEFAULTS = {
    name: field.default for name, field in Settings.model_fields.items() if name not in ("thresholds", "workers")
}
NAMES = [
    *DEFAULTS,
    "workers",
    *(f"{group}.{name}" for group, model in grouped().items() for name in model.model_fields),
]


def test_the_committed_page_is_up_to_date() -> None:
    command = "python -m nixt_pipeline.settings_reference > docs/settings.md"
    assert COMMITTED.read_text(encoding="utf-8") == settings_reference(), f"run: {command}"


def test_the_defaults_on_the_page_mean_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = re.findall(r"^\| `(NIXT_\w+)` \| `?(.*?)`? ?\| ", settings_reference(), flags=re.MULTILINE)
    documented = {variable: default for variable, default in rows if variable != "NIXT_WORKERS" and default}
    for variable, default in documented.items():
        monkeypatch.setenv(variable, default)
    settings = load_settings()
    assert {name: getattr(settings, name) for name in DEFAULTS} == DEFAULTS


def test_a_threshold_is_one_row_with_default_meaning_and_origin() -> None:
    # From the thresholds: min_assessable_share = 0.1, rule B0 of the diagnosis rules.
    row = "| `min_assessable_share` | `0.1` | nor is a run with a smaller share of the collectives' records |"
    assert f"{row} Rule B0: fewer are a biased sample. |" in settings_reference().splitlines()


def test_each_is_read_somewhere_in_the_product() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")]
    read = {ast.unparse(node) for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    # `settings.workers`, `limits.diagnosis.min_blocks`
    assert [name for name in NAMES if not any(expression.endswith(f".{name}") for expression in read)] == []


def test_every_threshold_has_an_origin() -> None:
    fields = [field for model in grouped().values() for field in model.model_fields.values()]
    assert all(isinstance(field.json_schema_extra, dict) and field.json_schema_extra["origin"] for field in fields)
