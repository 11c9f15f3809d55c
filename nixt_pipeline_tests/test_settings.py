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
