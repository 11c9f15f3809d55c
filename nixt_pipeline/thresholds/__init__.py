"""The numbers that decide a verdict, each with its meaning and where its value comes from, grouped by package.

What only shapes a computation stays next to it. `thresholds.diagnosis.min_blocks` is `[thresholds.diagnosis]` in
`nixt.toml` and `NIXT_THRESHOLDS__DIAGNOSIS__MIN_BLOCKS` in the environment.
"""

from typing import Any

from pydantic import model_validator

from nixt_pipeline.thresholds.diagnosis import DiagnosisThresholds
from nixt_pipeline.thresholds.fleet import ComparisonThresholds
from nixt_pipeline.thresholds.group import Group
from nixt_pipeline.thresholds.records import AnalysisThresholds, IngestThresholds, QualityThresholds

# Names that had their package in them before thresholds were grouped.
_RENAMED = {"margin": "comparison_margin", "error": "comparison_error", "floor_us": "comparison_floor_us"}


class Thresholds(Group):
    """All of them, a group for each package."""

    ingest: IngestThresholds = IngestThresholds()
    quality: QualityThresholds = QualityThresholds()
    analysis: AnalysisThresholds = AnalysisThresholds()
    diagnosis: DiagnosisThresholds = DiagnosisThresholds()
    comparison: ComparisonThresholds = ComparisonThresholds()

    def by_name(self) -> list[tuple[str, float]]:
        """`group.name` and value of each, in alphabetical order."""
        return sorted(
            (f"{group}.{name}", v) for group, values in self.model_dump().items() for name, v in values.items()
        )

    def changed(self, group: str, **values: float) -> "Thresholds":
        """A copy with other values in one group. Raises `ValidationError` for a name that is not there."""
        present = getattr(self, group)
        return self.model_copy(update={group: type(present)(**{**present.model_dump(), **values})})

    @model_validator(mode="before")
    @classmethod
    def _sort_into_groups(cls, value: Any) -> Any:
        return regrouped(value)


def grouped() -> dict[str, type[Group]]:
    """The groups by name."""
    return {name: type(field.default) for name, field in Thresholds.model_fields.items()}


def former_names() -> dict[str, tuple[str, str]]:
    """The name of each threshold before there were groups -> its group and present name."""
    return {
        _RENAMED.get(name, name): (group, name) for group, model in grouped().items() for name in model.model_fields
    }


def regrouped(value: Any) -> Any:
    """The values of `[thresholds]` with those that are named as before there were groups in their group."""
    former = former_names()
    if not isinstance(value, dict) or not former.keys() & value.keys():
        return value
    groups = {name: dict(given) if isinstance(given, dict) else given for name, given in value.items()}
    for old in former.keys() & value.keys():
        group, name = former[old]
        groups.setdefault(group, {})[name] = groups.pop(old)
    return groups
