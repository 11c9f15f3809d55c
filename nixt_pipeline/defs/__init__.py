"""Everything Dagster: assets (one module per stage, its checks beside it), sensors, jobs, partitions, resources.

Nothing is computed here. An asset is a description, a call of a plain function and metadata;
`nixt_pipeline.definitions` puts them together.
"""
