"""Where everything of a run lies on disk.

<data>/store/run=<run>/manifest.json              names the generation that readers see
<data>/store/run=<run>/<generation>/events/*.parquet, channels/*.parquet, <table>.parquet
<data>/results/<analysis>/run=<run>.parquet
<data>/catalog.duckdb                              views over all of it
<reports>/<run>/index.html
"""

from pathlib import Path

from nixt_pipeline.inspector import taxonomy
from nixt_pipeline.settings import Settings

MANIFEST = "manifest.json"
INVENTORY = "inventory.json"
# Below the reports, beside those of the runs.
COMPARISONS = "comparisons"
# Tables that workers write in parts; every other table is one file.
PARTED_TABLES = ("events", "channels")
# Tables of a generation that are computed after it was published.
DERIVED_TABLES = ("cells", "kernel_times")


def store_dir(run: str, settings: Settings) -> Path:
    """The directory of one run in the store."""
    return settings.data_dir / "store" / f"run={run}"


def table_files(generation: Path, table: str) -> list[Path]:
    """The Parquet files of `table` in a generation, in a stable order; empty when the table has not been written."""
    if table in PARTED_TABLES:
        return sorted((generation / table).glob("[!.]*.parquet"))
    path = generation / f"{table}.parquet"
    return [path] if path.exists() else []


def part_files(generation: Path, part: str) -> list[Path]:
    """The Parquet files of one part of the tables that workers write; a table without rows in it has none."""
    paths = (generation / table / f"{part}.parquet" for table in PARTED_TABLES)
    return [path for path in paths if path.exists()]


def written_files(generation: Path) -> list[Path]:
    """The Parquet files that an ingest has written into a generation so far."""
    return [path for table in taxonomy.TABLES if table not in DERIVED_TABLES for path in table_files(generation, table)]


def results_path(analysis: str, run: str, settings: Settings) -> Path:
    """The result of one analysis of one run."""
    return settings.data_dir / "results" / analysis / f"run={run}.parquet"


def derived_files(run: str, generation: Path, settings: Settings) -> list[Path]:
    """What has been computed of a run so far: tables beside its events, results and their JSON."""
    tables = [path for table in DERIVED_TABLES for path in table_files(generation, table)]
    results = settings.data_dir / "results"
    # The id of another run may begin with this one and a dot.
    return tables + sorted(path for form in ("parquet", "json") for path in results.glob(f"*/run={run}.{form}"))


def directories(settings: Settings) -> list[Path]:
    """Every directory of the store and of the reports, as far as the names of its runs tell: those that are not made
    yet among them, and whatever is in the place of one."""
    store, results, reports = settings.data_dir / "store", settings.data_dir / "results", settings.reports_dir
    runs = sorted(store.glob("run=*"))
    generations = [generation for run in runs for generation in sorted(run.glob("gen-*"))]
    names = [run.name.removeprefix("run=") for run in runs]
    return [
        store, *runs, *generations, *(generation / table for generation in generations for table in PARTED_TABLES),
        results, *sorted(path for path in results.glob("*") if not path.suffix),
        reports, reports / COMPARISONS, *(reports / name / folder for name in names for folder in ("", "data")),
    ]  # fmt: skip


def report_dir(run: str, settings: Settings) -> Path:
    """The folder of a run's report."""
    return settings.reports_dir / run
