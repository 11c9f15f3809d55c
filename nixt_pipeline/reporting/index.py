"""The index of all runs: a row for each, with its verdict, its size, how far its data can be trusted, and its report.

What a row needs beside the run catalog is a small file that the run's report leaves (`run_line`), so that a thousand
runs cost a thousand small files and no query.
"""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nixt_pipeline.diagnosis.findings import SEVERITIES
from nixt_pipeline.diagnosis.results import stored_diagnosis
from nixt_pipeline.diagnosis.wording.text import verdict_in_brief
from nixt_pipeline.fleet.catalog import RUN_CATALOG, current_run_catalog
from nixt_pipeline.quantities import count, duration, number, percent, plural, utc
from nixt_pipeline.reporting import pages
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.rows import matching
from nixt_pipeline.reporting.sections.findings import verdict_class
from nixt_pipeline.reporting.summary import hottest_timed
from nixt_pipeline.reporting.text import iso, plain
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.files import where_possible, write_table, write_text
from nixt_pipeline.store.integrity import list_runs
from nixt_pipeline.store.reading import read_json

LINE_FILE = "line.json"
# The fleet: hosts, baselines and comparisons; `fleet_page` makes it.
FLEET_PAGE = "fleet.html"
# Rows that are laid out at once: a browser takes seconds for thousands.
FIRST_ROWS = 300
# Points of a sparkline: it is as wide as a word.
_SPARK_POINTS = 24


def render_index(settings: Settings) -> Path:
    """Write `reports/index.html` over every published run and return its path. Without runs it says how to get one."""
    path = settings.reports_dir / "index.html"
    write_text(index_html(run_rows(settings), (settings.reports_dir / FLEET_PAGE).exists()), path)
    return path


def run_line(content: RunContent) -> str:
    """What the index shows of a run beside its row in the catalog, as JSON."""
    diagnosis = content.diagnosis
    kernels = content.tables.get("hot_kernels")
    kernel = None if kernels is None else hottest_timed(kernels)
    line: dict[str, Any] = {"verdict": verdict_in_brief(diagnosis), "class": verdict_class(diagnosis)}
    if kernel is not None:
        temporal = content.tables.get("temporal_correlation")
        bins = None if temporal is None else matching(temporal, {name: kernel[name] for name in ("coll", "coll_type")})
        values = [] if bins is None else bins["busbw_p50_gbs"].drop_null().to_pylist()
        line |= {
            "kernel": kernel["label"],
            "busbw_p50_gbs": kernel["busbw_p50_gbs"],
            "busbw_over_time_gbs": [float(f"{value:.3g}") for value in thinned(values)],
        }
    return json.dumps(line)


def thinned(values: Sequence[float], points: int = _SPARK_POINTS) -> list[float]:
    """Means of at most `points` equal stretches of `values`."""
    if len(values) <= points:
        return list(values)
    edges = [position * len(values) // points for position in range(points + 1)]
    return [sum(values[low:high]) / (high - low) for low, high in pairwise(edges)]


def run_rows(settings: Settings) -> list[dict[str, Any]]:
    """The catalog's row of each published run, newest first, with `line` from its report and `link` to it."""
    if not list_runs(settings):
        return []
    catalog = current_run_catalog(settings).table
    with where_possible():
        write_table(catalog, RUN_CATALOG.path(settings))
    rows: list[dict[str, Any]] = catalog.to_pylist()
    for row in rows:
        directory = layout.report_dir(row["run"], settings)
        below = quote(directory.relative_to(settings.reports_dir).as_posix())
        row["link"] = f"{below}/index.html" if (directory / "index.html").exists() else None
        row["line"] = _line(directory / LINE_FILE, row["run"], settings)
    return sorted(rows, key=lambda row: (-(row["first_dump_us"] or 0), row["run"]))


def _line(path: Path, run: str, settings: Settings) -> dict[str, Any]:
    line = read_json(path, _line_shape, f"nixt report {run} makes it again")
    if line is not None:
        return line
    diagnosis = stored_diagnosis(run, settings)
    return {"verdict": verdict_in_brief(diagnosis), "class": verdict_class(diagnosis)}


def _line_shape(content: dict[str, Any]) -> dict[str, Any]:
    """`content` if it has what a row shows. Raises `KeyError` or `TypeError` otherwise."""
    content["verdict"], content["class"]
    return content


def index_html(rows: list[dict[str, Any]], has_fleet_page: bool = False) -> str:
    """The page for `rows` of `run_rows`, with a link to the fleet's page if there is one."""
    hosts = sorted({host for row in rows for host in row["host_names"] or ()})
    position_of = {host: position for position, host in enumerate(hosts)}
    return pages.render(
        "index.html.j2",
        title="Runs",
        first_rows=FIRST_ROWS,
        fleet_page=FLEET_PAGE if has_fleet_page else "",
        rows=[_view(row) for row in rows],
        classes=sorted({row["line"]["class"] for row in rows}, key=_by_urgency),
        # Hosts by number, in ranges: the names of a thousand hosts in each of a thousand rows would be the whole page.
        hosts={
            "names": hosts,
            "runs": [_ranges(position_of[host] for host in row["host_names"] or ()) for row in rows],
        },
    )


_CLASSES = (*SEVERITIES, "none-found", "not-assessable", "not-diagnosed")


def _by_urgency(name: str) -> int:
    return _CLASSES.index(name) if name in _CLASSES else len(_CLASSES)


def _view(row: dict[str, Any]) -> dict[str, Any]:
    """A row in words, with what its columns are sorted by."""
    line = row["line"]
    title = row["name"] if row["name"] and row["name"] != row["run"] else ""
    kernel = line.get("busbw_p50_gbs")
    return {
        "run": row["run"],
        "link": row["link"],
        "about": ", ".join(plain(part) for part in (title, row["model"], *(row["tags"] or ())) if part),
        "class": line["class"],
        "urgency": _by_urgency(line["class"]),
        "badge": line["class"] if line["class"] in SEVERITIES else "",
        "verdict": (line["verdict"] or "not diagnosed").removeprefix(f"{line['class']} "),
        "first": utc(row["first_dump_us"]),
        "span": duration(row["duration_us"]),
        "span_us": row["duration_us"],
        "gpus": count(row["processes"]),
        "hosts": count(row["hosts"]),
        "records": count(row["records"]),
        "records_number": row["records"],
        "busbw": "" if kernel is None else f"{number(kernel)} GB/s",
        "busbw_gbs": kernel,
        "kernel": line.get("kernel", ""),
        "spark": _spark(line.get("busbw_over_time_gbs", [])),
        "captured": percent(row["capture_rate"]),
        "capture_rate": row["capture_rate"],
        "odd": _odd(row),
        "ingested": iso(row["ingested_at"]),
    }


def _odd(row: dict[str, Any]) -> str:
    parts = []
    if row["rejected_lines"]:
        parts.append(f"{plural(row['rejected_lines'], 'line')} rejected")
    if row["incarnations"] > 1:
        parts.append(f"{row['incarnations']} launches")
    return ", ".join(parts)


def _spark(values: Sequence[float]) -> str:
    """The points of a polyline in a box of 100 by 20, from 0 to the largest value; empty when there is no course."""
    if len(values) < 2 or not max(values):
        return ""
    step, top = 100 / (len(values) - 1), max(values)
    return " ".join(f"{position * step:.0f},{19 - 18 * value / top:.0f}" for position, value in enumerate(values))


def _ranges(numbers: Any) -> list[int]:
    """`[start, length, start, length, ...]` of runs of following numbers."""
    found: list[int] = []
    for position in sorted(numbers):
        if found and found[-2] + found[-1] == position:
            found[-1] += 1
        else:
            found += [position, 1]
    return found
