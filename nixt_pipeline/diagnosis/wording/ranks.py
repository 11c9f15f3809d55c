"""Ranks in findings, and what is named where the log leaves open which rank of a process it was."""

from collections.abc import Iterable
from dataclasses import replace

from nixt_pipeline.diagnosis.evidence.observations import Observations
from nixt_pipeline.diagnosis.evidence.processes import hosts_of, name_of, names_of, ranks_of
from nixt_pipeline.diagnosis.findings import Finding


def with_ranks(seen: Observations, findings: Iterable[Finding]) -> list[Finding]:
    """The findings of one launch with the global ranks of their processes, where these are known.

    What rests on communicators of which it is not known which ranks of a process are in them names all ranks of that
    process. (Lateness sees to that itself, because other communicators may confirm it.)
    """
    ranks = {name_of(process): rank for process, rank in seen.ranks.items()}
    return [_ranked(_widened(finding, seen), ranks) for finding in findings]


def _ranked(finding: Finding, ranks: dict[str, int]) -> Finding:
    if not all(process in ranks for process in finding.processes):
        return finding
    return replace(finding, ranks=tuple(sorted(ranks[process] for process in finding.processes)))


def _widened(finding: Finding, seen: Observations) -> Finding:
    unsure = {comm.id for comm in seen.communicators if not comm.certain}
    if finding.kind == "late-arrival" or not unsure.intersection(finding.communicators):
        return finding
    named = set(finding.processes)
    several = ranks_of([process for process in seen.processes if name_of(process) in named], seen.processes)
    if named.issuperset(names_of(several)):
        return finding
    return replace(
        finding,
        processes=names_of(several),
        hosts=tuple(sorted({*finding.hosts, *hosts_of(several)})),
        ambiguous=True,
        counter_evidence=(
            f"{finding.counter_evidence} The log does not say which of the ranks of a process that drives several GPUs"
            " is in which of these communicators: all of them are named."
        ),
    )
