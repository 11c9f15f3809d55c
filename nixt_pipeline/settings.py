"""Every setting and every threshold, typed and in one place.

Values come from, in order: arguments, environment variables (`NIXT_LANDING_DIR`,
`NIXT_THRESHOLDS__DIAGNOSIS__MIN_BLOCKS`), a `nixt.toml` in the working directory or above it, and the defaults below.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ByteSize, Field, TypeAdapter, ValidationError, field_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from nixt_pipeline.errors import NixtError
from nixt_pipeline.settings_sources import (
    PREFIX,
    doubtful_keys,
    doubtful_variables,
    from_file,
    settings_file,
    suggestion,
    variable,
)
from nixt_pipeline.thresholds import Thresholds, grouped

__all__ = ["Settings", "SettingsError", "Thresholds", "doubts", "load_settings"]


class SettingsError(NixtError, ValueError):
    """The environment or `nixt.toml` holds a value that is not usable; the message says which and why."""


class Settings(BaseSettings):
    """Where things are stored, and how much of the machine may be used. `load_settings` reads them."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True)

    landing_dir: Path = Field(
        Path("data/landing"), description="where jobs drop their dump directories; never written to"
    )
    data_dir: Path = Field(Path("data"), description="the store, the results and the catalog")
    reports_dir: Path = Field(Path("reports"), description="HTML reports, one folder per run, and the index")
    nccl_tests_dir: Path = Field(
        Path("data/nccl-tests"),
        description="output of nccl-tests, text or JSON (`-J`), with which the variation in training is compared",
    )
    finished_markers: tuple[str, ...] = Field(
        ("_SUCCESS",), description="names of marker files that declare a directory finished"
    )
    # A job that pauses for longer (a slow checkpoint) is ingested early, and again when it has grown, which costs only
    # what was added.
    quiet_period_s: float = Field(
        60.0, ge=0, description="seconds without a change after which a directory without a marker counts as finished"
    )
    sacct_command: str | None = Field(
        None,
        description="command that prints a Slurm job's state; the job id is appended. For example"
        " `sacct -X -n -P -o State -j` (or `-o State%30`: a narrow column cuts `OUT_OF_MEMORY`)",
    )
    workers: int = Field(
        default_factory=lambda: len(os.sched_getaffinity(0)),
        ge=1,
        description="number of processes that parse logs in parallel",
    )
    dask_scheduler: str | None = Field(
        None,
        description="address of a Dask scheduler (`tcp://host:8786`) whose workers parse logs, instead of this"
        " machine's",
    )
    memory_limit: str = Field(
        "1GiB",
        description="memory limit of one analysing process: DuckDB gets half of it; larger queries spill to disk",
    )
    bundle_bytes: int = Field(
        128 * 2**20,
        ge=1,
        description="bytes of logs given to one worker at a time, where small files share a bundle; together with"
        " `NIXT_WORKERS` it bounds memory",
    )
    # 64-channel verbose records need 14 kB.
    max_line_bytes: int = Field(16 * 2**20, ge=1024, description="longer lines are rejected unread")
    # A file without a record in its first 100,000 lines is not a log. A line that is not a record takes as long to read
    # as many that are, and a few kilobytes of gzip can hold millions of lines.
    max_refused_lines: int = Field(
        100_000, ge=1, description="reading of a file stops after this many lines without a single record"
    )
    # gzip compresses these logs 28-fold. Its limit is about 1,000-fold, which only zeros and the like come close to.
    max_compression_ratio: int = Field(
        200,
        ge=1,
        description="reading of a compressed file stops once it has expanded to more than this many times its size",
    )
    # The largest published job wrote 1,669 files; 2,048 hosts of 8 GPUs with a file each are 16,384.
    max_files: int = Field(1_000_000, ge=1, description="a directory with more files is not ingested")
    # Otherwise, anyone who can write to the landing directory could make the service read any file it has access to.
    follow_links: Literal["within", "anywhere"] = Field(
        "within",
        description="`within`: only links that stay within the landing directory (or the given dump directory) are"
        " followed; `anywhere`: all",
    )
    sensor_interval_s: int = Field(
        30,
        ge=1,
        description="shortest time between two scans of the landing directory, in seconds; Dagster's sensor reads it"
        " when the code location loads",
    )
    sensor_budget_s: float = Field(
        20.0, gt=0, description="how long one scan may take, in seconds; directories not reached come first in the next"
    )
    sensor_max_runs_per_tick: int = Field(20, ge=1, description="maximum number of runs that one scan requests")
    # A pod has the same name in every job, whatever its machine; `auto` recognises most of them by names and runs.
    hosts_are_machines: Literal["auto", "yes", "no"] = Field(
        "auto",
        description="`yes`, `no`, or `auto`: whether a host name is the same machine in every run"
        " ([names and machines](comparison.md#names-and-machines))",
    )
    node_map: Path | None = Field(
        None, description='JSON file with the machines behind host names: `{"RUN or *": {"HOST": "NODE"}}`'
    )
    # Nothing is dropped unless asked for: disks are cheaper than a lost answer.
    retention_days: float = Field(
        0,
        ge=0,
        description="raw events of runs that ended more than this many days ago are dropped; 0 keeps them forever",
    )
    retention_bytes: int = Field(
        0,
        ge=0,
        description="raw events of the oldest runs are dropped while all events take more than this; 0: no limit",
    )
    retention_keep: tuple[Literal["baselines", "findings"], ...] = Field(
        ("baselines", "findings"),
        description="runs that keep their raw events regardless of the limits: baselines, and runs with a finding of"
        " severity P0 or P1",
    )
    # Queries take seconds to minutes (docs/performance.md); an hour leaves room for a notebook that holds a view.
    unlink_grace_s: float = Field(
        3600.0,
        ge=0,
        description="seconds for which superseded generations and dropped events are kept for readers that have them"
        " open",
    )
    report_url: str | None = Field(
        None,
        description="address at which the reports directory is served; the UI then links to reports instead of"
        " showing their paths",
    )
    # Requests that name another host may come from a page that wants to drive the UI (DNS rebinding).
    ui_hosts: tuple[str, ...] = Field(
        (),
        description="names under which `nixt ui` is reached besides `localhost` and `--host`, such as a reverse"
        " proxy's; `name:port` unless the port is 80 or 443",
    )
    thresholds: Thresholds = Thresholds()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 (pydantic passes it by name)
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments win over the environment, which wins over `nixt.toml`."""
        return init_settings, env_settings, InitSettingsSource(settings_cls, from_file(_paths()))

    @field_validator("data_dir")
    @classmethod
    def _is_a_path_for_duckdb(cls, value: Path) -> Path:
        # What follows a question mark in the path of a database file is taken for options.
        if "?" in str(value.absolute()):
            raise ValueError("the path must not contain ?, because DuckDB cannot keep a catalog there")
        return value

    @field_validator("memory_limit")
    @classmethod
    def _is_a_size(cls, value: str) -> str:
        TypeAdapter(ByteSize).validate_python(value)
        return value

    @property
    def query_memory_bytes(self) -> int:
        """DuckDB's share of `memory_limit`: half. The rest is for Python, Arrow and NumPy."""
        return TypeAdapter(ByteSize).validate_python(self.memory_limit) // 2

    @property
    def catalog_path(self) -> Path:
        """The DuckDB file of views that people and notebooks open read-only."""
        return self.data_dir / "catalog.duckdb"


def load_settings(**overrides: object) -> Settings:
    """Read the settings from the environment and `nixt.toml`; `overrides` take precedence over both.

    Raises `SettingsError`, which names each setting that is wrong, and the remedy.
    """
    try:
        return Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as error:
        raise SettingsError("; ".join(map(_in_words, error.errors()))) from None
    except ValueError as error:  # `nixt.toml` is not readable, or a list in the environment is not JSON
        reason = f"{error}: {error.__cause__}; lists are written as JSON" if "EnvSettings" in str(error) else str(error)
        raise SettingsError(reason) from error


def doubts() -> list[str]:
    """What is probably a mistake, a line each: variables in the environment that are not settings, and former names of
    thresholds there and in `nixt.toml`."""
    return [*doubtful_variables(_names()), *doubtful_keys()]


def _names() -> list[str]:
    """Settings, and thresholds with their group."""
    thresholds = (f"thresholds.{group}.{name}" for group, model in grouped().items() for name in model.model_fields)
    return [*(name for name in Settings.model_fields if name != "thresholds"), *thresholds]


def _paths() -> dict[str, Path | None]:
    """The settings that are paths, with their defaults."""
    fields = Settings.model_fields.items()
    return {name: field.default for name, field in fields if field.annotation in (Path, Path | None)}


def _in_words(error: Mapping[str, Any]) -> str:
    name = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"there is no setting {name!r}, which {_where(name)} names{suggestion(name, _names())}"
    return f"setting {name!r}: {error['msg']} (got {error['input']!r}); correct {_where(name)}"


def _where(name: str) -> str:
    """Where a setting is most likely given: the environment wins over the file."""
    in_environment = variable(name) in map(str.upper, os.environ)
    file = None if in_environment else settings_file()
    return str(file) if file else variable(name)
