import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nixt_pipeline.cli import main
from nixt_pipeline.inspector.runs import run_id
from nixt_pipeline_tests.conftest import FIXTURES
from nixt_pipeline_tests.records import collective, write_log


def nixt(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    write_log(tmp_path / "nccl-inspector-7" / "node-01-pid1.log", *(collective(sn=n) for n in range(3)))
    return tmp_path / "nccl-inspector-7"


def test_ingest_says_what_became_of_the_bytes(dump: Path) -> None:
    result = nixt("ingest", str(dump))
    assert result.exit_code == 0
    assert "run nccl-inspector-7: 3 records (3 collectives, 0 P2P)" in result.output
    assert "files: 1 read" in result.output


def test_ingest_as_json_is_one_object_on_standard_output(dump: Path) -> None:
    result = nixt("ingest", str(dump), "--format", "json", "--run", "my run")
    summary = json.loads(result.stdout)
    assert summary["schema"] == 1
    assert summary["run"].startswith("my_run-")


@pytest.mark.parametrize(("command", "options"), [("ingest", []), ("decode", ["--shard", "0/1"])])
def test_a_name_that_no_directory_can_have_is_said_to_be_changed(dump: Path, command: str, options: list[str]) -> None:
    result = nixt(command, str(dump), "--run", "../../other", *options)
    assert result.exit_code == 0
    assert (
        f"run ../../other is stored as {run_id('../../other')}: a run's name is also that of a directory"
        in result.stderr
    )
    assert "is stored as" not in nixt(command, str(dump), "--run", "other", *options).stderr


def test_shards_of_a_job_array_are_decoded_before_the_ingest(dump: Path) -> None:
    for option, shard in (("--shard", "0/2"), ("--share", "1/2")):  # the latter is the former name
        result = nixt("decode", str(dump), option, shard)
        assert result.exit_code == 0
        assert f"shard {shard} of {dump}:" in result.output
    assert "3 records" in nixt("ingest", str(dump)).output


@pytest.mark.parametrize("shard", ["2/2", "1", "-1/2", "a/b"])
def test_a_shard_that_does_not_exist_is_a_usage_error(dump: Path, shard: str) -> None:
    result = nixt("decode", str(dump), "--shard", shard)
    assert result.exit_code == 2
    assert "for example 3/16" in result.output


@pytest.mark.parametrize("command", [["ingest"], ["diagnose"], ["report"], ["report", "--format", "md"]])
def test_a_directory_without_a_record_is_an_input_error(tmp_path: Path, command: list[str]) -> None:
    write_log(tmp_path / "job" / "slurm.log", "hello")
    (tmp_path / "empty").mkdir()
    junk, empty = nixt(*command, str(tmp_path / "job")), nixt(*command, str(tmp_path / "empty"))
    assert (junk.exit_code, empty.exit_code) == (2, 2)
    assert f"no Inspector record in {tmp_path / 'job'}" in junk.output
    assert "1 file: no record in it: not JSON (slurm.log)" in junk.output
    assert "to 10000 for NCCL 2.30 and later, to 500 for 2.29.7" in empty.output
    assert "Not assessable" not in junk.output + empty.output


@pytest.mark.parametrize("command", ["diagnose", "report"])
def test_neither_a_directory_nor_a_run_and_a_run_without_a_record_are_input_errors(
    tmp_path: Path, dump: Path, command: str
) -> None:
    (tmp_path / "empty").mkdir()
    for directory in (dump, tmp_path / "empty"):
        nixt("ingest", str(directory))
    listed = [run["run"] for run in json.loads(nixt("runs", "--format", "json").stdout)]
    unknown = nixt(command, "nosuch")
    assert f"no run 'nosuch' in {Path.cwd()}/data; known runs: {', '.join(sorted(listed))}" in unknown.output
    path, empty = nixt(command, "some/path/nope"), nixt(command, "empty")
    assert "no directory and no run of that name: some/path/nope" in path.output
    assert "no Inspector record in" in empty.output
    assert [result.exit_code for result in (unknown, path, empty)] == [2, 2, 2]


def test_a_missing_directory_is_a_usage_error(tmp_path: Path) -> None:
    assert nixt("ingest", str(tmp_path / "missing")).exit_code == 2


def test_runs_lists_what_was_ingested(dump: Path) -> None:
    assert "(0 rows)" in nixt("runs").output
    nixt("ingest", str(dump))
    (run,) = json.loads(nixt("runs", "--format", "json").stdout)
    assert (run["run"], run["records"]) == ("nccl-inspector-7", 3)


def test_sql_asks_the_store(dump: Path) -> None:
    nixt("ingest", str(dump))
    result = nixt("sql", "SELECT coll, count(*) AS n FROM events GROUP BY coll", "--format", "csv")
    assert result.stdout.splitlines() == ["coll,n", "AllReduce,3"]
    assert json.loads(nixt("sql", "SELECT 1 AS x", "--run", "nccl-inspector-7", "--format", "json").stdout) == [
        {"x": 1}
    ]
    assert "AllReduce" in nixt("sql", "SELECT coll FROM collectives LIMIT 1").stdout


def test_a_wrong_query_and_an_unknown_run_end_with_a_message(dump: Path) -> None:
    nixt("ingest", str(dump))
    wrong = nixt("sql", "SELECT nothing FROM events")
    assert (wrong.exit_code, "Traceback" in wrong.output) == (2, False)
    unknown = nixt("sql", "SELECT 1", "--run", "other")
    assert unknown.exit_code == 2
    assert "known runs: nccl-inspector-7" in unknown.output
    assert nixt("report", "other").exit_code == 2


def test_a_wrong_setting_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIXT_WORKERS", "none")
    result = nixt("runs")
    assert result.exit_code == 2
    assert "setting 'workers'" in result.output


def test_settings_come_from_a_file_and_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nixt_pipeline.settings import load_settings

    (tmp_path / "nixt.toml").write_text('workers = 3\nmemory_limit = "2GiB"\n[thresholds.diagnosis]\nmin_blocks = 5\n')
    monkeypatch.setenv("NIXT_WORKERS", "4")
    settings = load_settings()
    assert (settings.workers, settings.memory_limit, settings.thresholds.diagnosis.min_blocks) == (4, "2GiB", 5)


def test_a_variable_that_is_not_a_setting_is_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIXT_DATADIR", "elsewhere")
    result = nixt("runs", "--format", "csv")
    assert result.exit_code == 0
    assert "NIXT_DATADIR" not in result.stdout
    assert (
        result.stderr.count("Warning: NIXT_DATADIR is not a setting and is ignored; did you mean NIXT_DATA_DIR?") == 1
    )


def test_an_empty_store_says_where_it_is(tmp_path: Path) -> None:
    assert f"There is no run in {tmp_path}/data;" in nixt("runs").stderr


def test_a_command_sees_the_same_store_from_a_directory_below(
    dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nixt.toml").write_text('data_dir = "store"\n')
    nixt("ingest", str(dump))
    monkeypatch.chdir(dump)
    assert nixt("runs", "--format", "csv").stdout.splitlines()[1].startswith("nccl-inspector-7,")


@pytest.mark.slow
def test_a_report_of_a_directory_is_one_command() -> None:
    result = nixt("report", str(FIXTURES / "job_2.30.7_8ranks"), "--format", "md")
    assert result.exit_code == 0, result.output
    summary = Path(result.stdout.splitlines()[-1])
    assert summary.read_text(encoding="utf-8").startswith("# job\\_2.30.7\\_8ranks\n")
    assert "job_2.30.7_8ranks" in summary.with_suffix(".html").read_text(encoding="utf-8")
    assert Path("reports/index.html").exists()


@pytest.mark.slow
def test_the_demo_goes_from_nothing_to_a_report() -> None:
    result = nixt("demo")
    assert result.exit_code == 0, result.output
    assert Path(result.stdout.splitlines()[-1]).is_file()
    assert Path("data/landing/nccl-inspector-demo-0/_SUCCESS").exists()


@pytest.mark.slow
def test_commands_load_only_what_they_use() -> None:
    heavy = ("scipy.stats", "numba", "pandas", "matplotlib", "great_expectations", "dagster")
    program = f"import sys, nixt_pipeline.cli; print([name for name in {heavy} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"
