"""Keeps a failure where it happens: in one detector, one analysis or one section of a page, and not in the whole."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import duckdb

from nixt_pipeline.errors import NixtError

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

# A full disk or a damaged file is no defect of the part that meets it: the caller must hear of it.
ABOUT_FILES: tuple[type[Exception], ...] = (NixtError, OSError, duckdb.IOException)
_LONGEST = 300


@dataclass(frozen=True)
class Failure:
    """What failed, and the error in a line."""

    what: str
    error: str


def attempt(what: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | Failure:
    """What `call` returns; when it raises, a `Failure`, and the traceback goes to the log.

    Errors about files (`ABOUT_FILES`) pass.
    """
    try:
        return call(*args, **kwargs)
    except ABOUT_FILES:
        raise
    except Exception as error:
        log.exception("%s failed; continuing with the rest", what)
        first_line = str(error).strip().partition("\n")[0]
        return Failure(what, f"{type(error).__name__}: {first_line}"[:_LONGEST].rstrip(": "))
