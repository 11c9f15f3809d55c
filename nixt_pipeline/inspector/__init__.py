"""The NCCL Inspector log format: find files, decode records, reject lines, describe columns. No Dagster, no DuckDB."""
