"""The page of one comparison: the verdict, what it rests on, the changes as intervals, and every kernel."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from nixt_pipeline.fleet.compare.comparison import Comparison, Part
from nixt_pipeline.fleet.compare.explanation import Explanation
from nixt_pipeline.fleet.compare.location import MEASURES
from nixt_pipeline.fleet.compare.wording import ALL_KERNELS, change_words, facts, headline, verdict_words
from nixt_pipeline.grouping import grouped
from nixt_pipeline.inert import shorten
from nixt_pipeline.inspector.runs import run_id
from nixt_pipeline.quantities import change, number, percent, plural
from nixt_pipeline.reporting import pages
from nixt_pipeline.reporting.canvas import Axes, chart, title_rows
from nixt_pipeline.reporting.columns import columns_of
from nixt_pipeline.reporting.palette import INK
from nixt_pipeline.reporting.views import Fact, FigureView, LegendEntry, SectionView, table_view
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.files import write_text
from nixt_pipeline.store.layout import COMPARISONS, report_dir

# What a verdict is coloured by, in the page's classes for the urgency of findings.
VERDICT_CLASSES = {
    "regressed": "P1", "slower-other-hosts": "P2", "not-comparable": "info", "inconclusive": "info",
    "faster-other-hosts": "info", "improved": "none-found", "equivalent": "none-found",
}  # fmt: skip
VERDICT_COLOURS = {
    "regressed": "#D55E00", "slower-other-hosts": "#E69F00", "improved": "#009E73", "faster-other-hosts": "#56B4E9",
    "equivalent": "#0072B2", "inconclusive": "#888888", "not-comparable": "#CC79A7",
}  # fmt: skip
PAGE = "comparison.html"
_DRAWN_KERNELS = 12
_LABEL_CHARACTERS = 58
# The axis ends here, and what goes on beyond it is written: one kernel that is 30 times slower would hide all others.
_WIDEST = 1.0


_COLUMNS = columns_of("kernel measure share a_us b_us change interval lost_rank_seconds verdict")


def render_comparison(comparison: Comparison, settings: Settings) -> Path:
    """Write the page of a requested comparison below `reports/comparisons`, and return its path."""
    name = run_id(f"{comparison.b.name} against {comparison.a.name}")
    path = settings.reports_dir / COMPARISONS / f"{name}.html"
    write_text(comparison_html(comparison), path)
    return path


def render_run_comparison(comparison: Comparison, settings: Settings) -> Path:
    """Write the page of one run against its reference beside the run's report, and return its path."""
    path = report_dir(comparison.b.runs[0].run, settings) / PAGE
    write_text(comparison_html(comparison), path)
    return path


def comparison_html(comparison: Comparison) -> str:
    """The page. Equal comparisons give equal pages."""
    return pages.render(
        "fleet.html.j2",
        title=f"{shorten(comparison.b.name, 60)} against {shorten(comparison.a.name, 60)}",
        up="../index.html",
        verdict=headline(comparison),
        verdict_class=VERDICT_CLASSES[comparison.verdict],
        key_facts=tuple(Fact(label, value) for label, value in facts(comparison)),
        sections=tuple(_sections(comparison)),
        footer="How runs are compared: docs/comparison.md.",
    )


def _sections(comparison: Comparison) -> list[SectionView]:
    sections = [_kernels(comparison)]
    if comparison.workload_changes:
        sections.append(
            SectionView(
                "work",
                "Changes of the work",
                question="What do the two sides do differently?",
                notes=tuple(f"- {item}" for item in comparison.workload_changes),
                reading="A kernel on one side only, or with another size or number of ranks, is not a slowdown.",
            )
        )
    if comparison.not_compared:
        rows = [{"kernel": item.key.label, "reason": item.reason} for item in comparison.not_compared]
        why = columns_of("kernel reason", reason="Why not")
        table = table_view("Kernels that were not compared", rows, why)
        sections.append(SectionView("not-compared", "Not compared", tables=(table,)))
    if comparison.explanation:
        sections.append(_explanation(comparison.explanation))
    sides = (("A", comparison.a.runs), ("B", comparison.b.runs))
    runs = [{"side": side, "run": run.run, **run.facts} for side, runs in sides for run in runs]
    columns = columns_of("side run gpus parallelism nccl_version git_revs capture_rate")
    sections.append(SectionView("runs", "Runs", tables=(table_view("The runs of both sides", runs, columns),)))
    return sections


def _explanation(explanation: Explanation) -> SectionView:
    """The findings of the slower side, and what they cost beside the difference."""
    rows = [{**asdict(cause), "where": cause.where, "lost": cause.rank_seconds} for cause in explanation.causes]
    columns = columns_of("run severity kind where lost", severity="Urgency", kind="Finding")
    return SectionView(
        "explained",
        "What findings explain",
        question="How much of the difference is due to hosts or paths that the diagnosis flags?",
        reading=(
            f"The operations of side {explanation.side.upper()} took {number(explanation.excess_s)} rank-seconds longer"
            f" in all. Its findings account for {percent(explanation.waiting_share)} of the waiting and"
            f" {percent(explanation.transfer_share)} of the transfers; each host is counted once."
        ),
        tables=(table_view("Findings of the slower side", rows, columns),),
    )


def _kernels(comparison: Comparison) -> SectionView:
    rows = [
        {
            "kernel": part.kernel or ALL_KERNELS,
            "measure": part.name,
            **part.measure.to_json(),
            "interval": change_words(part.measure)[1],
            "verdict": verdict_words(part.measure),
        }
        for part in comparison.parts
    ]
    caveats = []
    if comparison.basis == "blocks":
        caveats.append("One run per side: the normal spread between runs is unknown, so a change is only suspected.")
    if comparison.placement.kind == "changed":
        caveats.append(
            f"The sides ran on different hosts ({comparison.placement.common} in common). A change counts only if the"
            " hosts in common show it, or if it exceeds the normal spread between sets of hosts."
        )
    return SectionView(
        "kernels",
        "Kernels",
        state="ok" if rows else "empty",
        question="How much longer does each operation take, and how certain is that?",
        reading=(
            "Transfer is the time of the last rank to arrive: it depends on the network, NCCL and the driver. Waiting "
            "is what the others spend beyond it: it depends on computation and stragglers, and its change is relative "
            "to the whole time. A line is a 95 % interval over runs, or over time blocks of one; changes between "
            "the dashed lines don't count."
        ),
        caveats=tuple(caveats),
        figures=_figures(comparison),
        tables=(table_view("Changes of every kernel", rows, _COLUMNS),) if rows else (),
    )


def _figures(comparison: Comparison) -> tuple[FigureView, ...]:
    if not comparison.kernels:
        return ()
    parts = grouped(comparison.parts, lambda part: part.name)
    panels = [draw_intervals(name, parts[name][: _DRAWN_KERNELS + 1], comparison.margin) for name in MEASURES]
    drawn = plural(min(len(comparison.kernels), _DRAWN_KERNELS), "kernel")
    return (
        FigureView(
            "".join(panels),
            f"All kernels together, then the {drawn} with the largest shares.",
            anchor="intervals",
            title="Changes with their intervals",
            legend=tuple(LegendEntry(name, colour, "dot") for name, colour in VERDICT_COLOURS.items()),
        ),
    )


def draw_intervals(name: str, parts: Sequence[Part], margin: float) -> str:
    """A dot and an interval for each kernel's change of one measure; dashed lines at the margin."""
    known = [(part.kernel or ALL_KERNELS, part.measure.verdict, e) for part in parts if (e := part.measure.estimate)]

    def draw(axes: Axes) -> None:
        for position, (_, verdict, e) in enumerate(known):
            low, high, middle = (max(-_WIDEST, min(_WIDEST, value)) for value in (e.low, e.high, e.change))
            colour = VERDICT_COLOURS[verdict]
            axes.plot([low, high], [position, position], color=colour, linewidth=2, solid_capstyle="butt")
            axes.plot([middle], [position], "o", color=colour, markersize=5)
            # Only as high as the dot: names and numbers stand above it.
            borders = [-margin, margin]
            axes.vlines(borders, position - 0.22, position + 0.22, color=INK, linewidth=0.7, linestyle=(0, (2, 2)))
        names = [shorten(label, _LABEL_CHARACTERS) for label, _, _ in known]
        title_rows(axes, names, [change(e.change) for _, _, e in known])
        ends = [abs(value) for _, _, e in known for value in (e.low, e.high)]
        reach = max(0.1, min(_WIDEST, max(ends, default=0.1)) * 1.05)
        axes.set_xlim(-reach, reach)
        ticks = [tick for tick in axes.get_xticks() if -reach <= tick <= reach]
        axes.set_xticks(ticks, [f"{100 * tick:+.3g} %" for tick in ticks])

    words = ", ".join(f"{label} {change(e.change)}" for label, _, e in known[:_DRAWN_KERNELS])
    title = f"change of the {name}" if name == "transfer" else "change of waiting, of the whole time"
    height_inches = 0.8 + 0.36 * max(len(known), 1)
    return chart(f"intervals-{name}", height_inches, draw, f"Change of the {name}: {words}", title)
