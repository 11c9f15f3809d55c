"""What a person decided about baselines: `<data>/baselines.json`, readable and editable by hand."""

import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, TypeAdapter, ValidationError

from nixt_pipeline.errors import NixtError
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.files import explained, file_lock, write_text
from nixt_pipeline.store.reading import read_bytes


class Decision(BaseModel):
    """A run is a baseline whatever the rules say (`pinned`), or never (`rejected`)."""

    decision: Literal["pinned", "rejected"]
    reason: str = ""


class DecisionsError(NixtError, ValueError):
    """`baselines.json` is not what it should be; the message says where and why."""


_DECISIONS = TypeAdapter(dict[str, Decision])


def decisions_path(settings: Settings) -> Path:
    """The file of decisions."""
    return settings.data_dir / "baselines.json"


def read_decisions(settings: Settings) -> dict[str, Decision]:
    """Run -> decision. Raises `DecisionsError`."""
    path = decisions_path(settings)
    try:
        return _DECISIONS.validate_json(read_bytes(path))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DecisionsError(f"{path} cannot be read ({error.strerror}); correct the file or remove it") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise DecisionsError(f"{path}: {place}: {first['msg']}; correct the file or remove it") from None


def decide(run: str, decision: Decision | None, settings: Settings) -> None:
    """Remember a decision; None leaves the run to the rules again."""
    path = decisions_path(settings)
    with explained(path), file_lock(path.with_suffix(".lock")):
        decisions = read_decisions(settings)
        decisions.pop(run, None)
        if decision:
            decisions[run] = decision
        content = {name: decisions[name].model_dump() for name in sorted(decisions)}
        write_text(json.dumps(content, indent=1) + "\n", path, durable=True)
