"""nixt_pipeline: from NCCL Inspector logs to answers about collective communication.

>>> import nixt_pipeline as nixt
>>> run = nixt.open_run("nccl-inspector-41012")                    # doctest: +SKIP
>>> run.sql("SELECT coll, count(*) FROM events GROUP BY coll")     # doctest: +SKIP
"""

from nixt_pipeline.api import Run, analyse_run, diagnose_run, ingest_run, open_run, report_run
from nixt_pipeline.settings import Settings, load_settings

__all__ = ["Run", "Settings", "analyse_run", "diagnose_run", "ingest_run", "load_settings", "open_run", "report_run"]
