"""`nixt watch`, through the command line: what is taken up, what waits, and what is left alone."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nixt_pipeline.cli import main
from nixt_pipeline_tests.records import collective, write_log

pytestmark = pytest.mark.slow


@pytest.fixture
def landing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("data", "reports"):
        monkeypatch.setenv(f"NIXT_{name.upper()}_DIR", str(tmp_path / name))
    return tmp_path / "landing"


def look(landing: Path) -> Result:
    return CliRunner().invoke(main, ["watch", str(landing), "--once"])


def job(landing: Path, name: str, finished: bool = True) -> Path:
    directory = landing / f"nccl-inspector-{name}"
    write_log(directory / "node-01-pid1.log", *(collective(sn=n) for n in range(3)))
    if finished:
        (directory / "_SUCCESS").touch()
    return directory


def test_a_finished_run_is_taken_up_once_and_a_running_one_waits(landing: Path, tmp_path: Path) -> None:
    job(landing, "7")
    job(landing, "8", finished=False)
    first = look(landing)
    assert first.exit_code == 0
    assert first.stdout.split() == [str(tmp_path / "reports" / "nccl-inspector-7" / "index.html")]
    assert "nccl-inspector-8: waits: changed " in first.stderr
    assert look(landing).stdout == ""


def test_a_run_that_changed_is_taken_up_again(landing: Path) -> None:
    directory = job(landing, "7")
    look(landing)
    write_log(directory / "node-02-pid1.log", collective(sn=9))
    assert "nccl-inspector-7" in look(landing).stdout


def test_a_run_that_fails_does_not_keep_others_from_being_taken_up(landing: Path, tmp_path: Path) -> None:
    job(landing, "7")
    job(landing, "8")
    (tmp_path / "data" / "store").mkdir(parents=True)
    (tmp_path / "data" / "store" / "run=nccl-inspector-7").write_text("in the way")
    result = look(landing)
    assert result.exit_code == 2
    assert "nccl-inspector-7: failed: " in result.stderr
    assert "nccl-inspector-8" in result.stdout
