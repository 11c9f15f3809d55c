"""Rules for a run's diagnosis: other tools parse it and people act on it, so that it must keep its word."""

from collections.abc import Iterator
from typing import Any

from nixt_pipeline.diagnosis.findings import SCHEMA, Diagnosis
from nixt_pipeline.quality.verdicts import Rule, Verdict

FOLLOWS_CONTRACT = Rule(
    "the_findings_keep_their_schema",
    "The JSON has the documented keys and values. Otherwise whatever parses it breaks, or overlooks a finding.",
    blocking=True,
)
HAS_EVIDENCE = Rule(
    "no_finding_without_evidence",
    "Each finding says what it rests on, what speaks against it, and what to check. A name without that is a guess.",
    blocking=True,
)
HAS_COVERAGE = Rule(
    "the_verdict_says_what_it_rests_on",
    "Coverage is attached, and a run of which too little was recorded is called not assessable, never healthy.",
    blocking=True,
)
FINDING_RULES = (FOLLOWS_CONTRACT, HAS_EVIDENCE, HAS_COVERAGE)

_COVERAGE_KEYS = {"ranks_seen", "ranks_expected", "records", "complete_cells", "capture_rate", "losses"}


def judge_findings(diagnosis: dict[str, Any]) -> Iterator[Verdict]:
    """Apply `FINDING_RULES` to the JSON of a diagnosis."""
    findings = diagnosis["findings"]
    problems = _schema_problems(diagnosis)
    kept = "; ".join(problems) or f"schema {SCHEMA}, {len(findings)} findings"
    yield FOLLOWS_CONTRACT.verdict(not problems, kept, findings=len(findings))
    shown = ("kind", "level", "evidence")
    bare = [f for f in findings if not all(f.get(key) for key in ("evidence", "counter_evidence", "next_step"))]
    yield HAS_EVIDENCE.unless(
        [{key: finding.get(key) for key in shown} for finding in bare],
        f"{len(bare)} of {len(findings)} findings lack evidence, counter-evidence or a next step",
    )
    coverage = diagnosis["coverage"]
    missing = sorted(_COVERAGE_KEYS - coverage.keys())
    complete = coverage.get("complete_cells")
    unfounded = complete is None and diagnosis["verdict"] != "not-assessable"
    recorded = "nothing" if complete is None else f"{complete:.1%}"
    yield HAS_COVERAGE.verdict(
        not missing and not unfounded,
        f"coverage lacks {', '.join(missing)}"
        if missing
        else f"verdict {diagnosis['verdict']}; recorded by every rank: {recorded}",
        ranks_seen=coverage.get("ranks_seen"),
        complete_cells=complete,
    )


def _schema_problems(content: dict[str, Any]) -> list[str]:
    """Where the JSON is not what the diagnosis writes: read and written again, it has to be the same."""
    try:
        again = Diagnosis.from_json(content).to_json()
    except ValueError as error:
        return [f"not schema {SCHEMA}: {error}"]
    problems = [f"not schema {SCHEMA}: {key} differs" for key in content | again if content.get(key) != again.get(key)]
    alarms = sum(finding["severity"] != "info" for finding in content["findings"])
    if (content["verdict"] == "findings") != bool(alarms):
        problems.append(f"verdict {content['verdict']} with {alarms} findings that are more than information")
    return problems
