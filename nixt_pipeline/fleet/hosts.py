"""The fleet's hosts: how often each was named, as what, what that cost: `<data>/results/host_health.parquet`.

A host that runs in many jobs is named more often by that alone. So the question is how likely its number of findings in
its number of runs is at the rate of all other hosts; only what chance hardly explains makes a suspect.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import scipy  # its parts are loaded when they are used: scipy.stats takes longer than all else

from nixt_pipeline.diagnosis.findings import ALARMING
from nixt_pipeline.fleet.compare.robust_stats import corrected
from nixt_pipeline.fleet.machines import Machines, find_machines
from nixt_pipeline.fleet.tables import FleetTable, Row
from nixt_pipeline.grouping import grouped
from nixt_pipeline.inspector.taxonomy import BOOL, F64, I32, I64, STRING, Column, Role
from nixt_pipeline.settings import Settings, Thresholds
from nixt_pipeline.store import catalog, layout
from nixt_pipeline.store.reading import query_readable

VERSION = "2"

# Findings that say something about a host; a slow fabric or a lossy log does not.
ROLES = {"late-arrival": "late", "slow-transfer": "slow", "hang": "stopped", "process-silent": "stopped"}
# With fewer runs, the earlier half cannot be distinguished from the later one.
_MIN_RUNS_FOR_TREND = 6

HOST_HEALTH = FleetTable(
    "host_health",
    Column("hostname", STRING, Role.IDENTIFIER, "", "The machine, or the host name as written", nullable=False),
    Column("suspect", BOOL, Role.DERIVED, "", "Flagged more often than by chance, and recently", nullable=False),
    Column("runs", I32, Role.COUNTER, "runs", "Diagnosed runs on the host", nullable=False),
    Column("named", I32, Role.COUNTER, "runs", "Runs that flag it, alone or among others", nullable=False),
    Column("named_alone", I32, Role.COUNTER, "runs", "Of those, runs in which it was flagged alone", nullable=False),
    Column("expected", F64, Role.DERIVED, "runs", "Runs expected to flag it at the rate of all other hosts"),
    Column("chance", F64, Role.DERIVED, "", "Probability of as many by chance, corrected for the number of hosts"),
    Column("late", I32, Role.COUNTER, "runs", "Runs in which it was late", nullable=False),
    Column("slow", I32, Role.COUNTER, "runs", "Runs in which its transfers were slow", nullable=False),
    Column("stopped", I32, Role.COUNTER, "runs", "Runs in which it hung or fell silent", nullable=False),
    Column("lost_rank_seconds", F64, Role.DERIVED, "s", "Rank-time that others lost, shared among flagged hosts"),
    Column("rank_hours", F64, Role.DERIVED, "h", "GPU-hours of the host in these runs"),
    Column("lost_share", F64, Role.DERIVED, "", "Share of the rank-time of all ranks of its runs that was lost"),
    Column(
        "trend", STRING, Role.DERIVED, "", "rising, falling or steady, from the earlier to the later half of its runs"
    ),
    Column("last_named_us", I64, Role.COUNTER, "us", "Start of the latest run that flags it; null if none does"),
    Column("last_named_run", STRING, Role.IDENTIFIER, "", "That run"),
    Column("last_seen_us", I64, Role.COUNTER, "us", "When its latest run ended"),
    Column("caution", STRING, Role.DERIVED, "", "Why the name may not be a machine's, which makes it no suspect"),
)


@dataclass
class _History:
    """What is known of a host; `named` has a flag for each of its runs in the order of time."""

    runs: list[str] = field(default_factory=list)
    named: list[bool] = field(default_factory=list)
    alone: int = 0
    roles: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    lost_s: float = 0.0
    rank_hours: float = 0.0
    run_rank_s: float = 0.0  # of all ranks of its runs
    caution: str = ""
    last_named_us: int | None = None
    last_seen_us: int | None = None


def update_host_health(catalog_rows: Sequence[Row], settings: Settings) -> pa.Table:
    """Judge every host of the run catalog and write the result."""
    return HOST_HEALTH.write(current_host_health(catalog_rows, settings), settings)


def current_host_health(catalog_rows: Sequence[Row], settings: Settings) -> pa.Table:
    """The table as `update_host_health` would write it: for readers of a store that they may not write to."""
    findings = _all_findings((row["run"] for row in catalog_rows), settings)
    machines = find_machines(catalog_rows, settings)
    return judge_hosts(catalog_rows, findings, settings.thresholds, machines)


def judge_hosts(
    catalog_rows: Iterable[Row],
    findings: Mapping[str, Sequence[Row]],
    limits: Thresholds,
    machines: Machines = Machines(),  # noqa: B008 (it is frozen)
) -> pa.Table:
    """The table of hosts, suspects first. `findings` has the rows of `findings` of each run that has any.

    Runs that were not assessable say nothing about their hosts and do not count. A name that is no machine's is never a
    suspect, and no measure for the others.
    """
    histories: dict[str, _History] = defaultdict(_History)
    diagnosed = [row for row in catalog_rows if row["verdict"] in ("findings", "none-found")]
    for row in sorted(diagnosed, key=lambda row: (row["first_dump_us"] or 0, row["run"])):
        _add_run(histories, row, findings.get(row["run"], ()), machines)
    rows = []
    for of_machines in (True, False):
        group = {name: history for name, history in histories.items() if of_machines == (not history.caution)}
        total_runs = sum(len(history.runs) for history in group.values())
        total_named = sum(sum(history.named) for history in group.values())
        judged = [_row(name, history, total_runs, total_named) for name, history in group.items()]
        for row, chance in zip(judged, corrected([row["chance"] for row in judged]), strict=True):
            row["chance"] = chance
            # Repaired hosts, which none of their latest runs flags, are not drained again.
            latest = histories[row["hostname"]].named[-limits.comparison.host_recent_runs :]
            row["suspect"] = of_machines and is_named_too_often(row, limits) and any(latest)
        rows += judged
    rows.sort(key=lambda row: (not row["suspect"], -row["lost_rank_seconds"], row["chance"], row["hostname"]))
    return HOST_HEALTH.of(rows)


def is_named_too_often(row: Row, limits: Thresholds) -> bool:
    """Whether chance does not explain it. One finding is an incident; what repeats is the host."""
    return bool(row["named"] > 1 and row["chance"] < limits.diagnosis.max_chance)


def _add_run(histories: dict[str, _History], row: Row, findings: Sequence[Row], machines: Machines) -> None:
    hosts = [name for name in row["host_names"] if name]
    counted = [f for f in findings if f["kind"] in ROLES and f["severity"] in ALARMING and f["hosts"]]
    run_rank_s = row["gpus"] * (row["duration_us"] or 0) / 1e6
    for machine in dict.fromkeys(machines.of(row["run"], name) for name in hosts):
        names = {name for name in hosts if machines.of(row["run"], name) == machine}
        history, its = histories[machine], [f for f in counted if names & set(f["hosts"])]
        history.caution = next((why for name in sorted(names) if (why := machines.caution(row["run"], name))), "")
        history.runs.append(row["run"])
        history.named.append(bool(its))
        history.alone += any(len(f["hosts"]) == 1 or not f["ambiguous"] for f in its)
        lost_s = 0.0
        for finding in its:
            history.roles[ROLES[finding["kind"]]].add(row["run"])
            lost_s += (finding["lost_rank_seconds"] or 0.0) / len(finding["hosts"])
        # Findings that overlap can add up to more than there is.
        history.lost_s += min(lost_s, run_rank_s) if run_rank_s else lost_s
        history.run_rank_s += run_rank_s
        history.rank_hours += run_rank_s / 3600 * len(names) / len(hosts)
        history.last_seen_us = max(history.last_seen_us or 0, row["last_dump_us"] or 0) or None
        if its:
            history.last_named_us = row["first_dump_us"]


def _row(name: str, history: _History, total_runs: int, total_named: int) -> dict[str, Any]:
    runs, named = len(history.runs), sum(history.named)
    # The rate of the others, with Laplace's rule: in a fleet without findings, the first one is no proof.
    rate = (total_named - named + 1) / (total_runs - runs + 2)
    last = max((number for number, is_named in enumerate(history.named) if is_named), default=None)
    return {
        "hostname": name,
        "runs": runs,
        "named": named,
        "named_alone": history.alone,
        "expected": runs * rate,
        "chance": float(scipy.stats.binom.sf(named - 1, runs, rate)),
        **{role: len(history.roles[role]) for role in ("late", "slow", "stopped")},
        "lost_rank_seconds": history.lost_s,
        "rank_hours": history.rank_hours,
        "lost_share": min(1.0, history.lost_s / history.run_rank_s) if history.run_rank_s else None,
        "trend": _trend(history.named),
        "last_named_us": history.last_named_us,
        "last_named_run": None if last is None else history.runs[last],
        "last_seen_us": history.last_seen_us,
        "caution": history.caution or None,
    }


def _trend(named: Sequence[bool]) -> str:
    """Whether the later half of the runs names the host more or less often than the earlier (Fisher's exact test)."""
    if len(named) < _MIN_RUNS_FOR_TREND:
        return "steady"
    half = len(named) // 2
    early, late = named[:half], named[half:]
    table = [[sum(late), len(late) - sum(late)], [sum(early), len(early) - sum(early)]]
    if scipy.stats.fisher_exact(table).pvalue >= 0.05:
        return "steady"
    return "rising" if sum(late) / len(late) > sum(early) / len(early) else "falling"


def _all_findings(runs: Iterable[str], settings: Settings) -> dict[str, list[dict[str, Any]]]:
    """The findings of many runs."""
    paths = [layout.results_path("findings", run, settings) for run in runs]
    files = [path for path in paths if path.exists()]
    if not files:
        return {}
    sql = """
    SELECT run, kind, severity, hosts, ambiguous, lost_rank_seconds
    FROM read_parquet($files, hive_partitioning = false, union_by_name = true)
    """
    with catalog.connect(settings) as con:
        read = query_readable(con, sql, files, "nixt diagnose RUN rebuilds it")
    return grouped(read.to_pylist() if read else [], lambda row: row["run"])
