"""nixt_pipeline: from NCCL Inspector logs to answers about collective communication.

>>> import nixt_pipeline as nixt
>>> run = nixt.open_run("nccl-inspector-41012")                    # doctest: +SKIP
>>> run.sql("SELECT coll, count(*) FROM events GROUP BY coll")     # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nixt_pipeline.api import Run, analyse_run, compare, diagnose_run, ingest_run, open_run, report_run
    from nixt_pipeline.errors import DamagedError, NixtError, StorageError
    from nixt_pipeline.settings import Settings, load_settings

__all__ = [
    "DamagedError",
    "NixtError",
    "Run",
    "Settings",
    "StorageError",
    "analyse_run",
    "compare",
    "diagnose_run",
    "ingest_run",
    "load_settings",
    "open_run",
    "report_run",
]


def __getattr__(name: str) -> object:
    """Import the interface when it is first used: a worker that decodes logs needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    elsewhere = {"Settings": "settings", "load_settings": "settings"}
    module = "errors" if name.endswith("Error") else elsewhere.get(name, "api")
    return getattr(import_module(f"nixt_pipeline.{module}"), name)
