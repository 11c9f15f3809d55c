"""`nixt check`: what it finds, and what it can rebuild."""

import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nixt_pipeline.api import analyse_run, ingest_run
from nixt_pipeline.cli import main
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.manifest import manifest_path, read_manifest
from nixt_pipeline.store.reading import warn_once
from nixt_pipeline.store.seals import derived_note, derived_seals
from nixt_pipeline_tests.records import collective, write_log

RUN = "job"


@pytest.fixture
def stored(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in ("landing", "data", "reports"):
        monkeypatch.setenv(f"NIXT_{name.upper()}_DIR", str(getattr(settings, f"{name}_dir")))
    monkeypatch.setenv("NIXT_WORKERS", "1")
    for number in (1, 2):
        write_log(settings.landing_dir / RUN / f"a-pid{number}.log", *(collective(sn=n, pid=number) for n in range(20)))
    ingest_run(settings.landing_dir / RUN, settings)
    return settings


def check(*arguments: str) -> Result:
    warn_once.cache_clear()
    return CliRunner().invoke(main, ["check", *arguments])


def part_of(settings: Settings) -> Path:
    (part,) = layout.table_files(read_manifest(RUN, settings).directory(settings), "events")
    return part


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def records(settings: Settings) -> int:
    rows = json.loads(CliRunner().invoke(main, ["sql", "SELECT count(*) AS n FROM events", "--format", "json"]).stdout)
    return int(rows[0]["n"])


def test_a_sound_store_is_said_to_be_sound(stored: Settings) -> None:
    result = check()
    assert (result.exit_code, "run job:" in result.stdout, "sound" in result.stdout) == (0, True, True)
    rows = json.loads(check("--format", "json").stdout)
    assert {row["state"] for row in rows} == {"sound"}
    assert {Path(row["path"]).name for row in rows} >= {"manifest.json", "processes.parquet", part_of(stored).name}


def test_a_flipped_bit_is_found_wherever_it_is(stored: Settings) -> None:
    part = part_of(stored)
    whole = part.read_bytes()
    for position in random.Random(0).sample(range(len(whole)), 25):
        flip(part, position)
        result = check()
        assert result.exit_code == 2, position
        assert f"{part}: " in result.stdout
        assert f"nixt check {RUN} --repair" in result.stderr
        part.write_bytes(whole)
    assert check().exit_code == 0


@pytest.mark.parametrize("command", ["diagnose", "report"])
def test_nothing_is_computed_from_events_with_a_flipped_bit(stored: Settings, command: str) -> None:
    part = part_of(stored)
    flip(part, part.stat().st_size // 3)
    result = CliRunner().invoke(main, [command, RUN])
    assert result.exit_code == 2
    assert f"{part} is damaged: it has other content than was written" in result.stderr


@pytest.mark.parametrize("how", ["check", "ingest"])
def test_a_damaged_run_is_rebuilt_from_its_logs(stored: Settings, how: str) -> None:
    before = read_manifest(RUN, stored).generation
    flip(part_of(stored), 100)
    if how == "check":
        assert check("--repair").exit_code == 0
    else:
        warn_once.cache_clear()
        result = CliRunner().invoke(main, ["ingest", str(stored.landing_dir / RUN)])
        assert "files: 2 read" in result.stdout
    # Readers may have the old one open.
    assert read_manifest(RUN, stored).generation == f"{before}-2"
    assert check().exit_code == 0
    assert records(stored) == 40


def test_a_damaged_manifest_is_made_again(stored: Settings) -> None:
    manifest_path(RUN, stored).write_text("{}")
    assert check().exit_code == 2
    assert check("--repair").exit_code == 0
    assert records(stored) == 40


@pytest.mark.parametrize(
    ("content", "problem"), [("{}", "it lacks `schema`"), ("[]", "it has another shape"), ("x", "it is not JSON")]
)
def test_what_no_ingest_made_is_to_be_moved_away_or_ingested(stored: Settings, content: str, problem: str) -> None:
    foreign = manifest_path("foreign", stored)
    foreign.parent.mkdir()
    foreign.write_text(content)
    advice = f"move {foreign.parent} away, or rebuild it with `nixt ingest DIR --run foreign`"
    for options in ([], ["--repair"]):
        result = check("foreign", *options)
        assert result.exit_code == 2
        assert f"{foreign}: is not a manifest: {problem}" in result.stdout
        assert advice in result.stderr
        assert "nixt check" not in result.stderr
    ingested = CliRunner().invoke(main, ["ingest", str(stored.landing_dir / RUN), "--run", "foreign"])
    assert ingested.exit_code == 0
    assert check().exit_code == 0


@pytest.mark.parametrize(
    ("content", "problem"),
    [("garbage", "is not JSON"), ("[1, 2]", "has another shape"), ('{"a": null}', "has another shape")],
)
def test_a_damaged_note_of_seals_is_found_and_made_again(stored: Settings, content: str, problem: str) -> None:
    analyse_run(RUN, stored)
    note = derived_note(RUN, stored)
    note.write_text(content)
    result = check()
    assert result.exit_code == 2
    assert f"{note}: {problem}" in result.stdout
    assert "object" not in result.stdout + result.stderr
    assert f"nixt check {RUN} --repair" in result.stderr
    assert check("--repair").exit_code == 0
    assert f"results/hot_kernels/run={RUN}.parquet" in derived_seals(RUN, stored)
    assert check().exit_code == 0


def test_only_logs_in_damaged_parts_are_decoded_again(stored: Settings) -> None:
    """The second ingest puts the new file into a part of its own."""
    first = part_of(stored)
    write_log(stored.landing_dir / RUN / "a-pid3.log", *(collective(sn=n, pid=3) for n in range(20)))
    ingest_run(stored.landing_dir / RUN, stored)
    parts = layout.table_files(read_manifest(RUN, stored).directory(stored), "events")
    (second,) = [path for path in parts if path.name != first.name]
    flip(second, 100)
    result = CliRunner().invoke(main, ["ingest", str(stored.landing_dir / RUN)])
    assert "files: 1 read, 2 unchanged" in result.stdout
    assert records(stored) == 60


def test_logs_that_are_gone_are_named_instead_of_losing_their_records(stored: Settings) -> None:
    flip(part_of(stored), 100)
    (stored.landing_dir / RUN / "a-pid2.log").unlink()
    result = check("--repair")
    assert result.exit_code == 2
    assert "a-pid2.log" in result.stderr
    assert "put them back" in result.stderr
    for path in (stored.landing_dir / RUN).iterdir():
        path.unlink()
    (stored.landing_dir / RUN).rmdir()
    assert f"the logs are gone: {stored.landing_dir / RUN}" in check("--repair").stderr


def test_damaged_results_are_computed_again_without_the_logs(stored: Settings) -> None:
    analyse_run(RUN, stored)
    result = layout.results_path("hot_kernels", RUN, stored)
    before = result.read_bytes()
    flip(result, 50)
    found = check()
    assert (found.exit_code, str(result) in found.stdout) == (2, True)
    for path in (stored.landing_dir / RUN).iterdir():
        path.unlink()
    assert check("--repair").exit_code == 0
    assert result.read_bytes() == before


def test_decisions_of_people_are_no_copy_of_anything_and_stay_damaged(stored: Settings) -> None:
    (stored.data_dir / "baselines.json").write_text("")
    result = check("--repair")
    assert result.exit_code == 2
    assert "correct the file or remove it" in result.stdout
    assert (stored.data_dir / "baselines.json").read_text() == ""


def test_a_store_of_an_earlier_version_is_readable_and_gets_hashes_with_the_next_ingest(stored: Settings) -> None:
    content = json.loads(manifest_path(RUN, stored).read_text())
    del content["contents"]
    manifest_path(RUN, stored).write_text(json.dumps({**content, "schema": 1}))
    validated = read_manifest(RUN, stored).directory(stored) / "validated.json"
    old = json.loads(validated.read_text())
    del old["seals"]
    validated.write_text(json.dumps(old))
    result = check()
    assert (result.exit_code, "without a hash" in result.stdout) == (0, True)
    part_of(stored).write_bytes(b"")
    assert check().exit_code == 2
    ingest_run(stored.landing_dir / RUN, stored)
    assert "without a hash" not in check().stdout
    assert records(stored) == 40
