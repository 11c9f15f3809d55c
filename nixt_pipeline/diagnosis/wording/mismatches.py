"""Ranks that disagree, in words."""

from nixt_pipeline.diagnosis.detectors.mismatch import Disagreement, Unreceived
from nixt_pipeline.diagnosis.evidence.observations import Observations
from nixt_pipeline.diagnosis.evidence.processes import hosts_of, name_of, names_of
from nixt_pipeline.diagnosis.findings import Finding


def mismatch_finding(_seen: Observations, suspect: Disagreement | Unreceived) -> Finding:
    """The finding of one communicator or edge."""
    return _different_sizes(suspect) if isinstance(suspect, Disagreement) else _without_counterpart(suspect)


def _without_counterpart(suspect: Unreceived) -> Finding:
    edge = suspect.edge
    source, target = name_of(edge.source), name_of(edge.target)
    return Finding(
        kind="mismatch",
        severity="P1",
        level="link",
        hosts=hosts_of((edge.source, edge.target)),
        processes=names_of((edge.source, edge.target)),
        communicators=(suspect.comm.id,),
        ambiguous=True,
        evidence=(
            f"{source} completed {edge.sent:,} Sends to {target}, which completed"
            f" {edge.received:,} Recvs from it; neither lost a record."
        ),
        counter_evidence="A Recv whose record has another peer (a plugin's numbering) would look the same.",
        next_step="Compare what both processes do on this communicator: microbatches, schedule, early exit.",
    )


def _different_sizes(suspect: Disagreement) -> Finding:
    comm = suspect.comm
    what = ", ".join(f"{size.cells} {size.coll} from number {size.first_sn} on" for size in suspect.sizes)
    return Finding(
        kind="mismatch",
        severity="P0",
        level="communicator",
        hosts=tuple(sorted(comm.hosts)),
        processes=names_of(comm.members),
        communicators=(comm.id,),
        ambiguous=True,
        onset_us=min((size.first_us for size in suspect.sizes if size.first_us is not None), default=None),
        evidence=f"Ranks of {comm.label} give different message sizes for the same collective: {what}.",
        counter_evidence="Two communicators taken for one (a reused id) would look the same.",
        next_step="Compare what the ranks of this communicator execute: control flow, batch and bucket sizes.",
    )
