"""The pages in a real browser: what markup alone can't show."""

import json
import shutil
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from nixt_pipeline.fleet.compare.compare import compare_sides
from nixt_pipeline.fleet.compare.comparison import Comparison
from nixt_pipeline.reporting.comparison_page import comparison_html
from nixt_pipeline.reporting.downloads import report_json, write_downloads
from nixt_pipeline.reporting.index import index_html, run_line
from nixt_pipeline.reporting.report import report_html
from nixt_pipeline.settings import Thresholds
from nixt_pipeline.store.files import write_text
from nixt_pipeline_tests.fleet.examples import Kernel, side, summary
from nixt_pipeline_tests.reporting import examples

CHROMIUM = shutil.which("chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report with its tables, and an index, whose names are long and hostile."""
    name = examples.HOSTILE + "x" * 200
    content = examples.content(name, diagnosis=examples.diagnosis(examples.finding(hosts=[name])))
    line = json.loads(run_line(content))
    rows = [
        examples.catalog_row(run=f"{prefix}{name}", records=records, line=line, host_names=[f"gpu-{records}"])
        for prefix, records in (("a", 9), ("b", 10))
    ]
    rows.append(examples.catalog_row(run="c", records=8, link="job-1/index.html", first_dump_us=1))
    directory = tmp_path_factory.mktemp("reports")
    write_downloads(content, directory / "job-1" / "data")
    write_text(report_json(content), directory / "job-1" / "report.json")
    write_text(report_html(content), directory / "job-1" / "index.html")
    write_text(index_html(rows), directory / "index.html")
    write_text(comparison_html(_comparison()), directory / "comparisons" / "b_against_a.html")
    return {
        "report": directory / "job-1" / "index.html",
        "index": directory / "index.html",
        "comparison": directory / "comparisons" / "b_against_a.html",
    }


def _comparison() -> Comparison:
    """Half of the communicators of a run became slower, on other hosts."""
    before, after = (Kernel(groups=(("a b", 1.0), ("c d", factor))) for factor in (1.0, 15.0))
    a, b = summary("a", (before,)), summary("b", (after,), seed=1, host_names=["e", "f", "g", "h"])
    return compare_sides(side(a), side(b), Thresholds())


@pytest.mark.parametrize("page", ["report", "index", "comparison"])
@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1280, "light"), (2560, "dark")])
def test_a_page_opens_without_errors_requests_or_overflow(
    browser: Any, pages: dict[str, Path], page: str, width: int, scheme: str
) -> None:
    tab = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    complaints: list[str] = []
    requests: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("dialog", lambda dialog: complaints.append(f"a dialog opened: {dialog.message}"))
    tab.on("request", lambda request: requests.append(request.url))

    tab.goto(pages[page].as_uri())

    assert complaints == []
    assert requests == [pages[page].as_uri()]
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.close()


def test_no_table_is_cut_off_on_a_screen_of_usual_width(browser: Any, pages: dict[str, Path], tmp_path: Path) -> None:
    # Names of usual lengths: a table is as wide as what is in it.
    content = examples.content("job-1")
    write_text(report_html(content), tmp_path / "index.html")
    for page in (tmp_path / "index.html", pages["comparison"]):
        tab = browser.new_page(viewport={"width": 1200, "height": 800})
        tab.goto(page.as_uri())
        wider = tab.locator(".scroll").evaluate_all(
            "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.getAttribute('aria-label'))"
        )
        tab.close()
        assert wider == []


# All of a report in both schemes would take a quarter of the time of all browser tests.
@pytest.mark.parametrize(
    ("page", "scheme", "part"),
    [
        ("report", "light", "body"),
        ("report", "dark", ".first"),
        ("index", "dark", "body"),
        ("comparison", "light", "body"),
    ],
)
def test_axe_finds_nothing_that_keeps_anybody_out(
    browser: Any, pages: dict[str, Path], page: str, scheme: str, part: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    tab = browser.new_page(color_scheme=scheme)
    tab.goto(pages[page].as_uri())
    found = axe.run(tab, context=part).response["violations"]
    tab.close()
    assert [(item["id"], item["nodes"][0]["html"]) for item in found] == []


def test_on_a_phone_the_verdict_and_the_first_finding_come_before_everything_else(
    browser: Any, pages: dict[str, Path]
) -> None:
    tab = browser.new_page(viewport={"width": 390, "height": 844})
    tab.goto(pages["report"].as_uri())
    verdict, card, coverage = (
        tab.locator(place).first.bounding_box() for place in (".verdict", "article.card", "aside")
    )
    tab.close()
    assert verdict["y"] < card["y"] < 844
    assert card["y"] + card["height"] <= coverage["y"]


def test_every_link_leads_somewhere(browser: Any, pages: dict[str, Path]) -> None:
    tab = browser.new_page()
    tab.goto(pages["report"].as_uri())
    links = set(tab.locator("a").evaluate_all("links => links.map(link => link.getAttribute('href'))"))
    ids = set(tab.locator("[id]").evaluate_all("all => all.map(element => element.id)"))
    tab.close()
    # The logs of the examples do not exist.
    links.remove("file:///logs/job-1")
    assert {link[1:] for link in links if link.startswith("#")} <= ids
    files = [link for link in links if not link.startswith("#")]
    assert [link for link in files if not (pages["report"].parent / link).exists()] == []
    assert "data/hot_kernels.csv" in files


def test_a_link_to_a_host_shows_its_row(browser: Any, pages: dict[str, Path]) -> None:
    tab = browser.new_page(viewport={"width": 1280, "height": 800})
    tab.goto(pages["report"].as_uri())
    tab.locator("article.card dd a").first.click()
    row = tab.locator("tr:target")
    assert row.locator("td").first.inner_text().startswith("<script>")
    assert 0 <= row.bounding_box()["y"] < 800
    tab.close()


def test_every_figure_carries_data_and_says_in_words_what_it_shows(browser: Any, pages: dict[str, Path]) -> None:
    tab = browser.new_page()
    tab.goto(pages["report"].as_uri())
    drawn = tab.locator(".panels svg").evaluate_all(
        "all => all.map(svg => [svg.getAttribute('aria-label'), svg.querySelectorAll('path, image, use').length,"
        " svg.querySelectorAll('text').length])"
    )
    tab.close()
    assert len(drawn) > 15
    assert [label for label, marks, texts in drawn if not label or marks < 5 or texts < 2] == []


def test_hostile_names_are_text_in_tables_and_figures(browser: Any, pages: dict[str, Path]) -> None:
    tab = browser.new_page()
    tab.goto(pages["report"].as_uri())
    assert tab.locator("script").count() == 1
    assert tab.locator("td", has_text='<script>alert("x")</script>').count() > 0
    assert tab.locator("svg text", has_text="<script>").count() > 0
    tab.close()


def test_a_click_on_a_heading_sorts_numbers_as_numbers(browser: Any, pages: dict[str, Path]) -> None:
    tab = browser.new_page()
    tab.goto(pages["index"].as_uri())
    records = tab.locator("tbody tr td:nth-child(7)")
    assert records.all_inner_texts() == ["9", "10", "8"]
    heading = tab.get_by_role("button", name="Records")
    heading.click()
    assert records.all_inner_texts() == ["8", "9", "10"]
    heading.click()
    assert records.all_inner_texts() == ["10", "9", "8"]
    assert tab.locator("th[aria-sort=descending]").inner_text() == "Records"
    tab.close()


def test_the_index_is_filtered_by_text_verdict_and_host(browser: Any, pages: dict[str, Path]) -> None:
    tab = browser.new_page()
    tab.goto(pages["index"].as_uri())
    shown = tab.locator("output")
    tab.get_by_label("Host").fill("gpu-10")
    assert shown.inner_text() == "1 of 3 runs"
    tab.get_by_label("Host").fill("")
    tab.get_by_label("Verdict").select_option("P1")
    assert shown.inner_text() == "2 of 3 runs"
    tab.get_by_label("Name, tag or finding").fill("b<script>")
    assert shown.inner_text() == "1 of 3 runs"
    tab.close()


def test_without_javascript_everything_is_there(browser: Any, pages: dict[str, Path]) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(pages["report"].as_uri())
    assert tab.locator("main > section").count() == 19
    assert tab.locator("figure svg").count() > 15
    assert tab.locator("th button").count() == 0
    tab.goto(pages["index"].as_uri())
    assert tab.locator("tbody tr:visible").count() == 3
    assert not tab.locator("form.filters").is_visible()
    context.close()


# What servers send with files they serve: Jenkins with artifacts, others with raw files and pages of their own.
POLICIES = {
    "jenkins": "sandbox; default-src 'none'; img-src 'self'; style-src 'self'",
    "none": "default-src 'none'",
    "raw": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "self": "default-src 'self'; object-src 'none'",
}


@pytest.fixture(scope="module")
def served(pages: dict[str, Path]) -> Iterator[str]:
    """The address below which the folder of a policy's name serves the pages with that policy."""

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            _, self.policy, self.path = self.path.split("/", 2)
            super().do_GET()

        def end_headers(self) -> None:
            self.send_header("Content-Security-Policy", POLICIES[self.policy])
            super().end_headers()

        def log_message(self, *_: object) -> None:
            """Quietly."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=pages["index"].parent)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_have_their_colours_under_any_policy_of_the_server(
    browser: Any, served: str, policy: str, scheme: str
) -> None:
    tab = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme=scheme)
    tab.goto(f"{served}/{policy}/job-1/index.html")
    drawn = tab.locator(".panels svg").evaluate_all(
        "all => all.map(svg => [...svg.querySelectorAll(':scope g g path:not(defs *), :scope g g use')].map(mark => {"
        "const style = getComputedStyle(mark); return style.fill == 'none' ? style.stroke : style.fill}))"
    )
    texts = set(tab.locator(".panels svg text").evaluate_all("all => all.map(text => getComputedStyle(text).fill)"))
    widths = tab.locator(".panels svg").evaluate_all("all => all.map(svg => svg.getBoundingClientRect().width)")
    swatches = set(tab.locator(".key svg *").evaluate_all("all => all.map(mark => mark.getAttribute('fill'))"))
    tab.close()
    assert len(drawn) > 15
    black = "rgb(0, 0, 0)"
    assert [colours for colours in drawn if black in colours] == []
    assert [colours for colours in drawn if not set(colours) - {"none"}] == []
    palette = {"rgb(0, 114, 178)", "rgb(0, 158, 115)"}  # nic-only, nvlink-only
    assert palette <= {colour for colours in drawn for colour in colours}
    # The page's own style sheet sets text in the colour of the scheme; without it, text has a grey for both.
    own = {"light": "rgb(29, 33, 41)", "dark": "rgb(230, 232, 235)"}[scheme]
    assert texts == {own if policy == "raw" else "rgb(119, 119, 119)"}
    assert max(widths) <= 544
    assert {"#0072B2", "#009E73"} <= swatches
