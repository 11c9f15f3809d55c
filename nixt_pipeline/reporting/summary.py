"""The first screen beside the findings: how far they can be trusted, what the run is, and its key numbers."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.inert import shorten
from nixt_pipeline.quantities import NOT_AVAILABLE, count, duration, number, percent, plural, size, utc
from nixt_pipeline.reporting.anchors import kernel_anchor
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.coverage import Coverage
from nixt_pipeline.reporting.rows import Row, as_floats, first_rows
from nixt_pipeline.reporting.sections.kernels import hottest
from nixt_pipeline.reporting.sections.run import nccl_hint, time_span
from nixt_pipeline.reporting.text import plain
from nixt_pipeline.reporting.views import Fact, Link, Meter, Tile

NOT_COMPUTED = "not computed"
_WAITING = "of the GPUs' time in collectives is waiting for the last rank"
VALUE_CHARACTERS = 24
_SETTING_CHARACTERS = 60
# What run.json may say that a reader wants first; all of it is in the section about the run.
_SETTINGS = ("name", "model", "parallelism", "nccl_version", "tags", "baseline")


def meters(content: RunContent) -> tuple[Meter, ...]:
    """How much of the job the log saw."""
    coverage, launches = content.coverage, content.manifest.incarnations
    absent = NOT_COMPUTED if "coverage" not in content.tables else "not assessable"
    return (
        _meter("Operations captured", coverage.capture_rate, absent, "records seen, of those that were due"),
        _meter("Complete collectives", coverage.complete_share, absent, "recorded by every rank: only they name hosts"),
        Meter(
            "Processes with records",
            coverage.processes_seen / coverage.processes_expected if coverage.processes_expected else None,
            f"{count(coverage.processes_seen)} of {count(coverage.processes_expected)}",
            _missing(coverage) + (f", in {count(launches)} launches" if launches > 1 else ""),
        ),
    )


def _meter(label: str, share: float | None, absent: str, detail: str) -> Meter:
    return Meter(label, share, absent if share is None else percent(share), detail)


def _missing(coverage: Coverage) -> str:
    missing = coverage.processes_expected - coverage.processes_seen
    if missing:
        return f"{plural(missing, 'process', 'processes')} left no record"
    return "every expected process left records" if coverage.processes_expected else "no process left a record"


def key_facts(content: RunContent) -> tuple[Fact, ...]:
    """What the run is, in a dozen lines."""
    manifest = content.manifest
    first, _, span = time_span(content)
    facts = [
        Fact("GPUs (processes)", count(len(content.values("processes", "process")))),
        Fact("Hosts", count(len(content.values("hosts", "hostname")))),
        Fact("Duration", span),
        Fact("First record", utc(first)),
        Fact("Records", _records(content)),
        Fact("NCCL, plugin", _versions(content)),
    ]
    for name in _SETTINGS:
        value = manifest.run_info.get(name)
        if value not in (None, "", [], {}):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            facts.append(Fact(name.replace("_", " "), shorten(text, _SETTING_CHARACTERS)))
    sizes = content.values("resource_correlation", "coll_msg_size_bytes")
    smallest = min((found for found in sizes if found), default=None)
    facts.append(Fact("Smallest message recorded", size(smallest)))
    return tuple(facts)


def _records(content: RunContent) -> str:
    manifest = content.manifest
    problems = sum(number for status, number in manifest.files.items() if status not in ("read", "unchanged"))
    odd = [
        plural(amount, noun) + past
        for amount, noun, past in ((manifest.rejected_lines, "line", " rejected"), (problems, "file", " not read"))
        if amount
    ]
    return ", ".join([count(manifest.records.get("stored", 0)), *odd])


def _versions(content: RunContent) -> str:
    writers = content.rows("writers")
    if not writers:
        return NOT_AVAILABLE
    first = writers[0]
    more = f" and {len(writers) - 1} more" if len(writers) > 1 else ""
    return f"{nccl_hint(first)}; format {plain(first['inspector_output_format_version'])}{more}"


def raw_data(content: RunContent) -> Link:
    """Where the logs lie; a browser follows the link only from a page that it opened from disk."""
    return Link(content.manifest.source_dir, Path(content.manifest.source_dir).as_uri())


def tiles(content: RunContent) -> tuple[Tile, ...]:
    """Where the bytes are, how fast they are, and how much of the time is waiting."""
    table = content.tables.get("hot_kernels")
    if table is None:
        labels = ("hot kernels", "bandwidth of the hottest kernel", _WAITING)
        return tuple(Tile(NOT_COMPUTED, label) for label in labels)
    return (_kernel_tile(table), _bandwidth_tile(table), _waiting_tile(table))


def _kernel_tile(table: pa.Table) -> Tile:
    kernels = hottest(table, 3, "share_of_payload")
    if not kernels:
        return Tile("nothing recorded", "hot kernels")
    top = f"of the observed payload in {count(len(kernels))} of {plural(table.num_rows, 'kernel')}"
    share = percent(kernels[-1]["cumulative_share_of_payload"])
    return Tile(share, top, f"hottest: {kernels[0]['label']}", f"#{kernel_anchor(kernels[0])}")


def _bandwidth_tile(table: pa.Table) -> Tile:
    kernel = hottest_timed(table)
    if kernel is None:
        return Tile("nothing recorded", "no kernel has a usable bandwidth")
    transfer = kernel["transfer_busbw_p50_gbs"]
    detail = f"p10 {number(kernel['busbw_p10_gbs'])}, p90 {number(kernel['busbw_p90_gbs'])}"
    if transfer is not None:
        detail += f"; last rank to arrive {number(transfer)}"
    name = f"{shorten(kernel['coll'], VALUE_CHARACTERS)} {size(kernel['coll_msg_size_bytes'])}"
    return Tile(
        f"{number(kernel['busbw_p50_gbs'])} GB/s",
        f"median bus bandwidth of the hottest timed kernel, {name}",
        detail,
        f"#{kernel_anchor(kernel)}",
    )


def hottest_timed(kernels: pa.Table) -> Row | None:
    """The row of `hot_kernels` with most bytes among those with a usable bandwidth; None without any."""
    return next(iter(first_rows(kernels, 1, "rank_by_bytes", known="busbw_p50_gbs")), None)


def _waiting_tile(table: pa.Table) -> Tile:
    kernels = table.select(["wait_us", "transfer_time_us", "n_ranks"])
    split = kernels.filter(pc.is_valid(kernels["wait_us"]))
    waited = pc.sum(split["wait_us"]).as_py() or 0.0
    rank_time = pc.multiply(as_floats(split["transfer_time_us"]), as_floats(split["n_ranks"]))
    total = waited + (pc.sum(rank_time).as_py() or 0.0)
    if not total:
        return Tile("not assessable", _WAITING, "no collective was recorded by every rank")
    detail = f"{duration(waited)} of {duration(total)}, over complete collectives"
    return Tile(percent(waited / total), _WAITING, detail, "#waiting")
