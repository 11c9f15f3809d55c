"""Holding what the diagnosis said of a job against its truth, both as the JSON that anybody sees."""

import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from evaluation.independent.clocks import EPOCH_US
from evaluation.independent.jobs import write_job
from evaluation.independent.kinds import KINDS, draw_job
from evaluation.independent.shapes import AS_DRAWN, Scale
from nixt_pipeline.api import diagnose_run, ingest_run
from nixt_pipeline.settings import load_settings

Json = dict[str, Any]

_ABOUT_RECORDS = frozenset({"record-loss", "capture-gap", "clock-skew", "imbalance", "not-assessed", "process-silent"})
_KILLED_OR_HUNG = "unfinished-step"
_ALARMS, _BLAMES = ("P0", "P1", "P2"), ("P0", "P1")
# A fault that costs less is not worth a note; whether it is told does not count.
_WORTH_SAYING = 0.01

AS_WELL_AS_POSSIBLE, LESS_PRECISELY, MISSED, NOT_ASKED = "as well as possible", "less precisely", "missed", "not asked"


@dataclass(frozen=True)
class Judged:
    """One job: how its fault was answered (None for a healthy one), and what was said beside it.

    `innocents`: findings at P0 or P1 that name a host, process or communicator without anybody at fault. `told_s`
    and `true_s`: the seconds that the job is said to have lost and those that it lost; None where there is none.
    """

    name: str
    kind: str
    workload: str
    answer: str | None
    innocents: int
    blames: int
    told_s: float | None
    true_s: float | None
    verdict: str
    truth: Json
    findings: list[Json]

    @property
    def failed(self) -> bool:
        """Whether there is anything to look into."""
        return (
            self.answer in (MISSED, LESS_PRECISELY) or self.innocents > 0 or (self.answer is None and self.blames > 0)
        )

    def to_json(self) -> Json:
        """All of it."""
        return asdict(self)


def judge_job(kind: str, seed: int, scale: Scale = AS_DRAWN) -> Judged:
    """Write a job, ingest and diagnose it by the public functions, and judge the findings."""
    with tempfile.TemporaryDirectory(prefix="nixt-independent-") as folder:
        root = Path(folder)
        truth = write_job(draw_job(kind, seed, scale), root / "job")
        (logs,) = (root / "job").glob("nccl-inspector-*")
        settings = load_settings(data_dir=root / "data", landing_dir=root, reports_dir=root / "reports", workers=1)
        diagnosis = diagnose_run(ingest_run(logs, settings).run, settings).to_json()
    return judge(truth, diagnosis)


def judge(truth: Json, diagnosis: Json) -> Judged:
    """Hold a diagnosis against the truth of a job."""
    findings = [finding for finding in diagnosis["findings"] if finding["kind"] not in _ABOUT_RECORDS]
    alarms = [finding for finding in findings if finding["severity"] in _ALARMS]
    fault = truth["faults"][0] if truth["faults"] else None
    told_s = true_s = None
    answer = None
    if fault:
        # "Killed or hung, the log cannot tell" is said for information, and is half an answer.
        said = [finding for finding in findings if finding in alarms or finding["kind"] == _KILLED_OR_HUNG]
        answers = [(_answer(fault, finding, truth), finding) for finding in said]
        order = (AS_WELL_AS_POSSIBLE, LESS_PRECISELY, MISSED)
        answer, best = min(answers, key=lambda entry: order.index(entry[0]), default=(MISSED, None))
        share = fault["cost_share"]
        small = share is not None and share < _WORTH_SAYING and fault["what"] != "mismatch"
        if answer == MISSED and (small or fault["ideal"]["level"] == "none"):
            answer = NOT_ASKED
        true_s = None if share is None or small else share * truth["wall_s"][0]
        told_s = _told_s(best, truth) if best and answer in order[:2] else None
    blames = [finding for finding in alarms if finding["severity"] in _BLAMES]
    return Judged(
        name=truth["name"],
        kind=truth["kind"],
        workload=truth["workload"],
        answer=answer,
        innocents=sum(_names_innocents(fault, finding, truth) for finding in blames),
        blames=len(blames),
        told_s=told_s,
        true_s=true_s,
        verdict=diagnosis["verdict"],
        truth=truth,
        findings=findings,
    )


def _told_s(finding: Json, truth: Json) -> float | None:
    """The seconds that a finding says were lost: its share of the time from its onset to its end, within the job."""
    share, wall_s = finding["effect"]["cost_share"], truth["wall_s"][0]
    onset_s = ((finding["onset_us"] or EPOCH_US) - EPOCH_US) / 1e6
    until_s = wall_s if finding["until_us"] is None else (finding["until_us"] - EPOCH_US) / 1e6
    return None if share is None else float(share * min(max(until_s - onset_s, 0.0), wall_s))


def _answer(fault: Json, finding: Json, truth: Json) -> str:
    """How well one finding answers the fault."""
    if finding["kind"] == _KILLED_OR_HUNG:
        return LESS_PRECISELY if "hang" in fault["answers"] else MISSED
    if finding["kind"] not in fault["answers"] or _is_another_groups(fault, finding):
        return MISSED
    named, guilty, possible = _named(finding, truth), set(fault["ranks"]), set(fault["ideal"]["ranks"])
    if not named & guilty:
        return MISSED
    if fault["ideal"]["level"] == "none" and finding["ambiguous"]:
        return AS_WELL_AS_POSSIBLE
    whole = guilty <= named or finding["ambiguous"] or fault["ideal"]["level"] in ("set", "run")
    return AS_WELL_AS_POSSIBLE if named <= possible and whole else LESS_PRECISELY


def is_right(fault: Json, finding: Json, truth: Json) -> bool:
    """Whether exactly those are at fault whom a finding names, or one of them where it says so."""
    answer = _answer(fault, finding, truth)
    all_of_them = finding["ambiguous"] and set(fault["ranks"]) <= _named(finding, truth)
    return answer == AS_WELL_AS_POSSIBLE or (answer == LESS_PRECISELY and all_of_them)


def _named(finding: Json, truth: Json) -> set[int]:
    """The ranks of the job that a finding names, or the members of the communicators; all where it names nobody."""
    gpus = truth["gpus"]
    if finding["processes"]:
        return {gpu["rank"] for gpu in gpus if any(_is(process, gpu) for process in finding["processes"])}
    if finding["hosts"]:
        return {gpu["rank"] for gpu in gpus if gpu["host"] in finding["hosts"]}
    members = [truth["communicators"].get(name, []) for name in finding["communicators"]]
    return {rank for ranks in members for rank in ranks} or {gpu["rank"] for gpu in gpus}


def _is(name: str, gpu: Json) -> bool:
    """Whether a process of the diagnosis is a GPU: `host-pid7`, or `host-pid7 rank 3` where a process has several."""
    process, _, rank = name.partition(" rank ")
    return bool(process == gpu["process"] and (not rank or int(rank) == gpu["rank"]))


def _names_innocents(fault: Json | None, finding: Json, truth: Json) -> bool:
    """Whether a finding accuses only innocents, or innocent hosts beside the guilty without saying "one of these"."""
    if not (finding["hosts"] or finding["processes"] or finding["communicators"]):
        return False
    if fault is None:
        return bool(finding["hosts"] or finding["processes"])
    if finding["level"] in ("fabric", "run"):
        return False
    named, possible = _named(finding, truth), _suspects(fault, finding)
    if _is_another_groups(fault, finding):
        return True
    if finding["ambiguous"] or finding["level"] in ("communicator", "link"):
        return not named & possible
    hosts = {gpu["host"] for gpu in truth["gpus"] if gpu["rank"] in possible}
    return not named & possible or not set(finding["hosts"]) <= hosts


def _is_another_groups(fault: Json, finding: Json) -> bool:
    """Whether a finding says that a group disagrees in which all agree."""
    return finding["kind"] == "mismatch" and not set(finding["communicators"]) & set(fault["ideal"]["communicators"])


def _suspects(fault: Json, finding: Json) -> set[int]:
    """Who may be named: for the fault itself all that cannot be told apart, for anything else those at fault alone.

    A fabric is nobody's fault, so that nobody may be called late for it.
    """
    if finding["kind"] in fault["answers"]:
        return set(fault["ideal"]["ranks"]) | set(fault["ranks"])
    return set() if fault["link"] == "fabric" else set(fault["ranks"])


def table(judged: Iterable[Judged]) -> str:
    """Markdown: faulty jobs by kind, then healthy ones."""
    judged = list(judged)
    kinds = [kind for kind in KINDS if any(entry.kind == kind for entry in judged)]
    faulty = [kind for kind in kinds if not kind.startswith("healthy")]
    healthy = [kind for kind in kinds if kind.startswith("healthy")]
    text = ""
    if faulty:
        head = ("fault", "jobs", AS_WELL_AS_POSSIBLE, LESS_PRECISELY, MISSED, "small or not in the log",
                "innocents at P0 or P1", "seconds reported / true, median", "95 %")  # fmt: skip
        rows = [_row(kind, [entry for entry in judged if entry.kind == kind]) for kind in faulty]
        rows.append(_row("all", [entry for entry in judged if entry.kind in faulty]))
        text += _markdown(head, rows)
    if healthy:
        rows = []
        for kind in healthy:
            entries = [entry for entry in judged if entry.kind == kind]
            alarmed = sum(entry.blames > 0 for entry in entries)
            rows.append((kind, len(entries), alarmed, sum(entry.innocents > 0 for entry in entries)))
        text += "\n" + _markdown(("healthy job", "jobs", "with P0 or P1", "naming a host"), rows)
    return text


def _row(kind: str, entries: list[Judged]) -> tuple[object, ...]:
    answers = [entry.answer for entry in entries]
    ratios = [entry.told_s / entry.true_s for entry in entries if entry.told_s and entry.true_s]
    counts = [answers.count(answer) or "" for answer in (AS_WELL_AS_POSSIBLE, LESS_PRECISELY, MISSED, NOT_ASKED)]
    middle = f"{median(ratios):.2f}" if ratios else ""
    upper = f"{float(np.percentile(ratios, 95)):.2f}" if ratios else ""
    return (kind, len(entries), *counts, sum(entry.innocents > 0 for entry in entries) or "", middle, upper)


def _markdown(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    lines: list[tuple[object, ...]] = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
