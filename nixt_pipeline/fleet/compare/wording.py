"""A comparison in words: for a terminal, and as Markdown for a ticket or a merge request."""

from collections.abc import Sequence

from nixt_pipeline.fleet.compare.comparison import Comparison, Measure
from nixt_pipeline.fleet.compare.conclusion import caution
from nixt_pipeline.inert import markdown, visible
from nixt_pipeline.quantities import change

_HEADINGS = ("kernel", "", "share", "A us", "B us", "change", "interval", "verdict")
_NUMBERS = range(2, 7)
# What the sums of a comparison are called among its kernels.
ALL_KERNELS = "all of these"
# What the covariates of a comparison are called.
_FACTS = {
    "nccl_version": "NCCL", "git_revs": "plugin build", "format_versions": "log format", "timing_sources": "timing",
}  # fmt: skip


def headline(comparison: Comparison) -> str:
    """The verdict and the reason, in a sentence."""
    verdict = comparison.verdict.upper().replace("NOT-", "NOT ") + (" (suspected)" if comparison.suspected else "")
    return f"{verdict}: {comparison.reason}"


def facts(comparison: Comparison) -> list[tuple[str, str]]:
    """What the verdict rests on, and what else differs between the sides."""
    found = [
        ("A", _side(comparison.a.name, len(comparison.a.runs))),
        ("B", _side(comparison.b.name, len(comparison.b.runs))),
        ("based on", _basis(comparison)),
        ("work", "; ".join(comparison.workload_changes) or "the same"),
        ("hosts", _hosts(comparison)),
    ]
    if comparison.above_all:
        found.append(("mainly", comparison.above_all))
    worst = [(*side.values("worst_severity"), "none")[0] for side in (comparison.a, comparison.b)]
    found.append(("findings", " -> ".join(f"up to {severity}".replace("up to none", "none") for severity in worst)))
    if comparison.next_step:
        found.append(("next step", comparison.next_step))
    if caution(comparison.a):
        found.append(("caution", caution(comparison.a)))
    if comparison.left_out:
        found.append(("left out", f"{len(comparison.left_out)} of the runs, which do different work"))
    for name, a, b in comparison.covariates:
        if a or b:
            words = ", ".join(a) or "unknown", ", ".join(b) or "unknown"
            found.append((_FACTS[name], words[0] if words[0] == words[1] else " -> ".join(words)))
    return found


def as_text(comparison: Comparison) -> str:
    """Plain text: the verdict, what it rests on, and a line for transfer and waiting of each kernel."""
    lines = [headline(comparison), ""]
    lines += [f"  {label + ':':<14}{value}" for label, value in facts(comparison)]
    rows = [tuple(map(visible, row)) for row in table_rows(comparison)]
    if rows:
        widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
        lines.append("")
        lines += ["  " + _aligned(row, widths) for row in (_HEADINGS, *rows)]
    if comparison.not_compared:
        lines += ["", "  not compared:"]
        lines += [f"    {item.key.label}: {item.reason}" for item in comparison.not_compared]
    return "\n".join(map(visible, lines))


def as_markdown(comparison: Comparison) -> str:
    """The same as Markdown."""
    lines = [f"# {markdown(f'{comparison.b.name} against {comparison.a.name}')}", ""]
    lines += [f"**{markdown(headline(comparison))}**", ""]
    lines += [f"- **{label}**: {markdown(value)}" for label, value in facts(comparison)]
    rows = [tuple(map(markdown, row)) for row in table_rows(comparison)]
    if rows:
        rule = ["---:" if number in _NUMBERS else "---" for number in range(len(_HEADINGS))]
        lines += ["", *("| " + " | ".join(cells) + " |" for cells in (_HEADINGS, rule, *rows))]
    if comparison.not_compared:
        lines += ["", "Not compared:", ""]
        lines += [f"- {markdown(item.key.label)}: {markdown(item.reason)}" for item in comparison.not_compared]
    return "\n".join(lines)


def table_rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Two lines for each kernel, after two for all of them."""
    return [
        (
            "" if part.name == "waiting" else part.kernel or ALL_KERNELS,
            part.name,
            f"{100 * measure.share:.1f} %",
            f"{measure.a_us:,.1f}",
            f"{measure.b_us:,.1f}",
            *change_words(measure),
            verdict_words(measure),
        )
        for part in comparison.parts
        for measure in (part.measure,)
    ]


def change_words(measure: Measure) -> tuple[str, str]:
    """The change and its interval: `+7.1 %`, `+6.0 .. +8.3 %`."""
    e = measure.estimate
    if e is None:
        return "unknown", ""
    return change(e.change), f"{change(e.low).removesuffix(' %')} .. {change(e.high)}"


def verdict_words(measure: Measure) -> str:
    """The verdict, why it is that one, and in which communicators a change is."""
    where = measure.location.words if measure.location else ""
    notes = "; ".join(note for note in (measure.reason, where) if note)
    return f"{measure.verdict} ({notes})" if notes else measure.verdict


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(
        cell.rjust(width) if number in _NUMBERS else cell.ljust(width)
        for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ).rstrip()


def _side(name: str, runs: int) -> str:
    return name if runs == 1 else f"{name} ({runs} runs)"


def _basis(comparison: Comparison) -> str:
    if comparison.basis == "runs":
        return f"{len(comparison.a.runs)} against {len(comparison.b.runs)} runs"
    return (
        "time blocks of one run on each side: how much runs normally differ is unknown, so a change is only suspected"
    )


def _hosts(comparison: Comparison) -> str:
    where = comparison.placement
    words = {
        "same": f"the same {where.hosts_a}",
        "replicated": f"{where.hosts_a} and {where.hosts_b}, chosen anew for each run",
        "changed": f"{where.hosts_a} and {where.hosts_b}, of them {where.common} in common",
    }
    if not where.names_are_machines:
        return f"{where.hosts_a} and {where.hosts_b} names that do not identify machines"
    if where.kind != "changed":
        return words[where.kind]
    if comparison.host_sets:
        return f"{words['changed']}; the intervals include what {comparison.host_sets} sets of hosts normally differ by"
    return f"{words['changed']}; how much hosts normally differ is unknown"
