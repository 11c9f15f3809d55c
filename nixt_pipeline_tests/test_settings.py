"""Settings that are more than a value."""

import pytest

from nixt_pipeline.settings import SettingsError, load_settings
from nixt_pipeline.store.catalog import connect


def test_queries_get_half_of_the_memory_so_that_python_has_the_rest() -> None:
    settings = load_settings(memory_limit="2 GiB")
    assert settings.query_memory_bytes == 2**30
    with connect(settings) as con:
        assert con.sql("SELECT current_setting('memory_limit')").fetchall() == [("1.0 GiB",)]


def test_a_memory_limit_that_is_no_size_is_an_error_that_names_the_setting() -> None:
    with pytest.raises(SettingsError, match=r"'memory_limit'.*NIXT_MEMORY_LIMIT"):
        load_settings(memory_limit="a lot")


def test_a_threshold_can_be_named_as_before_there_were_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIXT_THRESHOLDS__MIN_BLOCKS", "5")
    monkeypatch.setenv("NIXT_THRESHOLDS__COMPARISON_MARGIN", "0.1")
    monkeypatch.setenv("NIXT_THRESHOLDS__COMPARISON__ERROR", "0.01")
    thresholds = load_settings().thresholds
    assert (thresholds.diagnosis.min_blocks, thresholds.comparison.margin, thresholds.comparison.error) == (
        5,
        0.1,
        0.01,
    )


def test_a_threshold_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIXT_THRESHOLDS__DIAGNOSIS__MIN_BLOKS", "5")
    with pytest.raises(SettingsError, match="min_bloks"):
        load_settings()


def test_thresholds_are_changed_by_names_that_are_there() -> None:
    before = load_settings().thresholds
    after = before.changed("diagnosis", min_blocks=4)
    assert (after.diagnosis.min_blocks, after.comparison) == (4, before.comparison)
    assert after.diagnosis.min_density == before.diagnosis.min_density
    with pytest.raises(ValueError, match="min_bloks"):
        before.changed("diagnosis", min_bloks=4)


def test_all_settings_that_are_wrong_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIXT_WORKERS", "many")
    monkeypatch.setenv("NIXT_MEMORY_LIMIT", "much")
    with pytest.raises(SettingsError, match=r"NIXT_WORKERS.*; .*NIXT_MEMORY_LIMIT|NIXT_MEMORY_LIMIT.*; .*NIXT_WORKERS"):
        load_settings()
