"""The pages in a real browser: what markup alone can't show."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nixt_pipeline.reporting.index import index_html
from nixt_pipeline.reporting.report import report_html
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
    """A report and an index whose names are long and hostile."""
    name = examples.HOSTILE + "x" * 200
    rows = [{"run": f"{prefix}{name}", "records": records, "link": None} for prefix, records in (("a", 9), ("b", 10))]
    html = {"report": report_html(examples.content(name)), "index": index_html(rows)}
    directory = tmp_path_factory.mktemp("pages")
    for page, text in html.items():
        (directory / f"{page}.html").write_text(text, encoding="utf-8")
    return {page: directory / f"{page}.html" for page in html}


@pytest.mark.parametrize("page", ["report", "index"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
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
    assert records.all_inner_texts() == ["9", "10"]
    heading = tab.get_by_role("button", name="Records")
    heading.click()
    heading.click()
    assert records.all_inner_texts() == ["10", "9"]
    assert tab.locator("th[aria-sort=descending]").inner_text() == "Records"
    tab.close()


def test_without_javascript_everything_is_there(browser: Any, pages: dict[str, Path]) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(pages["report"].as_uri())
    assert tab.locator("section").count() == 13
    assert tab.locator("figure svg").count() == 12
    assert tab.locator("th button").count() == 0
    context.close()
