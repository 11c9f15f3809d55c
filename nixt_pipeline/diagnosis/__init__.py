"""Who was late, whose transfers were slow, who hung, and how sure that is."""

from nixt_pipeline.diagnosis.diagnose import VERSION, diagnose, diagnose_views
from nixt_pipeline.diagnosis.findings import SEVERITIES, Diagnosis, Effect, Finding, RunCoverage

__all__ = ["SEVERITIES", "VERSION", "Diagnosis", "Effect", "Finding", "RunCoverage", "diagnose", "diagnose_views"]
