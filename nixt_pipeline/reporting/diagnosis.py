"""The section of a report that shows the diagnosis. It repeats what the diagnosis says and adds nothing."""

from typing import Any

from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.text import count, number, percent, plain, shorten, utc
from nixt_pipeline.reporting.views import SectionView, Spec, table_view

TITLE = "Findings"
QUESTION = "Who was late, whose transfers were slow, who hung, and how sure is that?"
READING = (
    "Somebody is named only with evidence, and what speaks against it stands beside it. P0 calls for action now, "
    "P1 for a ticket, P2 is worth a note. `Nothing found` means that nobody stands out in what was recorded; "
    "`not assessable` means that too little was recorded to say so."
)
_NAMES_SHOWN = 4
_NAME_CHARACTERS = 40


def findings_section(content: RunContent) -> SectionView:
    """The verdict, and each finding with evidence, counter-evidence and the next step."""
    diagnosis = content.diagnosis
    if diagnosis is None:
        note = f"This run has not been diagnosed: nixt diagnose {content.manifest.run}"
        return SectionView("findings", TITLE, question=QUESTION, notes=(note,))
    rows = [_row(finding) for finding in diagnosis["findings"]]
    verdict = {
        "findings": f"{count(len(rows))} found.",
        "none-found": "Nothing found: no host or process stands out in what was recorded.",
        "not-assessable": f"Not assessable: {diagnosis['reason']}. This says nothing about the job's health.",
    }[diagnosis["verdict"]]
    columns = (
        Spec("Severity", "severity"),
        Spec("What", "kind"),
        Spec("Where", "where"),
        Spec("Since", "onset_us", lambda onset: "start of the log" if onset is None else utc(onset)),
        Spec("Until", "until_us", lambda until: "end of the log" if until is None else utc(until)),
        Spec("Cost, share of time", "cost_share", percent, numeric=True),
        Spec("Lost rank-seconds", "lost_rank_seconds", number, numeric=True),
        Spec("Evidence", "evidence"),
        Spec("What speaks against it", "counter_evidence"),
        Spec("Check next", "next_step"),
    )
    tables = (table_view("By urgency and cost", rows, columns, path=content.paths.get("findings")),) if rows else ()
    return SectionView("findings", TITLE, question=QUESTION, reading=READING, notes=(verdict,), tables=tables)


def verdict_words(diagnosis: dict[str, Any] | None) -> str | None:
    """The verdict for a table of runs: the most urgent severity with what and where, `none found`, `not assessable`."""
    if diagnosis is None:
        return None
    if not diagnosis["findings"]:
        return {"none-found": "none found", "not-assessable": "not assessable"}.get(diagnosis["verdict"])
    first = _row(diagnosis["findings"][0])
    more = len(diagnosis["findings"]) - 1
    return f"{first['severity']} {first['kind']}: {first['where']}" + (f" (and {more} more)" if more else "")


def _row(finding: dict[str, Any]) -> dict[str, Any]:
    by_process = finding["level"] in ("rank", "communicator") and finding["processes"]
    names = finding["processes"] if by_process else finding["hosts"] or finding["communicators"]
    shown = ", ".join(shorten(plain(name), _NAME_CHARACTERS) for name in names[:_NAMES_SHOWN])
    if len(names) > _NAMES_SHOWN:
        shown += f" and {len(names) - _NAMES_SHOWN} more"
    if finding["level"] == "fabric":
        shown = "the network as a whole"
    elif finding["ambiguous"] and len(names) > 1:
        shown = f"one of {shown}"
    return {**finding, **finding["effect"], "where": shown}
