"""What a severity means, and what a stopped job comes to by it: one table for the terminal, the report and the docs."""

from collections.abc import Mapping

from nixt_pipeline.quantities import moment

URGENCY: Mapping[str, str] = {"P0": "act now", "P1": "open a ticket", "P2": "note", "info": "for information"}

# Of findings that have no cost in time: by kind and severity.
CONSEQUENCES: Mapping[str, Mapping[str, str]] = {
    "hang": {
        "P0": "the job is stuck",
        "P1": "the job seems to have hung",
        "P2": "the job may have hung; too little was recorded to be sure",
    },
    "mismatch": dict.fromkeys(URGENCY, "results can be wrong, or the job hangs later"),
}
STOOD_STILL = "the job stalled until {}, then went on"


def consequence(kind: str, severity: str, until_us: int | None) -> str:
    """What a finding without a cost means for the job; a hang that ended at `until_us` (Unix microseconds) is over."""
    if kind == "hang" and until_us is not None:
        return STOOD_STILL.format(moment(until_us))
    return CONSEQUENCES.get(kind, {}).get(severity, "not measurable")
