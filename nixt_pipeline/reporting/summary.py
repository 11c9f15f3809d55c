"""The key facts at the top of a report, in plain words."""

from nixt_pipeline.reporting import figures
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.quality import Coverage, coverage_of, host_count, process_count, time_span, within_host
from nixt_pipeline.reporting.text import count, duration, gbs, percent, plural, shorten, size
from nixt_pipeline.reporting.views import Tile

NOT_COMPUTED = "not computed"
VALUE_CHARACTERS = 24


def tiles(content: RunContent) -> tuple[Tile, ...]:
    """Size of the run, what was read, how much it covers, where the bytes are, how fast they are, who arrives last."""
    coverage = coverage_of(content)
    return (
        _size_tile(content),
        _reading_tile(content),
        _coverage_tile(content, coverage),
        _kernel_tile(content),
        _bandwidth_tile(content),
        _arrival_tile(content, coverage),
    )


def _size_tile(content: RunContent) -> Tile:
    processes = plural(process_count(content), "process", "processes")
    first, last = time_span(content)
    span = (
        f"records span {duration(last - first)}" if first is not None and last is not None else "no usable time stamps"
    )
    return Tile(processes, f"on {plural(host_count(content), 'host')}, normally one GPU each", span)


def _reading_tile(content: RunContent) -> Tile:
    manifest = content.manifest
    problems = sum(number for status, number in manifest.files.items() if status not in ("read", "unchanged"))
    rejected = f"{plural(manifest.rejected_lines, 'line')} rejected" if manifest.rejected_lines else "no line rejected"
    files = f"{plural(problems, 'file')} not read" if problems else "every file read"
    return Tile(count(manifest.records.get("stored", 0)), "records stored", f"{rejected}, {files}")


def _coverage_tile(content: RunContent, coverage: Coverage) -> Tile:
    if coverage.capture_rate is None:
        reason = NOT_COMPUTED if "coverage" not in content.tables else "not assessable"
        return Tile(reason, "capture rate")
    missing = coverage.processes_expected - coverage.processes_seen
    absent = (
        f"{plural(missing, 'process', 'processes')} left no record"
        if missing
        else "every expected process left records"
    )
    return Tile(percent(coverage.capture_rate), "of the operations captured", absent)


def _kernel_tile(content: RunContent) -> Tile:
    if "hot_kernels" not in content.tables:
        return Tile(NOT_COMPUTED, "hot kernels")
    data = figures.kernel_bars(content.tables["hot_kernels"], limit=3)
    if not data.kernels:
        return Tile("nothing recorded", "hot kernels")
    top = f"{count(len(data.kernels))} of {plural(data.total, 'kernel')}"
    return Tile(
        percent(data.kernels[-1].cumulative), f"of the observed payload in {top}", f"hottest: {data.kernels[0].label}"
    )


def _bandwidth_tile(content: RunContent) -> Tile:
    if "hot_kernels" not in content.tables:
        return Tile(NOT_COMPUTED, "bandwidth of the hottest kernel")
    timed = [row for row in content.rows("hot_kernels") if row["busbw_p50_gbs"] is not None]
    if not timed:
        return Tile("nothing recorded", "no kernel has a usable bandwidth")
    kernel = min(timed, key=lambda row: row["rank_by_bytes"])
    transfer = kernel["transfer_busbw_p50_gbs"]
    detail = f"p10 {gbs(kernel['busbw_p10_gbs'])}, p90 {gbs(kernel['busbw_p90_gbs'])}"
    if transfer is not None:
        detail += f"; last rank to arrive {gbs(transfer)}"
    name = f"{shorten(kernel['coll'], VALUE_CHARACTERS)} {size(kernel['coll_msg_size_bytes'])}"
    return Tile(
        f"{gbs(kernel['busbw_p50_gbs'])} GB/s", f"median bus bandwidth of the hottest timed kernel, {name}", detail
    )


def _arrival_tile(content: RunContent, coverage: Coverage) -> Tile:
    label = "most often last to arrive"
    if "spatial_correlation" not in content.tables:
        return Tile(NOT_COMPUTED, label)
    if coverage.capture_rate is not None and coverage.capture_rate < content.thresholds.min_capture_rate:
        return Tile("not assessable", label, "too few of the operations were captured to compare ranks")
    for level in ("host", "process"):
        arrivals = figures.last_arrivals(content.tables["spatial_correlation"], level, within_host(content), limit=1)
        if arrivals.rows:
            first = arrivals.rows[0]
            who = f"of {count(first.cells)} collectives had {shorten(first.label, VALUE_CHARACTERS)} arriving last"
            peers = plural(arrivals.total, level, _PLURALS[level])
            most = f"the most of {peers}; {percent(first.expected)} if all were equal"
            return Tile(percent(first.observed), who, most)
    return Tile("not assessable", label, "no complete collective between several processes")


_PLURALS = {"host": "hosts", "process": "processes"}
