"""What assets, checks and sensors get from outside: the settings, and DuckDB over the store."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg
import duckdb
from dagster_duckdb import DuckDBResource
from pydantic import Field

from nixt_pipeline.settings import Settings, SettingsError, load_settings
from nixt_pipeline.store import catalog


class NixtSettings(dg.ConfigurableResource[Settings]):
    """Yields validated `Settings` from the environment, `nixt.toml` and the defaults; `overrides` win over all of them.

    They are read when a run or a tick begins, so that an edited `nixt.toml` holds from the next one on, and all assets
    of a run have the same. A setting that is not usable fails the run or tick with a `SettingsError` that names it.
    """

    overrides: dict[str, Any] = Field(
        default_factory=dict,
        description="Settings by name, e.g. {'data_dir': '/scratch/nixt'}; for tests and the launchpad",
    )

    def create_resource(self, context: dg.InitResourceContext) -> Settings:
        """The settings. Raises `SettingsError`."""
        try:
            return load_settings(**self.overrides)
        except SettingsError as error:
            # What Dagster says first is only that a resource failed.
            if context.log:
                context.log.error(str(error))
            raise


class StoreDuckDB(DuckDBResource):
    """DuckDB in memory, with a view for each table of the store and each analysis (`store.catalog`).

    What a query does never locks or changes the store. Memory and threads are bounded by the settings; what does not
    fit spills to disk.
    """

    database: str = Field(default=":memory:", description="Always in memory: the store is Parquet")
    settings: dg.ResourceDependency[Settings]

    @contextmanager
    def get_connection(self, run: str | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection whose views show one run, or all of them; closed whatever happens.

        Raises `UnknownRunError`, `DamagedError` when a file of the run cannot be used, and `ValueError` when a database
        or a `connection_config` is given.
        """
        if self.database != ":memory:" or self.connection_config:
            raise ValueError("StoreDuckDB is always in memory, with the limits of the settings; configure those")
        with catalog.open_run(run, self.settings) if run else catalog.open_store(self.settings) as con:
            yield con


def resources(settings: NixtSettings | None = None) -> dict[str, Any]:
    """What the assets of this package, and others beside them, ask for by name."""
    settings = settings or NixtSettings()
    return {"settings": settings, "duckdb": StoreDuckDB(settings=settings)}
