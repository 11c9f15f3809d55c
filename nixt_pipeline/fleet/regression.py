"""The finding `regression`: a run that is slower than the baseline of its workload."""

from dataclasses import replace

from nixt_pipeline.analysis.run_kernels import RUN_KERNELS
from nixt_pipeline.diagnosis.findings import Diagnosis, Effect, Finding, Severity, ranked
from nixt_pipeline.diagnosis.results import findings_table
from nixt_pipeline.fleet.against import Reference, compare_with, reference_of
from nixt_pipeline.fleet.baselines import read_baselines
from nixt_pipeline.fleet.catalog import describe_run, stored_rows
from nixt_pipeline.fleet.compare.comparison import Comparison, Measure
from nixt_pipeline.fleet.compare.summaries import stored_summary
from nixt_pipeline.settings import Settings, Thresholds
from nixt_pipeline.store import layout
from nixt_pipeline.store.manifest import read_manifest


def with_regression(diagnosis: Diagnosis, settings: Settings) -> Diagnosis:
    """The diagnosis with a finding when the run is slower than the baseline of its workload; unchanged without one."""
    found = _compare_with_baseline(diagnosis, settings)
    if found is None or found.verdict != "regressed":
        return diagnosis
    finding = regression_finding(found, bool(diagnosis.at_least("P2")), settings.thresholds)
    verdict = diagnosis.verdict if finding.severity == "info" else "findings"
    findings = ranked([*diagnosis.findings, finding])
    return replace(diagnosis, verdict=verdict, findings=findings, verdict_alone=diagnosis.verdict)


def _compare_with_baseline(diagnosis: Diagnosis, settings: Settings) -> Comparison | None:
    """The comparison with an established baseline; None when there is none."""
    run, baselines = diagnosis.run, read_baselines(settings)
    if not baselines.num_rows or not layout.results_path(RUN_KERNELS.name, run, settings).exists():
        return None
    facts = describe_run(read_manifest(run, settings), settings)
    # What it is diagnosed with now, not what was stored of it before.
    findings = tuple(findings_table(diagnosis).to_pylist())
    summary = replace(stored_summary(run, facts, settings), findings=findings)
    limits = settings.thresholds
    reference = reference_of(run, summary.workload(limits), facts["first_dump_us"], baselines, None, limits)
    if reference is None:
        return None
    rows = stored_rows(reference.runs, settings)
    known = {name: row for name, row in rows.items() if layout.results_path(RUN_KERNELS.name, name, settings).exists()}
    groups = tuple(tuple(name for name in group if name in known) for group in reference.groups)
    left = Reference(reference.kind, tuple(group for group in groups if group))
    return compare_with(summary, left, known, settings) if left.groups else None


def regression_finding(comparison: Comparison, explained: bool, limits: Thresholds) -> Finding:
    """The finding for a comparison of one run with its baseline. `explained`: another finding says why already."""
    (run,) = comparison.b.runs
    lost_s = sum(m.lost_s for k in comparison.kernels for m in (k.transfer, k.waiting) if m.verdict == "regressed")
    duration_s = (run.facts["duration_us"] or 0) / 1e6
    cost = lost_s / (run.facts["gpus"] * duration_s) if duration_s else 0.0
    severity = _severity(cost, limits)
    members = len(comparison.a.runs)
    return Finding(
        kind="regression",
        severity="info" if explained else severity,
        level="run",
        evidence=f"{comparison.reason}; against {members} earlier runs of the same work",
        counter_evidence=_counter_evidence(comparison),
        next_step=(
            f"nixt compare {comparison.a.runs[0].run} {run.run} shows every kernel; look for what changed between them"
            + ("; the other findings explain at least a part" if explained else "")
        ),
        effect=Effect(cost_share=cost, slowdown=_slowdown(comparison), lost_rank_seconds=lost_s),
    )


def _severity(cost_share: float, limits: Thresholds) -> Severity:
    """By what it costs, as for other findings; what is sure and cheap is for information."""
    if cost_share >= limits.diagnosis.p1_cost_share:
        return "P1"
    return "P2" if cost_share >= limits.diagnosis.p2_cost_share else "info"


def _slowdown(comparison: Comparison) -> float | None:
    """The whole time of the reference's operations on this side against that on the other."""
    measures = [measure for measure in (comparison.transfer, comparison.waiting) if isinstance(measure, Measure)]
    before, after = sum(m.a_us for m in measures), sum(m.b_us for m in measures)
    return after / before if before else None


def _counter_evidence(comparison: Comparison) -> str:
    """What else differs, and what became no slower."""
    differences = [
        f"{name} {', '.join(a) or 'unknown'} -> {', '.join(b) or 'unknown'}"
        for name, a, b in comparison.covariates
        if a != b
    ]
    same = sum(kernel.verdict == "equivalent" for kernel in comparison.kernels)
    words = [f"{same} of {len(comparison.kernels)} kernels are as fast as before"]
    if comparison.placement.kind != "same":
        words.append(f"{comparison.placement.common} of {comparison.placement.hosts_b} hosts are those of before")
    return "; ".join([*words, *differences])
