import gzip
import shutil
from pathlib import Path

import pytest

import nixt_pipeline as nixt
from nixt_pipeline.api import decode_share
from nixt_pipeline.settings import Settings
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log

HOUR_US = 3_600_000_000


def job(directory: Path, number: int = 0, records: int = 3, pids: tuple[int, ...] = (1, 2)) -> Path:
    """Logs with the same names as those of any other job, as containers and test benches write them."""
    for pid in pids:
        lines = [
            collective(sn=n, pid=pid, rank=pid, comm=f"0xa{number}", at_us=EPOCH_US + number * HOUR_US + n)
            for n in range(records)
        ]
        write_log(directory / f"node-01-pid{pid}.log", *lines)
    return directory


def take_in(directory: Path, settings: Settings, run: str | None = None) -> tuple[str, int]:
    summary = nixt.ingest_run(directory, settings, run)
    return summary.run, summary.records["stored"]


def test_directories_of_one_name_are_two_runs(
    tmp_path: Path, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    assert take_in(job(tmp_path / "a" / "run1", 0), settings) == ("run1", 6)
    other, stored = take_in(job(tmp_path / "b" / "run1", 1), settings)
    assert other.startswith("run1-") and len(other) == len("run1-") + 4
    assert stored == 6
    [message] = caplog.messages
    assert f"b/run1 is stored separately as run {other}" in message and f"{tmp_path}/a/run1" in message
    assert take_in(tmp_path / "a" / "run1", settings) == ("run1", 6)
    assert take_in(job(tmp_path / "b" / "run1", 1, records=5), settings) == (other, 10)


def test_a_directory_filled_anew_is_another_run_each_time(tmp_path: Path, settings: Settings) -> None:
    names = []
    for number in range(3):
        shutil.rmtree(tmp_path / "job", ignore_errors=True)
        name, stored = take_in(job(tmp_path / "job", number), settings)
        assert stored == 6
        names.append(name)
    assert names[0] == "job" and len(set(names)) == 3


def test_the_same_files_overwritten_by_another_job_are_another_run(tmp_path: Path, settings: Settings) -> None:
    take_in(job(tmp_path / "job", 0), settings)
    assert take_in(job(tmp_path / "job", 1, records=9), settings)[1] == 18


def test_a_copy_elsewhere_is_the_same_run(tmp_path: Path, settings: Settings) -> None:
    take_in(job(tmp_path / "a" / "run1"), settings)
    shutil.copytree(tmp_path / "a" / "run1", tmp_path / "b" / "run1")
    assert take_in(tmp_path / "b" / "run1", settings) == ("run1", 6)


def test_a_copy_that_grew_elsewhere_is_the_same_run(tmp_path: Path, settings: Settings) -> None:
    take_in(job(tmp_path / "a" / "run1"), settings)
    assert take_in(job(tmp_path / "b" / "run1", records=4), settings) == ("run1", 8)


def test_logs_compressed_since_are_the_same_run(tmp_path: Path, settings: Settings) -> None:
    take_in(job(tmp_path / "job"), settings)
    for path in list((tmp_path / "job").iterdir()):
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert take_in(tmp_path / "job", settings) == ("job", 6)


def test_late_files_and_a_resubmitted_job_stay_in_their_run(tmp_path: Path, settings: Settings) -> None:
    directory = tmp_path / "job"
    take_in(job(directory, pids=(1, 2)), settings)
    (directory / "node-01-pid1.log").unlink()
    assert take_in(job(directory, pids=(3,)), settings) == ("job", 9)
    assert take_in(job(directory, 5, pids=(4,)), settings) == ("job", 12)


def test_logs_that_come_after_the_first_look_get_the_name(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "job").mkdir()
    assert take_in(tmp_path / "job", settings) == ("job", 0)
    assert take_in(job(tmp_path / "job"), settings) == ("job", 6)


def test_a_directory_whose_logs_were_removed_keeps_its_run(tmp_path: Path, settings: Settings) -> None:
    directory = job(tmp_path / "job")
    take_in(directory, settings)
    for path in list(directory.iterdir()):
        path.unlink()
    assert take_in(directory, settings) == ("job", 6)


def test_a_given_name_puts_directories_together(tmp_path: Path, settings: Settings) -> None:
    take_in(job(tmp_path / "a" / "run1", pids=(1,)), settings)
    assert take_in(job(tmp_path / "b" / "run1", pids=(2,)), settings, "run1") == ("run1", 6)
    assert take_in(tmp_path / "b" / "run1", settings) == ("run1", 6)


def test_below_the_landing_directory_the_path_is_the_name(tmp_path: Path, settings: Settings) -> None:
    assert take_in(job(settings.landing_dir / "job", 0), settings) == ("job", 6)
    shutil.rmtree(settings.landing_dir / "job")
    assert take_in(job(settings.landing_dir / "job", 1), settings)[0] == "job"


def test_shares_decoded_elsewhere_go_to_the_run_of_their_own(tmp_path: Path, settings: Settings) -> None:
    take_in(job(tmp_path / "a" / "run1", 0), settings)
    directory = job(tmp_path / "b" / "run1", 1)
    for share in range(2):
        decode_share(directory, settings, share, 2)
    name, stored = take_in(directory, settings)
    assert (name != "run1", stored) == (True, 6)
    stores = {path.name for path in (settings.data_dir / "store").iterdir()}
    assert stores == {"run=run1", f"run={name}"}
