"""What a threshold and a group of them are."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


def threshold(default: float, meaning: str, origin: str) -> Any:
    """A field with its meaning and the source of its value, both for `docs/settings.md`."""
    return Field(default, description=meaning, json_schema_extra={"origin": origin})


class Group(BaseModel):
    """Thresholds of one package; other names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
