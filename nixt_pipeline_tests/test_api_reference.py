"""The page of the Python API is complete and not older than the docstrings."""

from pathlib import Path

import nixt_pipeline
from nixt_pipeline import api_reference

COMMITTED = Path(__file__).parents[1] / "docs" / "api.md"


def test_the_committed_page_is_up_to_date() -> None:
    command = "python -m nixt_pipeline.api_reference > docs/api.md"
    assert COMMITTED.read_text(encoding="utf-8") == api_reference.api_reference(), f"run: {command}"


def test_every_exported_name_is_on_the_page_once() -> None:
    listed = [name for names in api_reference.SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(nixt_pipeline.__all__)


def test_a_signature_is_what_a_caller_writes() -> None:
    # Run.sql(self, query: str, **parameters: object) -> duckdb.DuckDBPyRelation
    heading = "### `Run.sql(query: str, **parameters: object) -> DuckDBPyRelation`"
    assert heading in api_reference.api_reference().splitlines()


def test_an_example_in_a_docstring_becomes_a_block() -> None:
    docstring = "What it does.\n\n>>> first()     # doctest: +SKIP\n>>> second()"
    assert api_reference._markdown(docstring) == "What it does.\n\n```pycon\n>>> first()\n>>> second()\n```"
