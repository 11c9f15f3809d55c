"""Every setting and every threshold, typed and in one place.

Values come from, in order: arguments, environment variables (`NIXT_LANDING_DIR`,
`NIXT_THRESHOLDS__LARGE_MESSAGE_BYTES`), a `nixt.toml` in the working directory, and the defaults below.
"""

import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ByteSize, Field, TypeAdapter, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from nixt_pipeline.errors import NixtError

SETTINGS_FILE = "nixt.toml"


class SettingsError(NixtError, ValueError):
    """The environment or `nixt.toml` holds a value that is not usable; the message says which and why."""


class Thresholds(BaseModel):
    """Limits that turn numbers into verdicts. Each comment says where the value comes from."""

    # The NIXT paper's own cut for "large messages" in its temporal and scaling queries.
    large_message_bytes: int = 1_000_000
    # An early rank's record of one operation is a single sample; below 20 a percentile is not worth drawing (the
    # paper's straggler figures use the same minimum).
    min_records_per_group: int = 20
    # The plugin's counters are 64-bit; above 1e15 us (31 years) an execution time is a wrapped subtraction.
    wrapped_exec_time_us: int = 10**15
    # A size of 2^64 - count is the plugin's uint8 bug; real counts below 2^48 bytes (256 TiB) are told apart from it.
    max_message_bytes: int = 2**48
    # A million operations a second for 146,000 years, and below it the difference of any two fits 64 bits with a sign.
    max_sequence_number: int = 2**62 - 1
    # Inspector shipped in 2025. Anything earlier than 2020 or later than 2100 is no Unix time in microseconds.
    min_timestamp_us: int = 1_577_836_800_000_000
    max_timestamp_us: int = 4_102_444_800_000_000
    # A process id that is used again after a pause longer than any checkpoint seen in public logs is another process.
    incarnation_gap_us: int = 600_000_000
    # NVLink 5 moves 900 GB/s in each direction; NVLS can double the apparent rate. Early RCCL builds reported ten times
    # too much.
    max_plausible_busbw_gbs: float = 2_000.0
    # Written and recomputed bandwidth agree to six decimals in 4.2 million records; more than this is another plugin's
    # formula.
    bandwidth_mismatch_gbs: float = 0.001
    # Below this share of captured records, comparing ranks compares samples (coverage gate of the diagnosis rules).
    min_capture_rate: float = 0.5
    # Who came last is known only of collectives that every rank logged; when most are incomplete, those left are a
    # biased sample.
    min_complete_share: float = 0.5
    # GPU timing loses a stamp now and then; in public logs well below 1 % of the times are zero or wrapped.
    max_unusable_share: float = 0.01
    # Dump times are written on the host's clock; NTP-synchronised hosts stay within this of one another.
    max_clock_offset_us: int = 1_000_000
    # Diagnosis. What a finding must cost to be a ticket or a line in the log: 10 % and 5 % of the time (TraceML's 10 %
    # impact; the diagnosis rules' tiers).
    p1_cost_share: float = 0.10
    p2_cost_share: float = 0.05
    # What takes a tenth longer than its peers is worth a note even where it costs less than that, but not when it costs
    # next to nothing: healthy GPUs of one kind differ by some percent.
    min_slowdown: float = 1.1
    min_cost_share: float = 0.01
    # A GPU that is slower than its alike by a fifth, or a link at two thirds of its speed, is defective and a ticket
    # whatever it costs so far.
    p1_slowdown: float = 1.2
    p1_transfer_ratio: float = 1.5
    # Ranks leave a collective some microseconds apart (tree and NVLS algorithms): a wait is longer than that and more
    # than a fifth of the transfer.
    late_floor_us: float = 50.0
    late_spread_share: float = 0.2
    # One block is an incident, not a condition; three in a row or more are.
    min_blocks: int = 3
    min_density: float = 0.6
    # A slow path that costs little is worth a note only when it stays slow; three blocks may be congestion.
    min_blocks_without_cost: int = 4
    # A launch costs a second or two and some scans of the records; tests and retries of one job are a dozen at most.
    max_diagnosed_launches: int = 20
    # Replicas of which no common communicator was recorded, and jobs side by side; each is examined for hangs with some
    # scans of its records. Of two GPUs each, this is a cluster of 500.
    max_diagnosed_parts: int = 250
    # Family-wise: one false name in a hundred runs, at most.
    max_chance: float = 0.01
    # The named one must have come last in at least half of the collectives in which ranks waited (rule B3, k/m).
    min_last_share: float = 0.5
    # Slow by 15 % (medians of a block vary by a few percent; what varies more must be slower by more); below 7 % a path
    # counts as healthy and clears those on it.
    slow_transfer_ratio: float = 1.15
    healthy_transfer_ratio: float = 1.07
    # Below this a difference of medians is the resolution of the times (whole microseconds) and of the launch.
    slow_transfer_floor_us: float = 5.0
    # Fewer complete collectives than this show no pattern; fewer than a tenth of all are a biased sample (rule B0).
    min_diagnosed_cells: int = 20
    min_assessable_share: float = 0.1
    # Who costs a fifth of the time must not be missed: where times are too noisy for that, nobody is called healthy.
    assessable_cost_share: float = 0.2
    # The same, where replays of CUDA graphs cannot be told apart: in so much of the job, nobody would be seen.
    max_unordered_share: float = 0.2
    # A record that lacks at the end of one process only: more than this many operations in a row are no lost buffer.
    silent_after_operations: int = 10
    # One or two Sends may be under way when a job ends; five without a Recv are not (rules' table of stalls).
    unmatched_p2p: int = 5
    # Comparison. A shift within 5 % is no change (rule B13; SuperBench calls repeated runs alike within the same 5 %).
    comparison_margin: float = 0.05
    # Probability of calling a change what is none, over all kernels of a comparison together (rule B13: q < 0.05).
    comparison_error: float = 0.05
    # Times are whole microseconds: a smaller shift of a median is their resolution.
    comparison_floor_us: float = 1.0
    # A kernel below 1 % of the time is shown and decides nothing.
    min_kernel_share: float = 0.01
    # When less than half of the time is in kernels that both sides have, the sides do different work.
    min_matched_share: float = 0.5
    # Baselines (rule B14). 80 % of the records captured, of the collectives as many recorded by all ranks, and 500 of
    # them. Both shares: where every rank lost the same operations, those that are left are complete.
    baseline_capture_rate: float = 0.8
    baseline_complete_share: float = 0.8
    baseline_min_cells: int = 500
    # Three runs show whether one of them is odd; fewer are no reference.
    baseline_min_runs: int = 3
    # SuperBench removes what is further from the median than so many robust deviations, and repeats.
    baseline_outlier_mads: float = 5.0
    # A gap of 70 % of the whole spread divides runs into two groups (two fabrics, two clock settings).
    baseline_mode_gap: float = 0.7
    # A quarter: drivers, firmware and cables change.
    baseline_max_age_days: int = 90


class Settings(BaseSettings):
    """Where things are, and how much of the machine may be used."""

    model_config = SettingsConfigDict(
        env_prefix="NIXT_", env_nested_delimiter="__", toml_file=SETTINGS_FILE, extra="forbid", frozen=True
    )

    landing_dir: Path = Field(
        Path("data/landing"), description="Where jobs drop their dump directories; never written to"
    )
    data_dir: Path = Field(Path("data"), description="The store, the results and the catalog")
    reports_dir: Path = Field(Path("reports"), description="HTML reports, one folder per run, and the index")
    nccl_tests_dir: Path = Field(
        Path("data/nccl-tests"), description="Output of nccl-tests (text or -J), against which variation is compared"
    )
    finished_markers: tuple[str, ...] = Field(
        ("_SUCCESS",), description="Names of files that declare a directory finished"
    )
    # A job that pauses for longer (a slow checkpoint) is ingested early and again when it grew, which costs what grew.
    quiet_period_s: float = Field(
        60.0, ge=0, description="A directory without a marker is finished after this long without a change"
    )
    sacct_command: str | None = Field(
        None,
        description="Command that prints a Slurm job's state; the job id is appended: 'sacct -X -n -P -o State -j'",
    )
    workers: int = Field(
        default_factory=lambda: len(os.sched_getaffinity(0)), ge=1, description="Processes that parse logs at once"
    )
    dask_scheduler: str | None = Field(
        None,
        description="Address of a Dask scheduler (tcp://host:8786) whose workers parse logs, instead of this machine's",
    )
    memory_limit: str = Field("1GiB", description="Memory of one process that analyses; larger work spills to disk")
    bundle_bytes: int = Field(
        128 * 2**20, ge=1, description="Log bytes handed to one worker at a time; small files share a bundle"
    )
    max_line_bytes: int = Field(
        16 * 2**20,
        ge=1024,
        description="A line longer than this is rejected unread (64-channel verbose records need 14 kB)",
    )
    # A log whose first 100,000 lines hold no record is none; reading a line that is none takes as long as reading many
    # that are, and a few kilobytes of gzip can hold millions.
    max_refused_lines: int = Field(
        100_000, ge=1, description="A file is read no further after so many lines without a single record"
    )
    # gzip folds these logs 28 times, more than 1,000 times is beyond what it can; only zeros and the like come near.
    max_compression_ratio: int = Field(
        200, ge=1, description="A compressed file is read no further once it has unfolded to more than this many times"
    )
    # The largest published job wrote 1,669 files; 2,048 hosts of 8 GPUs with a file each are 16,384.
    max_files: int = Field(1_000_000, ge=1, description="A directory with more files than this is not ingested")
    # Who may write to the landing directory could otherwise have any file read that the service can read.
    follow_links: Literal["within", "anywhere"] = Field(
        "within",
        description="Which links are followed: those that stay within the landing directory (or the dump directory"
        " given), or all",
    )
    sensor_interval_s: int = Field(
        30, ge=1, description="Shortest time between two looks of the sensor at the landing directory"
    )
    sensor_budget_s: float = Field(20.0, gt=0, description="How long one sensor tick may look at the landing directory")
    sensor_max_runs_per_tick: int = Field(20, ge=1, description="How many runs one sensor tick may request")
    # A pod is called the same in each job, on whatever machine; `auto` tells most of them by their names and runs.
    hosts_are_machines: Literal["auto", "yes", "no"] = Field(
        "auto",
        description="Whether a host name is the same machine in every run; auto: unless something speaks against it",
    )
    node_map: str | None = Field(
        None, description='JSON file with the machine behind host names: {"RUN or *": {"HOST": "NODE"}}'
    )
    # Nothing is dropped unless somebody asks for it: disks are cheaper than an answer that is gone.
    retention_days: float = Field(0, ge=0, description="Raw events of older runs are dropped; 0 keeps them for ever")
    retention_bytes: int = Field(
        0, ge=0, description="The oldest runs' raw events are dropped while all take more than this; 0 is without limit"
    )
    retention_keep: tuple[Literal["baselines", "findings"], ...] = Field(
        ("baselines", "findings"), description="Runs that keep their raw events whatever the limits"
    )
    # Queries take seconds to minutes (docs/performance.md); an hour leaves room for a notebook that holds a view.
    unlink_grace_s: float = Field(
        3600.0,
        ge=0,
        description="Superseded generations and dropped events stay this long for readers that have them open",
    )
    report_url: str | None = Field(
        None, description="Base URL under which reports_dir is served; without it the UI shows the path of the report"
    )
    # Requests that name another host may come from a page that wants to drive the UI (DNS rebinding).
    ui_hosts: tuple[str, ...] = Field(
        (),
        description="Names of the UI besides localhost and --host, like a reverse proxy's; name:port unless 80 or 443",
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
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

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
        """DuckDB's share of `memory_limit`: half. Python, Arrow and NumPy need the rest beside a query."""
        return TypeAdapter(ByteSize).validate_python(self.memory_limit) // 2

    @property
    def catalog_path(self) -> Path:
        """The DuckDB file of views that people and notebooks open read-only."""
        return self.data_dir / "catalog.duckdb"


def load_settings(**overrides: object) -> Settings:
    """Read the settings; `overrides` win over everything. Raises `SettingsError` naming the setting and the remedy."""
    try:
        return Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise SettingsError(
            f"setting {name!r}: {first['msg']} (got {first['input']!r}); "
            f"set NIXT_{name.upper().replace('.', '__')} or correct {SETTINGS_FILE}"
        ) from error
