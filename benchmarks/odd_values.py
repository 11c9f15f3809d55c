"""Put every odd value into every field of a record, and see whether a diagnosis and a report come out.

    python -m benchmarks.odd_values                   # every combination
    python -m benchmarks.odd_values --share 0/8       # an eighth of them
    python -m benchmarks.odd_values --field sn --without-report

Each combination of field, value and scope (one record, one rank, all records) is put into two small jobs of four
ranks. One is late, slow and hangs, so that each detector gets to its arithmetic; it is ingested, analysed, diagnosed
and reported. The other one has lost records, two stages, and clocks that differ; it is ingested and diagnosed. Nothing
may raise, no detector may be `not-assessed`, no section may be left out, and the findings keep their contract. Prints
the combinations that do not, and exits with 1 when there are some. Set TMPDIR to a directory in memory: it is faster.
"""

import argparse
import copy
import json
import logging
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from typing import Any, TypeVar

import nixt_pipeline as nixt
from nixt_pipeline.analysis import ANALYSES
from nixt_pipeline.analysis.base import compute
from nixt_pipeline.analysis.cells import build_cells
from nixt_pipeline.diagnosis import diagnose_views
from nixt_pipeline.inspector.decoder import decode_line
from nixt_pipeline.inspector.fields import RejectedError
from nixt_pipeline.inspector.records import ForeignError, RecordTyper
from nixt_pipeline.inspector.taxonomy import EVENT_COLUMNS
from nixt_pipeline.quality.findings import judge_findings
from nixt_pipeline.reporting.content import load_content
from nixt_pipeline.reporting.report import report_html
from nixt_pipeline.settings import Settings, Thresholds, load_settings
from nixt_pipeline.store import catalog, layout
from nixt_pipeline.store.files import write_table

RANKS, STEPS = 4, 30
_FIRST_ILL, _STOPPED = STEPS // 4, STEPS - 4  # steps
_LATE_US = 300_000
_TOLD = 20
EPOCH_US = 1_756_587_600_000_000
ABSENT = object()
KINDS = ("AllReduce", "AllGather", "Send", "Recv")
SCOPES = ("one record", "one rank", "all records")

T = TypeVar("T")
Record = dict[str, Any]
Path_ = tuple[str | int, ...]

# What stands where a number, a text or an object is expected. JSON that Python's encoder does not write is below.
VALUES: dict[str, Any] = {
    "absent": ABSENT, "null": None, "-1": -1, "0": 0, "1": 1, "2^31-1": 2**31 - 1, "2^31": 2**31, "2^53": 2**53,
    "2^62": 2**62, "2^63-1": 2**63 - 1, "2^63": 2**63, "2^64-1": 2**64 - 1, "2^64": 2**64, "-2^63": -(2**63),
    "1e300": 1e300, "0.5": 0.5, "-0.5": -0.5, "nan": float("nan"), "inf": float("inf"), "'nan'": "nan", "'12'": "12",
    "true": True, "''": "", "long": "x" * 20_000, "[]": [], "{}": {},
}  # fmt: skip

# Each field by its way through the record; {body} is coll_perf or p2p_perf, {prefix} coll or p2p.
FIELDS: dict[str, Path_] = {
    "id": ("header", "id"),
    "comm_name": ("header", "comm_name"),
    "rank": ("header", "rank"),
    "n_ranks": ("header", "n_ranks"),
    "nnodes": ("header", "nnodes"),
    "version": ("metadata", "inspector_output_format_version"),
    "git_rev": ("metadata", "git_rev"),
    "rec_mechanism": ("metadata", "rec_mechanism"),
    "dump_timestamp_us": ("metadata", "dump_timestamp_us"),
    "hostname": ("metadata", "hostname"),
    "pid": ("metadata", "pid"),
    "function": ("{body}", "{prefix}"),
    "sn": ("{body}", "{prefix}_sn"),
    "p2p_peer": ("{body}", "p2p_peer"),
    "msg_size_bytes": ("{body}", "{prefix}_msg_size_bytes"),
    "exec_time_us": ("{body}", "{prefix}_exec_time_us"),
    "timing_source": ("{body}", "{prefix}_timing_source"),
    "algobw_gbs": ("{body}", "{prefix}_algobw_gbs"),
    "busbw_gbs": ("{body}", "{prefix}_busbw_gbs"),
    "algo": ("{body}", "{prefix}_algo"),
    "event_trace_sn": ("{body}", "event_trace_sn"),
    "event_trace_ts": ("{body}", "event_trace_ts"),
    "start_sn": ("{body}", "event_trace_sn", "{prefix}_start_sn"),
    "start_ts": ("{body}", "event_trace_ts", "{prefix}_start_ts"),
    "kernel_events": ("{body}", "event_trace_ts", "kernel_events"),
    "channel_id": ("{body}", "event_trace_ts", "kernel_events", 0, "channel_id"),
    "kernel_start_ts": ("{body}", "event_trace_ts", "kernel_events", 0, "kernel_start_ts"),
}


@dataclass(frozen=True)
class Combination:
    """One odd value in one field of one record, of all of a rank, or of all."""

    field: str
    value: str
    scope: str

    def __str__(self) -> str:
        return f"{self.field} = {self.value} in {self.scope}"


def combinations() -> list[Combination]:
    """All that differ: of the values of a field that are stored as the same row, or rejected, one."""
    found: dict[tuple[str, ...], Combination] = {}
    for field in FIELDS:
        for value in VALUES:
            for scope in SCOPES:
                combination = Combination(field, value, scope)
                found.setdefault((*_stored_as(field, value), scope), combination)
    return list(found.values())


def _stored_as(field: str, value: str) -> Iterator[str]:
    """What becomes of a record of each kind, without the text that was written."""
    for kind in KINDS:
        line = json.dumps(_changed(_record(1, 1, kind), FIELDS[field], VALUES[value])).encode()
        (fragment,) = decode_line(line)
        try:
            typed = RecordTyper(0, Thresholds()).type(fragment.value or {}, len(line), 0)
        except (RejectedError, ForeignError) as error:
            yield type(error).__name__
        else:
            row = dict(zip((column.name for column in EVENT_COLUMNS), typed.event or (), strict=True))
            yield repr((row | {"extra": None, "record_bytes": 0}, typed.channels))


def _record(rank: int, step: int, kind: str) -> Record:
    """An AllReduce of all four ranks, an AllGather of the two of a host, or a Send to, or Recv from, the other host."""
    host, time_us = f"node-{rank // 2}", 100 + (step * 7 + rank * 3) % 11
    communicators: dict[str, tuple[str, int, int, int]] = {
        "AllReduce": ("DP Group 0", rank, 4, 2),
        "AllGather": (f"TP Group {rank // 2}", rank % 2, 2, 1),
        "Send": ("PP Group 0", rank, 4, 2),
        "Recv": ("PP Group 0", rank, 4, 2),
    }
    name, number, n_ranks, nnodes = communicators[kind]
    p2p = kind in ("Send", "Recv")
    body, prefix = ("p2p_perf", "p2p") if p2p else ("coll_perf", "coll")
    stamp = EPOCH_US + step * 1_000_000 + rank
    values: Record = {
        prefix: kind,
        f"{prefix}_sn": 2 * step + (kind == "Recv") if p2p else step,
        **({"p2p_peer": (rank + 2) % 4} if p2p else {}),
        f"{prefix}_msg_size_bytes": 4_194_304,
        f"{prefix}_exec_time_us": time_us,
        f"{prefix}_timing_source": "kernel_gpu",
        f"{prefix}_algobw_gbs": 41.0,
        f"{prefix}_busbw_gbs": 61.0,
        "event_trace_sn": {
            f"{prefix}_start_sn": 1, f"{prefix}_stop_sn": 2,
            "kernel_events": [{"channel_id": 0, "kernel_start_sn": 3, "kernel_stop_sn": 5, "kernel_record_sn": 4}],
        },
        "event_trace_ts": {
            f"{prefix}_start_ts": stamp - 200, f"{prefix}_stop_ts": stamp - 10,
            "kernel_events": [
                {"channel_id": 0, "kernel_start_ts": stamp - 150, "kernel_stop_ts": stamp, "kernel_record_ts": stamp}
            ],
        },
    }  # fmt: skip
    return {
        "header": {"id": f"0x{name[:2]}{name[-1]}", "comm_name": name, "rank": number, "n_ranks": n_ranks,
                   "nnodes": nnodes},
        "metadata": {
            "inspector_output_format_version": "v4.0", "git_rev": "v2.30.7-1", "rec_mechanism": "profiler",
            "dump_timestamp_us": stamp, "hostname": host, "pid": 100 + rank,
        },
        body: values,
    }  # fmt: skip


def _changed(record: Record, path: Path_, value: Any) -> Record:
    """The record with `value` at `path`; unchanged where the record has no such place."""
    body = next(key for key in ("coll_perf", "p2p_perf") if key in record)
    keys = [key.format(body=body, prefix=body[:-5]) if isinstance(key, str) else key for key in path]
    result = copy.deepcopy(record)
    place: Any = result
    for key in keys[:-1]:
        place = place[key]
    if value is not ABSENT:
        place[keys[-1]] = value
    else:
        place.pop(keys[-1], None)
    return result


def _ailing(rank: int, step: int, kind: str) -> Record | None:
    """A record of a job in which all wait for rank 3, the NVLinks of its host are slow, and rank 3 hangs."""
    record = _record(rank, step, kind)
    if step >= _STOPPED and (rank == 3 or kind == "AllReduce" or (rank == 2 and kind != "Send")):
        return None
    if step >= _FIRST_ILL and kind == "AllGather" and rank >= 2:
        record["coll_perf"]["coll_exec_time_us"] *= 5
    if step >= _FIRST_ILL and ((kind == "AllReduce" and rank != 3) or (kind == "AllGather" and rank == 2)):
        record["coll_perf"]["coll_exec_time_us"] += _LATE_US
    return record


def _lossy(rank: int, step: int, kind: str) -> Record | None:
    """A record of a job of two stages, the hosts, in which ranks are late in turns, records are missing, and the clock
    of a host is ahead, and then set ahead once more."""
    record = _record(rank, step, kind)
    if (step * 7 + rank * 3 + len(kind)) % 11 == 0 and rank != 1:
        return None
    if kind == "AllReduce":
        stage = rank // 2
        record["header"] |= {"id": f"0xd{stage}", "comm_name": f"DP Group {stage}", "rank": rank % 2, "n_ranks": 2}
        record["header"]["nnodes"] = 1
        record["coll_perf"]["coll_exec_time_us"] += _LATE_US * ((step * 37 % 5 < 3) == rank % 2)
    if rank >= 2:
        record["metadata"]["dump_timestamp_us"] += 10_000_000 if step > STEPS // 2 else 3_000_000
    return record


JOBS: dict[str, Callable[[int, int, str], Record | None]] = {"ailing": _ailing, "lossy": _lossy}


def _places(changes: list[Combination]) -> dict[Combination, tuple[int | None, int | None]]:
    """The rank and the step that each changes; None for all of them."""
    places: dict[Combination, tuple[int | None, int | None]] = dict.fromkeys(changes, (None, None))
    single = [change for change in changes if change.scope == "one record"]
    for rank, field in enumerate(dict.fromkeys(change.field for change in single), start=1):
        places |= {c: (rank, step) for step, c in enumerate(c for c in single if c.field == field)}
    places |= {c: (rank, None) for rank, c in enumerate((c for c in changes if c.scope == "one rank"), start=1)}
    return places


def write_job(job: str, directory: Path, changes: list[Combination]) -> None:
    """A small job with `changes`; a file for each rank. Of what changes one record, each field has a rank of its own,
    from rank 1 on, and each value a step; of what changes one rank, each has its own."""
    directory.mkdir(parents=True)
    places = _places(changes)
    for rank in range(RANKS):
        lines = []
        for step, kind in product(range(STEPS), KINDS):
            record = JOBS[job](rank, step, kind)
            if record is None:
                continue
            for change, (of_rank, of_step) in places.items():
                if of_rank in (rank, None) and of_step in (step, None):
                    record = _changed(record, FIELDS[change.field], VALUES[change.value])
            lines.append(json.dumps(record, separators=(",", ":")))
        (directory / f"node-{rank // 2}-pid{100 + rank}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")


def diagnosed(directory: Path, settings: Settings, analysed: bool, report: bool) -> dict[str, Any]:
    """The diagnosis, as JSON, of the job in `directory`, after its analyses where they are wanted."""
    run = nixt.ingest_run(directory, settings).run
    build_cells(run, settings)
    with catalog.open_run(run, settings) as con:
        for analysis in ANALYSES if analysed else ():
            result = compute(analysis, con, settings)
            if report:
                write_table(result, layout.results_path(analysis.name, run, settings))
        return diagnose_views(con, run, settings).to_json()


def problems(settings: Settings, directory: Path, analysed: bool, report: bool) -> list[str]:
    """What goes wrong with the job in `directory`."""
    diagnosis = diagnosed(directory, settings, analysed, report)
    found = [finding["evidence"] for finding in diagnosis["findings"] if finding["kind"] == "not-assessed"]
    found += [verdict.rule for verdict in judge_findings(diagnosis) if not verdict.passed]
    if report:
        html = report_html(load_content(diagnosis["run"], settings)).lower()
        found += ["the report has a part that could not be drawn"] if "could not be drawn" in html else []
    return found


def tried(changes: list[Combination], report: bool, analysed: bool = True, which: Collection[str] = JOBS) -> list[str]:
    """What goes wrong with the jobs that have `changes`, each in a store of its own; the first is analysed if it is
    `analysed`, and reported if there shall be a `report`."""
    found = []
    for job in which:
        first = job == next(iter(JOBS))
        with tempfile.TemporaryDirectory(prefix="odd-values-") as name:
            folder = Path(name)
            settings = load_settings(data_dir=folder / "data", reports_dir=folder / "reports", workers=1)
            try:
                write_job(job, folder / "job", changes)
                found += problems(settings, folder / "job", analysed and first, report and first)
            except Exception as error:
                logging.getLogger(__name__).exception("raised")
                found.append(f"{type(error).__name__}: {error}")
    return found


def jobs(fields: Collection[str], scopes: Collection[str] = SCOPES) -> list[list[Combination]]:
    """The combinations by job: what changes all records has a job of its own; what changes one record or one rank
    shares it with what does the same to two other ranks."""
    found = [c for c in combinations() if c.field in fields and c.scope in scopes]
    together = [[c] for c in found if c.scope == "all records"]
    single = [[c for c in found if c.field == field and c.scope == "one record"] for field in fields]
    together += [list(chain(*part)) for part in batched(filter(None, single))]
    return together + [list(part) for part in batched(c for c in found if c.scope == "one rank")]


def batched(items: Iterable[T]) -> list[list[T]]:
    """As many of `items` together as there are ranks besides the first."""
    left = list(items)
    return [left[start : start + RANKS - 1] for start in range(0, len(left), RANKS - 1)]


def main() -> None:
    """Try the combinations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", default="0/1", metavar="I/N", help="every N-th job, from the I-th on")
    parser.add_argument("--field", action="append", choices=FIELDS, help="this field only; may be given again")
    parser.add_argument("--scope", action="append", choices=SCOPES, help="this scope only; may be given again")
    parser.add_argument("--without-report", action="store_true", help="do not draw, which takes most of the time")
    arguments = parser.parse_args()
    share, shares = (int(part) for part in arguments.share.split("/"))
    chosen = jobs(arguments.field or list(FIELDS), arguments.scope or SCOPES)[share::shares]
    bad = 0
    for number, changes in enumerate(chosen, start=1):
        found = tried(changes, not arguments.without_report)
        bad += bool(found)
        for problem in found:
            print(f"{', '.join(map(str, changes))}: {problem}", flush=True)
        if number % _TOLD == 0:
            print(f"{number} of {len(chosen)} jobs", file=sys.stderr, flush=True)
    print(f"{len(chosen)} jobs, {bad} with a problem")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
