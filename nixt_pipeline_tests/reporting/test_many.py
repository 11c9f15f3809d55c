"""Pages of runs with more of something than a page can show: cut, and the rest counted."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from nixt_pipeline.reporting.rows import SHOWN_ROWS
from nixt_pipeline.reporting.sections import ANALYSIS_SECTIONS
from nixt_pipeline.reporting.sections.coverage import coverage_parts
from nixt_pipeline.reporting.sections.entities import entities_section
from nixt_pipeline.reporting.sections.lateness import lateness_section
from nixt_pipeline.reporting.sections.ranks import ranks_section
from nixt_pipeline.reporting.sections.variation import variation_section
from nixt_pipeline.reporting.sections.waiting import progress_section, waiting_section
from nixt_pipeline.reporting.views import SectionView
from nixt_pipeline.settings import Thresholds
from nixt_pipeline_tests.reporting import examples

TIME = next(section.build for section in ANALYSIS_SECTIONS if section.analysis == "temporal_correlation")


@pytest.mark.parametrize(
    ("section", "row"),
    [
        (TIME, examples.time_bin(0, 40.0)),
        (waiting_section, examples.waiting_row(0, 1, 1.0, 1.0)),
        (lateness_section, examples.lateness_row(0, "gpu-1", 1.0, 0.1)),
        (progress_section, examples.progress_row(0, 1.0, 1.0)),
        (ranks_section, examples.rank_row(0, 200.0, 100.0)),
        (variation_section, examples.variation_row("a", 0.5, 0.25, 0.1)),
    ],
)
def test_of_many_launches_three_are_drawn_and_the_number_of_all_is_told(
    section: Callable[..., SectionView], row: dict[str, Any]
) -> None:
    table = pa.Table.from_pylist([row | {"incarnation": launch} for launch in range(1, 6)])
    view = section(examples.content(), table)
    assert "Of 5 launches the first 3 are drawn." in view.notes
    # A launch has a figure, a panel or a row of its own in each.
    drawn = "".join(figure.svg + figure.title for figure in view.figures)
    assert "aunch 3" in drawn
    assert "aunch 4" not in drawn


def test_a_caveat_names_some_of_many_functions_and_counts_the_others() -> None:
    # One function is captured well enough for the whole not to be thin.
    thin = [examples.coverage(coll=f"Function{n}", capture_rate=0.01 * n) for n in range(5)]
    table = pa.concat_tables([examples.coverage(sn_expected=9_600), *thin])
    coverage = examples.content(tables={"coverage": table}).coverage
    (caveat,) = coverage.caveats(Thresholds(), named=2)
    assert caveat == (
        "Only 0 % of Function0 nic-only, 1 % of Function1 nic-only and 3 more functions were captured: volumes "
        "and comparisons of these describe a sample."
    )


def test_a_host_is_listed_with_every_finding_that_names_it() -> None:
    findings = [examples.finding(hosts=["gpu-1", "gpu-2"], kind="hang"), examples.finding(hosts=["gpu-1"])]
    content = examples.content(diagnosis=examples.diagnosis(*findings))
    section = entities_section(content, content.tables["spatial_correlation"])
    hosts = next(view for view in section.tables if view.caption.startswith("Hosts"))
    found = {row[0].text: row[1].text for row in hosts.rows}
    assert found == {"gpu-1": f"hang, {findings[1]['kind']}", "gpu-2": "hang"}


def test_of_many_incomplete_communicators_the_least_captured_are_shown_and_all_are_counted() -> None:
    rows = [examples.coverage(id=f"0x{n:03}", capture_rate=0.5 + n / 1000) for n in range(100)]
    section = coverage_parts(examples.content(tables={"coverage": pa.concat_tables(rows)}))
    view = next(view for view in section.tables if view.caption.startswith("Incompletely"))
    assert (len(view.rows), view.total) == (SHOWN_ROWS, 100)
    assert view.rows[0][0].text == "0x000"
