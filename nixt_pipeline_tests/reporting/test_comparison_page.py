"""The page of a comparison."""

import re
from dataclasses import replace

from nixt_pipeline.fleet.compare.compare import compare_sides
from nixt_pipeline.fleet.compare.comparison import Comparison
from nixt_pipeline.reporting.comparison_page import comparison_html
from nixt_pipeline.settings import Thresholds
from nixt_pipeline_tests.fleet.examples import Kernel, finding, side, slower, summary


def comparison(name: str = "b", factor: float = 1.3) -> Comparison:
    broadcast = replace(Kernel(), coll="Broadcast")
    return compare_sides(
        side(summary("a", (Kernel(), broadcast))),
        side(summary(name, (slower(Kernel(), factor), broadcast), seed=1)),
        Thresholds(),
    )


def test_a_comparison_says_its_verdict_first_and_shows_every_kernel() -> None:
    page = comparison_html(comparison())
    assert page.index("REGRESSED (suspected)") < page.index("AllReduce 16 MB, 4 ranks on 4 nodes (data)</td>")
    assert 'class="verdict P1"' in page
    assert page.count('<svg role="img"') == 2  # transfer and waiting
    assert "waiting and transfer cannot be separated for this operation" in page
    assert "so a change is only suspected" in page
    assert comparison_html(comparison()) == page
    assert 'class="verdict none-found"' in comparison_html(comparison(factor=1.0))


def test_a_comparison_on_other_hosts_shows_what_findings_explain() -> None:
    late = finding("late-arrival", "gpu-12", lost_s=1.8)
    b = summary("b", (replace(Kernel(), wait_us=700.0),), seed=1, host_names=["gpu-12"], findings=(late,))
    page = comparison_html(compare_sides(side(summary("a")), side(b), Thresholds()))
    assert "SLOWER-OTHER-HOSTS: slower by 55% in waiting, on other hosts; B has a P1 finding (gpu-12)" in page
    assert 'class="verdict P2"' in page
    assert "What findings explain" in page
    assert "Rerun B without gpu-12" in page


def test_names_from_logs_are_text() -> None:
    page = comparison_html(comparison(name="<script>alert(1)</script>"))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_change_beyond_the_axis_is_written() -> None:
    page = comparison_html(comparison(factor=30.0))
    assert re.search(r"\+29\d\d\.\d %", page)


def test_the_axis_says_two_and_a_half_per_cent_where_it_means_that() -> None:
    page = comparison_html(comparison(factor=1.0))
    assert "+2.5 %" in page
