"""The page of the analyses is not older than they are."""

from pathlib import Path

from nixt_pipeline.analysis.reference import analyses_reference

COMMITTED = Path(__file__).parents[2] / "docs" / "analyses.md"


def test_the_committed_page_is_up_to_date() -> None:
    command = "python -m nixt_pipeline.analysis.reference > docs/analyses.md"
    assert COMMITTED.read_text(encoding="utf-8") == analyses_reference(), f"run: {command}"
