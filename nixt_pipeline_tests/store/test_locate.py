import shutil

import pytest

from nixt_pipeline.settings import Settings
from nixt_pipeline.store.ingest import ingest
from nixt_pipeline.store.locate import NoLogsError, run_directory
from nixt_pipeline_tests.records import collective, write_log


def test_a_run_is_found_in_the_landing_directory(settings: Settings) -> None:
    log = write_log(settings.landing_dir / "job" / "node-01-pid1.log", collective())
    assert run_directory("job", settings) == log.parent


def test_a_nested_run_is_found_by_its_id(settings: Settings) -> None:
    log = write_log(settings.landing_dir / "team" / "nccl-inspector-7" / "node-01-pid1.log", collective())
    assert run_directory("team__nccl-inspector-7", settings) == log.parent


def test_a_run_whose_name_had_to_be_made_safe_is_found_by_looking(settings: Settings) -> None:
    from nixt_pipeline.inspector.runs import find_runs

    log = write_log(settings.landing_dir / "job of Monday" / "node-01-pid1.log", collective())
    (found,) = find_runs(settings)[0]
    assert found.run != "job of Monday"
    assert run_directory(found.run, settings) == log.parent


def test_a_run_ingested_from_elsewhere_is_found_by_its_manifest(settings: Settings) -> None:
    log = write_log(settings.data_dir.parent / "elsewhere" / "node-01-pid1.log", collective())
    ingest(log.parent, "job", settings)
    assert run_directory("job", settings) == log.parent


def test_a_run_that_was_never_seen_says_what_to_set(settings: Settings) -> None:
    with pytest.raises(NoLogsError, match="NIXT_LANDING_DIR"):
        run_directory("job", settings)


def test_logs_that_are_gone_are_named(settings: Settings) -> None:
    log = write_log(settings.data_dir.parent / "elsewhere" / "node-01-pid1.log", collective())
    ingest(log.parent, "job", settings)
    shutil.rmtree(log.parent)
    with pytest.raises(NoLogsError, match=r"is gone: .*elsewhere"):
        run_directory("job", settings)


def test_an_id_cannot_lead_out_of_the_landing_directory(settings: Settings) -> None:
    write_log(settings.landing_dir / "job" / "node-01-pid1.log", collective())
    (settings.landing_dir.parent / "secret").mkdir()
    with pytest.raises(NoLogsError):
        run_directory("..__secret", settings)
