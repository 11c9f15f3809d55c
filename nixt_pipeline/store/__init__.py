"""The run's Parquet: layout, atomic writes, manifest, catalog. No Dagster."""
