"""One damaged file stops nothing but itself: every kind of damage, to every kind of file, under every command."""

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nixt_pipeline.api import analyse_run, ingest_run, report_run
from nixt_pipeline.cli import main
from nixt_pipeline.settings import Settings, load_settings
from nixt_pipeline.store.reading import warn_once
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log

SOUND, DAMAGED = "nccl-inspector-1", "nccl-inspector-2"


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_pipe(path: Path) -> None:
    """Whoever opens it waits for a writer, forever."""
    path.unlink()
    os.mkfifo(path)


def make_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "object": lambda path: path.write_text("{}"),
    "null": lambda path: path.write_text("null"),
    "list": lambda path: path.write_text("[]"),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "noise": lambda path: path.write_bytes(random.Random(1).randbytes(path.stat().st_size)),
    "directory": make_directory,
    "pipe": make_pipe,
    "loop": make_loop,
    "missing": lambda path: path.unlink(),
}

# What belongs to the damaged run itself, and what belongs to no run.
OWN = {
    "manifest": f"data/store/run={DAMAGED}/manifest.json",
    "inventory": f"data/store/run={DAMAGED}/inventory.json",
    "derived": f"data/store/run={DAMAGED}/derived.json",
    "validated": f"data/store/run={DAMAGED}/gen-*/validated.json",
    "events": f"data/store/run={DAMAGED}/gen-*/events/*.parquet",
    "processes": f"data/store/run={DAMAGED}/gen-*/processes.parquet",
    "files": f"data/store/run={DAMAGED}/gen-*/files.parquet",
    "rejects": f"data/store/run={DAMAGED}/gen-*/rejects.parquet",
    "cells": f"data/store/run={DAMAGED}/gen-*/cells.parquet",
    "kernel_times": f"data/store/run={DAMAGED}/gen-*/kernel_times.parquet",
    "hot_kernels": f"data/results/hot_kernels/run={DAMAGED}.parquet",
    "coverage": f"data/results/coverage/run={DAMAGED}.parquet",
    "run_kernels": f"data/results/run_kernels/run={DAMAGED}.parquet",
    "findings": f"data/results/findings/run={DAMAGED}.parquet",
    "findings_json": f"data/results/findings/run={DAMAGED}.json",
    "line": f"reports/{DAMAGED}/line.json",
}
SHARED = {
    "run_catalog": "data/results/run_catalog.parquet",
    "all_kernels": "data/results/all_kernels.parquet",
    "baselines": "data/results/baselines.parquet",
    "watched": "data/watched.json",
    "catalog": "data/catalog.duckdb",
}
# Without these the run cannot be shown; everything else is computed again or not needed.
LEFT_OUT = ("manifest", "events", "processes", "files", "rejects")

RUNS = ("runs", "--format", "json")
COMMANDS = [
    ("ingest", "landing/" + SOUND),
    ("sql", "SELECT run, count(*) AS n FROM events GROUP BY run", "--format", "json"),
    ("sql", "--run", SOUND, "SELECT count(*) AS n FROM events", "--format", "json"),
    RUNS,
    ("hosts", "--all"),
    ("baselines",),
    ("retention",),
    ("compare", SOUND, SOUND + "-again"),
    ("diagnose", SOUND),
]


def write_job(directory: Path) -> None:
    for rank in (0, 1):
        records = [
            collective(sn=n, rank=rank, n_ranks=2, pid=100 + rank, time_us=1000 + n % 3, at_us=EPOCH_US + n * 1000)
            for n in range(30)
        ]
        write_log(directory / f"node-01-pid{100 + rank}.log", *records, "no record at all {")
    (directory / "_SUCCESS").touch()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of three analysed and reported runs, with everything that commands leave."""
    root = tmp_path_factory.mktemp("store")
    settings = settings_of(root)
    for run in (SOUND, SOUND + "-again", DAMAGED):
        write_job(root / "landing" / run)
        ingest_run(root / "landing" / run, settings)
        analyse_run(run, settings)
        report_run(run, settings)
    (root / "data" / "watched.json").write_text(json.dumps({}))
    return root


def settings_of(root: Path) -> Settings:
    return load_settings(landing_dir=root / "landing", data_dir=root / "data", reports_dir=root / "reports", workers=1)


@pytest.fixture
def copy(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "copy"
    shutil.copytree(store, root)
    for path in (root / "data" / "store").glob("run=*/manifest.json"):
        content = json.loads(path.read_text())
        content["source_dir"] = content["source_dir"].replace(str(store), str(root))
        path.write_text(json.dumps(content))
    monkeypatch.chdir(root)
    for name in ("landing", "data", "reports"):
        monkeypatch.setenv(f"NIXT_{name.upper()}_DIR", str(root / name))
    monkeypatch.setenv("NIXT_WORKERS", "1")
    return root


def nixt(*arguments: str) -> Result:
    warn_once.cache_clear()
    return CliRunner().invoke(main, list(arguments))


def damage(root: Path, pattern: str, kind: str) -> Path:
    (path,) = root.glob(pattern)
    DAMAGE[kind](path)
    return path


def tell(result: Result) -> str:
    return f"{result.exit_code}\n{result.output}\n{result.stderr}"


# What goes over all runs in different ways.
MOST_DIFFERENT = [COMMANDS[1], COMMANDS[3], COMMANDS[4], COMMANDS[7]]

CASES = [(name, kind) for name in (*OWN, *SHARED) for kind in DAMAGE]
# Each file once, with the kinds of damage in turn.
QUICK = [(name, list(DAMAGE)[(number * 4) % len(DAMAGE)]) for number, name in enumerate((*OWN, *SHARED))]


def check_that_others_go_on(root: Path, name: str, kind: str, commands: list[tuple[str, ...]]) -> None:
    path = damage(root, {**OWN, **SHARED}[name], kind)
    outputs = {}
    for command in commands:
        result = nixt(*command)
        assert result.exit_code == 0, f"{command} with {path}: {tell(result)}"
        assert "Traceback" not in result.output
        outputs[command] = result.stdout
    listed = {row["run"] for row in json.loads(outputs[RUNS])}
    is_damaged = name in LEFT_OUT and not (name == "manifest" and kind == "missing")
    assert {SOUND, SOUND + "-again"} <= listed
    # A file of the right size is not opened to list its run.
    if is_damaged and (name == "manifest" or kind not in ("zeros", "noise")):
        assert DAMAGED not in listed
    own = nixt("diagnose", DAMAGED)
    assert own.exit_code == (2 if name in LEFT_OUT else 0), tell(own)
    assert "Traceback" not in own.output
    if is_damaged:
        again = nixt("ingest", f"landing/{DAMAGED}")
        assert again.exit_code == 0, tell(again)
        assert nixt("diagnose", DAMAGED).exit_code == 0


@pytest.mark.parametrize(("name", "kind"), QUICK)
def test_a_damaged_file_leaves_other_runs_alone(copy: Path, name: str, kind: str) -> None:
    check_that_others_go_on(copy, name, kind, MOST_DIFFERENT)


@pytest.mark.slow
@pytest.mark.skipif("ALL_DAMAGE" not in os.environ, reason="all combinations take ten minutes")
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_every_kind_of_damage_to_every_file_leaves_other_runs_alone(copy: Path, name: str, kind: str) -> None:
    check_that_others_go_on(copy, name, kind, COMMANDS)


def test_a_damaged_run_is_named_once_with_its_remedy(copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = damage(copy, OWN["events"], "empty")
    result = nixt("compare", SOUND, SOUND + "-again")
    assert result.exit_code == 0
    (line,) = [record.getMessage() for record in caplog.records if "damaged" in record.getMessage()]
    assert line.startswith(f"run {DAMAGED}: {path} is damaged: it has 0 bytes instead of ")
    assert line.endswith(f"`nixt check {DAMAGED} --repair` rebuilds it from its logs")


@pytest.mark.slow
def test_reports_and_watching_go_on_with_all_of_it_damaged(copy: Path) -> None:
    kinds = [kind for kind in DAMAGE if kind != "missing"]
    for number, pattern in enumerate((*OWN.values(), *SHARED.values())):
        damage(copy, pattern, kinds[number % len(kinds)])
    result = nixt("report", SOUND)
    assert result.exit_code == 0, tell(result)
    assert f'href="{SOUND}/index.html"' in (copy / "reports" / "index.html").read_text()
    watched = nixt("watch", "landing", "--once")
    assert watched.exit_code == 0, tell(watched)
    listed = {row["run"] for row in json.loads(nixt("runs", "--format", "json").stdout)}
    assert listed == {SOUND, SOUND + "-again", DAMAGED}
    assert nixt("check").exit_code == 0


def test_a_damaged_file_of_decisions_stops_only_who_would_change_it(
    copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert nixt("baselines", "--reject", DAMAGED, "--reason", "odd").exit_code == 0
    (copy / "data" / "baselines.json").write_text("[]")
    listed = nixt("baselines", "--format", "json")
    assert listed.exit_code == 0
    assert "the last known decisions apply" in caplog.text
    assert [row["run"] for row in json.loads(listed.stdout) if row["decision"] == "rejected"] == [DAMAGED]
    refused = nixt("baselines", "--pin", SOUND)
    assert refused.exit_code == 2
    assert "correct the file or remove it" in refused.stderr
    assert (copy / "data" / "baselines.json").read_text() == "[]"


def change_manifest(root: Path, **changes: object) -> None:
    path = root / OWN["manifest"]
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_run_of_a_newer_version_stops_only_who_asks_for_it(copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    change_manifest(copy, schema=99)
    for command in [*MOST_DIFFERENT, ("check",)]:
        result = nixt(*command)
        assert result.exit_code == 0, f"{command}: {tell(result)}"
    assert "has schema 99, this program reads up to 2: upgrade nixt_pipeline" in caplog.text
    for command in [("diagnose", DAMAGED), ("check", DAMAGED)]:
        result = nixt(*command)
        assert result.exit_code == 2
        assert "upgrade nixt_pipeline" in result.stderr


def test_counts_that_no_run_can_have_are_damage(copy: Path) -> None:
    change_manifest(copy, records={"stored": 10**30})
    result = nixt("report", DAMAGED, "--format", "md")
    assert result.exit_code == 2, tell(result)
    assert "is not a manifest" in result.stderr


def test_a_part_that_no_ingest_wrote_is_not_read_as_rows_of_the_run(copy: Path) -> None:
    part = next(copy.glob(OWN["events"]))
    shutil.copy(part, part.with_name("copy of a part.parquet"))
    damaged = nixt("sql", "--run", DAMAGED, "SELECT count(*) FROM events")
    assert damaged.exit_code == 2
    assert "copy of a part.parquet is damaged: it was written by no ingest" in damaged.stderr
    assert nixt("check", DAMAGED, "--repair").exit_code == 0
    counted = nixt("sql", "--run", DAMAGED, "SELECT count(*) AS n FROM events", "--format", "json")
    assert json.loads(counted.stdout) == [{"n": 60}]


@pytest.mark.parametrize("kind", ["loop", "pipe"])
def test_a_run_is_rebuilt_beside_what_is_in_the_place_of_its_generation(copy: Path, kind: str) -> None:
    generation = next(copy.glob(f"data/store/run={DAMAGED}/gen-*"))
    shutil.rmtree(generation)
    generation.touch()
    DAMAGE[kind](generation)
    repaired = nixt("check", DAMAGED, "--repair")
    assert repaired.exit_code == 0, tell(repaired)
    assert os.path.lexists(generation)
    assert not generation.is_dir()
    left = nixt("check")
    assert f"{generation} is a " in left.stdout
    assert "move it away" in left.stdout
    assert "--repair" not in left.stderr
    generation.unlink()
    assert nixt("check").exit_code == 0


def test_a_file_in_the_place_of_a_generation_is_left_there(copy: Path) -> None:
    generation = next(copy.glob(f"data/store/run={DAMAGED}/gen-*"))
    shutil.rmtree(generation)
    generation.write_text("a file")
    assert nixt("ingest", f"landing/{DAMAGED}").exit_code == 0
    assert nixt("diagnose", DAMAGED).exit_code == 0
    assert generation.read_text() == "a file"


def test_a_directory_in_the_place_of_a_lock_goes(copy: Path) -> None:
    for lock in (copy / "data" / "store" / f"run={DAMAGED}" / ".lock", copy / "data" / ".catalog.lock"):
        lock.unlink(missing_ok=True)
        lock.mkdir()
    assert nixt("ingest", f"landing/{DAMAGED}").exit_code == 0
