"""Everything Dagster: assets (one module per group of the lineage page, with their checks), sensors, jobs, resources.

Nothing is computed here. An asset is a description, a call of a plain function and metadata;
`nixt_pipeline.definitions` puts them together.
"""
