import re
from functools import cache
from html.parser import HTMLParser

import pyarrow as pa
import pytest

from nixt_pipeline.reporting.report import report_html, report_sections
from nixt_pipeline.reporting.sections import ANALYSIS_SECTIONS, COVERAGE, analysis_section
from nixt_pipeline.reporting.sections.entities import SHORTEST_IS_LAST
from nixt_pipeline.reporting.summary import key_facts, meters, tiles
from nixt_pipeline.reporting.views import SectionView
from nixt_pipeline_tests.reporting import examples

ANALYSES = {
    "coverage": "coverage",
    "summary_histogram": "payload",
    "hot_kernels": "kernels",
    "resource_correlation": "sizes",
    "bandwidth_ecdf": "distributions",
    "time_ecdf": "times",
    "temporal_correlation": "time",
    "waiting_over_time": "waiting",
    "waiting_by_progress": "progress",
    "host_lateness": "lateness",
    "spatial_correlation": "entities",
    "rank_times": "ranks",
    "p2p_edges": "edges",
    "variation": "variation",
    "other_correlation": "others",
}


# A content without results: pages of it are made without drawing anything.
NOTHING: dict[str, pa.Table | None] = dict.fromkeys(ANALYSES)


class Page(HTMLParser):
    """Collects tags, attributes and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def _section(anchor: str, **tables: pa.Table | None) -> SectionView:
    section = next(section for section in (COVERAGE, *ANALYSIS_SECTIONS) if section.anchor == anchor)
    return analysis_section(examples.content(tables=tables), section)


@cache
def _usual_page() -> str:
    return report_html(examples.content())


@cache
def _usual_sections() -> tuple[SectionView, ...]:
    return report_sections(examples.content())


def test_the_sections_follow_the_questions_of_a_reader() -> None:
    anchors = [section.anchor for section in _usual_sections()]
    assert anchors == [*list(ANALYSES.values())[1:], "quality", "coverage", "communicators", "run"]


@pytest.mark.parametrize(("analysis", "anchor"), ANALYSES.items())
def test_every_analysis_is_introduced_by_its_question_and_how_to_read_it(analysis: str, anchor: str) -> None:
    section = _section(anchor)
    assert section.state == "ok"
    assert section.question == f"What does {analysis} answer?"
    assert section.reading == f"How to read {analysis}."


@pytest.mark.parametrize(("analysis", "anchor"), ANALYSES.items())
def test_a_missing_result_is_not_computed_and_an_empty_one_is_nothing_recorded(analysis: str, anchor: str) -> None:
    full = examples.content().tables[analysis]
    missing, empty = _section(anchor, **{analysis: None}), _section(anchor, **{analysis: full.slice(0, 0)})
    assert (missing.state, empty.state) == ("missing", "empty")
    assert not missing.figures and not empty.figures


def test_a_report_without_any_result_says_so_in_each_section_and_tile() -> None:
    html = report_html(examples.content(tables=dict.fromkeys(ANALYSES)))
    assert html.count("<strong>Not computed.</strong>") == len(ANALYSES)
    # Three tiles, and two meters that rest on the coverage.
    assert html.count("<strong>not computed</strong>") == 5


def test_low_coverage_is_repeated_in_every_analysis() -> None:
    sections = report_sections(examples.content(tables={"coverage": examples.coverage(capture_rate=0.25)}))
    warned = {section.anchor for section in sections if section.caveats}
    assert warned == set(ANALYSES.values())


def test_the_section_about_hosts_says_that_the_last_rank_has_the_shortest_time() -> None:
    assert SHORTEST_IS_LAST in _section("entities").notes


def test_sections_of_analyses_hold_their_figures() -> None:
    counts = {section.anchor: len(section.figures) for section in _usual_sections()}
    # Hosts and processes have two figures each, hot kernels one of shares and one of bandwidths, ranks maps and ranges.
    several = {"kernels": 2, "entities": 4, "ranks": 2}
    none = {"others": 0, "coverage": 0, "quality": 0, "communicators": 0, "run": 0}
    assert counts == dict.fromkeys(counts, 1) | several | none


def test_only_the_first_launches_are_drawn_and_the_section_says_so() -> None:
    rows = [examples.time_bin(1000 * number, 40.0) | {"incarnation": number} for number in range(1, 6)]
    section = _section("time", temporal_correlation=pa.Table.from_pylist(rows))
    assert len(section.figures) == 3
    assert section.figures[0].title.startswith("Launch 1 of 5: ")
    assert section.notes[-1] == "Of 5 launches the first 3 are drawn."


def test_an_attribute_with_one_value_is_a_note_and_one_with_two_is_compared() -> None:
    rows = [
        examples.other_row("git_rev", "a"),
        examples.other_row("git_rev", "b"),
        examples.other_row("rec_mechanism", "interface"),
    ]
    section = _section("others", other_correlation=pa.Table.from_pylist(rows))
    assert section.notes == ("The same in every record, so nothing to compare: rec_mechanism is interface.",)
    assert [row[1].text for row in section.tables[0].rows] == ["a", "b"]


def test_tables_are_cut_and_say_how_many_rows_there_are_and_where() -> None:
    rows = [examples.kernel(rank, f"kernel {rank}", 0.005, 0.005 * rank) for rank in range(1, 201)]
    html = report_html(examples.content(tables=NOTHING | {"hot_kernels": pa.Table.from_pylist(rows)}))
    assert '60 of 200 rows. Whole table: <a href="data/hot_kernels.csv">hot_kernels.csv</a>' in html
    assert "kernel 60" in html
    assert "kernel 61" not in html


def test_the_tiles_say_where_the_bytes_are_how_fast_they_are_and_how_much_of_the_time_is_waiting() -> None:
    shown = [(tile.value, tile.label, tile.detail) for tile in tiles(examples.content())]
    assert shown == [
        ("100 %", "of the observed payload in 2 of 2 kernels", "hottest: gpu-1 2r/2n"),
        (
            "42 GB/s",
            "median bus bandwidth of the hottest timed kernel, AllReduce 4 MB",
            "p10 30, p90 50; last rank to arrive 51",
        ),
        # Two kernels of two ranks with 250 us of waiting and 375 us of transfer each: 500 of 500 + 2 x 750 us.
        (
            "25 %",
            "of the GPUs' time in collectives is waiting for the last rank",
            "500 us of 2 ms, over complete collectives",
        ),
    ]


def test_words_keep_apart_where_the_server_forbids_the_style_sheet() -> None:
    # Jenkins shows artifacts so; with it, these are boxes of their own.
    page = Page(report_html(examples.content(diagnosis=examples.diagnosis(examples.finding()))))
    assert "100 % of the observed payload in 2 of 2 kernels hottest: gpu-1 2r/2n" in page.text
    assert "P1 open a ticket Slow transfers: gpu-1" in page.text


def test_the_meters_say_how_much_of_the_job_the_log_saw() -> None:
    content = examples.content(
        tables={"coverage": examples.coverage(capture_rate=0.25), "communicators": examples.communicators(8, 2)}
    )
    assert [(meter.value, meter.share) for meter in meters(content)] == [
        ("25 %", 0.25),
        ("100 %", 1.0),
        ("2 of 8", 0.25),
    ]


def test_the_key_facts_say_what_the_run_is() -> None:
    run_info = {"model": "340b", "parallelism": {"tp": 8}}
    facts = {
        fact.label: fact.value
        for fact in key_facts(examples.content(manifest=examples.manifest(run_info=run_info, rejected_lines=1)))
    }
    assert facts == {
        "GPUs (processes)": "2",
        "Hosts": "2",
        "Duration": "10 s",
        "First record": "2025-08-30T20:20:06Z",
        "Records": "8, 1 line rejected",
        "NCCL, plugin": "2.30.7 (build name); format v4.0",
        "model": "340b",
        "parallelism": '{"tp": 8}',
        "Smallest message recorded": "1.02 kB",
    }


def test_hostile_names_appear_as_text_and_never_as_markup() -> None:
    plain, hostile = Page(_usual_page()), Page(report_html(examples.content(examples.HOSTILE)))
    assert hostile.tags.count("script") == plain.tags.count("script") == 1
    assert '<script>alert("x")</script>$\\frac{1}$\\u0007\\u202e\'&' in hostile.text
    assert "\u202e" not in hostile.text and "\x07" not in hostile.text
    assert not [name for name, _ in hostile.attributes if name.startswith("on")]


def test_the_page_refers_to_nothing_outside_itself() -> None:
    page = Page(_usual_page())
    links = [value for name, value in page.attributes if name in ("href", "src", "xlink:href") and value is not None]
    elsewhere = {link for link in links if not link.startswith(("#", "data/"))}
    assert elsewhere == {"../index.html", "data:,", "report.json", "file:///logs/job-1"}
    assert "link" in page.tags and "img" not in page.tags and "iframe" not in page.tags


def test_no_element_has_a_style_of_its_own_which_a_server_could_forbid() -> None:
    page = Page(_usual_page())
    assert not [value for name, value in page.attributes if name == "style"]
    assert page.tags.count("style") == 1


def test_the_policy_forbids_everything_but_inline_styles_and_the_one_script() -> None:
    html = _usual_page()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    assert re.fullmatch(
        r"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-[A-Za-z0-9+/=]{44}'; img-src data:; "
        r"base-uri 'none'; form-action 'none'",
        policy.group(1),
    )


def test_equal_content_gives_equal_pages() -> None:
    # That drawings are equal is tested beside them.
    content = examples.content(tables=NOTHING | {"hot_kernels": examples.content().tables["hot_kernels"]})
    assert report_html(content) == report_html(content)


def test_ids_are_unique_and_every_link_within_the_page_has_a_target() -> None:
    page = Page(_usual_page())
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    links = {value for name, value in page.attributes if name == "href" and value is not None and value.startswith("#")}
    assert {link.removeprefix("#") for link in links} <= set(ids)


def test_backticks_in_a_reading_become_code_and_its_markup_does_not() -> None:
    content = examples.content(tables=NOTHING)
    readings = dict(content.readings)
    readings["coverage"] = type(readings["coverage"])("Coverage", "Why?", "See `events` & <b>not bold</b>.")
    html = report_html(type(content)(content.manifest, content.tables, readings))
    assert "See <code>events</code> &amp; &lt;b&gt;not bold&lt;/b&gt;." in html


def test_a_report_of_thousands_of_processes_stays_small() -> None:
    rows = []
    for host in range(256):
        rows.append(examples.entity(f"node-{host}", host % 7, 3.0, 100, p50=40.0 + host % 11))
        for pid in range(8):
            name = {"level": "process", "pid": pid, "process": f"node-{host}-pid{pid}"}
            rows.append(examples.entity(f"node-{host}", pid, 3.0, 100, p50=40.0 + pid, **name))
    large = report_html(examples.content(tables=NOTHING | {"spatial_correlation": pa.Table.from_pylist(rows)}))
    assert len(large) < 400_000
    assert "The 12 of 2,048 processes with most last arrivals" in large
