"""What assets, checks and sensors need from outside: the settings.

There is deliberately no DuckDB resource. A connection is opened in memory over the Parquet of one run by
`store.catalog.open_run`, which also creates the views and macros that every query relies on;
`dagster_duckdb.DuckDBResource` opens a database file for writing and does not release it when the body raises.
"""

from typing import Any

import dagster as dg
from pydantic import Field

from nixt_pipeline.settings import Settings, load_settings


class NixtSettings(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Gives `Settings` from the environment, `nixt.toml` and the defaults; `overrides` win over all of them."""

    overrides: dict[str, Any] = Field(
        default_factory=dict,
        description="Settings by name, e.g. {'data_dir': '/scratch/nixt'}; for tests and the launchpad",
    )

    def load(self) -> Settings:
        """Read the settings anew, so that an edited `nixt.toml` holds from the next run on. Raises `SettingsError`."""
        return load_settings(**self.overrides)
