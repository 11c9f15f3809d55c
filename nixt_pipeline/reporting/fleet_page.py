"""The fleet's page: hosts to drain, runs that became slower, baselines, scaling, nccl-tests.

It shows what the fleet's assets have written and computes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nixt_pipeline.fleet.against import COMPARISONS
from nixt_pipeline.fleet.baselines import BASELINES
from nixt_pipeline.fleet.hosts import HOST_HEALTH
from nixt_pipeline.fleet.nccl_tests.variation import BENCHMARK_VARIATION
from nixt_pipeline.fleet.scaling import SCALING, SCALING_TOTALS
from nixt_pipeline.fleet.tables import Row
from nixt_pipeline.grouping import grouped
from nixt_pipeline.inert import shorten
from nixt_pipeline.quantities import count, plural
from nixt_pipeline.reporting import pages
from nixt_pipeline.reporting.canvas import Axes, chart, gaps, number_axis
from nixt_pipeline.reporting.columns import Link, columns_of
from nixt_pipeline.reporting.comparison_page import PAGE as COMPARISON_PAGE
from nixt_pipeline.reporting.index import FLEET_PAGE
from nixt_pipeline.reporting.views import Fact, FigureView, LegendEntry, SectionView, State, TableView, table_view
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.files import write_text

# More rows than these are for `nixt hosts` and SQL: the page is for reading.
_HOSTS, _RUNS, _SERIES = 40, 60, 6
# Okabe and Ito's colours that stand out on light and dark.
_LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def render_fleet_page(settings: Settings) -> Path:
    """Write the page from the results that exist, and return its path."""
    path = settings.reports_dir / FLEET_PAGE
    write_text(fleet_html(settings), path)
    return path


def fleet_html(settings: Settings) -> str:
    """The page. A result that does not exist is shown as not computed."""
    hosts, compared = HOST_HEALTH.rows(settings), COMPARISONS.rows(settings)
    suspects = [row for row in hosts or () if row["suspect"]]
    verdicts = [row["verdict"] for row in _latest(compared or ())]
    slower, elsewhere = verdicts.count("regressed"), verdicts.count("slower-other-hosts")
    known = hosts is not None and compared is not None
    return pages.render(
        "fleet.html.j2",
        title="The fleet",
        up="index.html",
        verdict=f"{_hosts_in_words(hosts, len(suspects))}; {_runs_in_words(compared, slower, elsewhere)}.".capitalize(),
        verdict_class=_class(bool(suspects or slower), bool(elsewhere), known),
        key_facts=tuple(_facts(hosts, compared)),
        sections=tuple(_sections(settings, hosts, compared)),
        footer="How hosts are judged and runs compared: docs/comparison.md.",
    )


def _class(urgent: bool, elsewhere: bool, known: bool) -> str:
    if urgent:
        return "P1"
    if elsewhere:
        return "P2"
    return "none-found" if known else "not-assessable"


def _hosts_in_words(hosts: Sequence[Row] | None, suspects: int) -> str:
    if hosts is None:
        return "hosts have not been judged yet"
    return f"{plural(suspects, 'host')} to drain" if suspects else "no host to drain"


def _runs_in_words(compared: Sequence[Row] | None, slower: int, elsewhere: int) -> str:
    if compared is None:
        return "runs have not been compared yet"
    words = f"{plural(slower, 'workload')} became slower" if slower else "no workload became slower with its latest run"
    on_others = f"{plural(elsewhere, 'workload')} {'is' if elsewhere == 1 else 'are'} slower on other hosts"
    return f"{words}; {on_others}" if elsewhere else words


def _facts(hosts: Sequence[Row] | None, compared: Sequence[Row] | None) -> Iterator[Fact]:
    yield Fact("Runs with a workload", count(len(compared or ())))
    yield Fact("Workloads", count(len({row["workload"] for row in compared or ()})))
    yield Fact("Hosts in diagnosed runs", count(len(hosts or ())))
    yield Fact("Hosts ever flagged", count(sum(row["named"] > 0 for row in hosts or ())))


def _sections(settings: Settings, hosts: Sequence[Row] | None, compared: Sequence[Row] | None) -> Iterator[SectionView]:
    yield _hosts(hosts)
    yield _comparisons(compared, settings)
    yield _baselines(BASELINES.rows(settings), settings)
    yield _scaling(SCALING.rows(settings), SCALING_TOTALS.rows(settings) or ())
    yield _variation(BENCHMARK_VARIATION.rows(settings), settings)


def _section(
    anchor: str, title: str, rows: Sequence[Row] | None, tables: Sequence[TableView], **parts: Any
) -> SectionView:
    """A section that shows `rows` in `tables`. None for rows means that they were not computed."""
    state: State = "missing" if rows is None else "ok" if rows else "empty"
    return SectionView(anchor, title, state, tables=tuple(tables) if rows else (), **parts)


def _report_link(settings: Settings, page: str = "index.html") -> Link:
    """Where a row's run has its page, if it has one."""

    def link(row: Row) -> str | None:
        below = f"{row['run']}/{page}"
        return quote(below) if (settings.reports_dir / below).exists() else None

    return link


def _newest_first(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: -(row["first_dump_us"] or 0))


def _hosts(hosts: Sequence[Row] | None) -> SectionView:
    columns = columns_of(
        "hostname drain named runs expected chance late slow stopped lost_rank_seconds lost_share trend"
        " last_named_us last_seen_us",
        runs="of its runs",
    )
    named = [{**row, "drain": _drain(row)} for row in hosts or () if row["named"]]
    cautions = sorted({row["caution"] for row in named if row["caution"]})
    return _section(
        "hosts",
        "Hosts",
        hosts,
        [table_view("Flagged hosts", named, columns, top=_HOSTS)],
        question="Which hosts do findings flag repeatedly, and which of them should be drained?",
        reading=(
            "A host that runs in many jobs is flagged more often for that reason alone. Expected is the number of its "
            "runs that would flag it at the rate of all other hosts; chance is the probability of as many, corrected "
            "for the number of hosts. Drain the hosts that were flagged in two or more runs, hardly by chance, and in "
            "one of their latest runs. Lost share is the lost part of the rank-time of all ranks of its runs."
        ),
        caveats=tuple(
            f"Names marked as not a machine cannot be followed from run to run: {why}. Map them to their nodes in"
            " run.json (host_nodes)."
            for why in cautions
        ),
    )


def _drain(row: Row) -> str:
    if row["caution"]:
        return "not a machine"
    return "yes" if row["suspect"] else ""


def _latest(compared: Sequence[Row]) -> list[Row]:
    """The latest compared run of each workload."""
    oldest_first = reversed(_newest_first(row for row in compared if row["verdict"]))
    return list({row["workload"]: row for row in oldest_first}.values())


def _comparisons(compared: Sequence[Row] | None, settings: Settings) -> SectionView:
    columns = columns_of(
        "run verdict first_dump_us reference against transfer_change waiting_change explained_by reason",
        link={"run": _report_link(settings), "verdict": _report_link(settings, COMPARISON_PAGE)},
        reason="Why",
    )
    newest = _newest_first({**row, "against": len(row["against"])} for row in compared or () if row["verdict"])
    return _section(
        "comparisons",
        "Runs against earlier runs",
        compared,
        [table_view("Comparisons, newest first", newest, columns, top=_RUNS)],
        question="Which runs are slower than earlier runs of the same work?",
        reading=(
            "Each run is compared with the baseline of its workload as of the start of the run, or with an earlier run "
            "of the same work; never with one that has a P0 or P1 finding. A change of 5 % counts if chance does not "
            "explain it; transfer and waiting are judged separately. On other hosts, whatever the findings of the "
            "slower run do not explain may be due to the hosts or to the change."
        ),
    )


def _baselines(rows: Sequence[Row] | None, settings: Settings) -> SectionView:
    columns = columns_of(
        "run workload fit reason decision level first_dump_us", link={"run": _report_link(settings)}, reason="Why"
    )
    return _section(
        "baselines",
        "Baselines",
        rows,
        [table_view("Fitness of runs, newest first", _newest_first(rows or ()), columns, top=_RUNS)],
        question="Which runs are new ones compared with, and why not with others?",
        reading=(
            "Level is a run's transfer times relative to the median of its workload. `nixt baselines --pin RUN` and "
            "`--reject RUN` override the rules."
        ),
    )


# Without a model, it is not known whether runs of different sizes do the same work.
_NO_MODEL = "Only models that ran at two or more sizes are shown. Set model in run.json for other runs."


def _scaling(rows: Sequence[Row] | None, totals: Sequence[Row]) -> SectionView:
    columns = columns_of(
        "series same_kernel model gpus n_ranks coll_msg_size_bytes runs busbw_gbs busbw_low_gbs"
        " busbw_high_gbs busbw_cv transfer_cv capture_rate busbw_trend busbw_trend_p"
    )
    total_columns = columns_of(
        "model gpus runs busbw_gbs change_gbs change_by_mix_gbs change_by_rate_gbs same_kernel_share"
        " bytes_per_gpu volume_note",
        busbw_gbs="Mean GB/s",
    )
    notes = sorted({row["volume_note"] for row in totals if row["volume_note"]})
    return _section(
        "scaling",
        "Scaling",
        rows,
        [
            table_view("Models by size", totals, total_columns),
            table_view("Kernels by size", rows or (), columns, top=_RUNS),
        ],
        question="How do bandwidth and its variation change with the number of GPUs?",
        reading=(
            "Only a kernel that is the same at every size can be said to scale; its trend is Spearman's rank "
            "correlation of bandwidth with GPUs. A group that grows with the job is a different kernel at every size, "
            "shown by its role. Mix is the part of the change due to different shares of the bytes, rate the part due "
            "to different bandwidths."
        ),
        caveats=(_NO_MODEL, *(f"Volumes are {note}." for note in notes)),
        figures=_scaling_figures(rows or ()),
    )


def _scaling_figures(rows: Sequence[Row]) -> tuple[FigureView, ...]:
    """Bandwidth and variation of the kernels that are the same at every size, for the model that has most of them."""
    same = [row for row in rows if row["same_kernel"]]
    models = sorted({row["model"] for row in same}, key=lambda model: -sum(row["model"] == model for row in same))
    if not models:
        return ()
    series = grouped((row for row in same if row["model"] == models[0]), lambda row: row["series"])
    shown = dict(list(series.items())[:_SERIES])
    panels = draw_scaling(shown, "busbw_gbs", "GB/s") + draw_scaling(shown, "busbw_cv", "coefficient of variation")
    return (
        FigureView(
            panels,
            f"{models[0]}: kernels that are the same at several sizes; bars are intervals.",
            anchor="scaling-figure",
            title="Bandwidth and its variation by GPUs",
            legend=tuple(
                LegendEntry(shorten(name, 60), colour, "line") for name, colour in zip(shown, _LINES, strict=False)
            ),
        ),
    )


def draw_scaling(series: Mapping[str, Sequence[Row]], measure: str, label: str) -> str:
    """A line for each kernel over the number of GPUs."""

    def draw(axes: Axes) -> None:
        for colour, rows in zip(_LINES, series.values(), strict=False):
            gpus = [row["gpus"] for row in rows]
            axes.plot(gpus, gaps([row[measure] for row in rows]), color=colour, marker="o", markersize=4, linewidth=1.4)
            if measure == "busbw_gbs":
                for row in rows:
                    if row["busbw_low_gbs"] is not None:
                        axes.plot([row["gpus"]] * 2, [row["busbw_low_gbs"], row["busbw_high_gbs"]], color=colour)
        axes.set_xscale("log", base=2)
        ticks = sorted({row["gpus"] for rows in series.values() for row in rows})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("GPUs")
        axes.set_ylim(bottom=0)
        number_axis(axes, "y")
        axes.grid(True, axis="y")

    names = ", ".join(series)
    return chart(f"scaling-{measure}", 2.4, draw, f"{label} by the number of GPUs: {names}", label)


def _variation(rows: Sequence[Row] | None, settings: Settings) -> SectionView:
    columns = columns_of(
        "run coll coll_type n_ranks coll_msg_size_bytes exec_time_cv transfer_cv waiting_share benchmark"
        " benchmark_cv cv_ratio transfer_cv_ratio note",
        link={"run": _report_link(settings)},
    )
    return _section(
        "nccl-tests",
        "Against nccl-tests",
        rows,
        [table_view("Training against the closest benchmark", rows or (), columns, top=_RUNS)],
        question="How much more do times vary in training than in a benchmark?",
        reading=(
            "A ratio is given only if function, size per rank, ranks, nodes and NCCL are the same. Waiting is the "
            "share of the variance that is not in the transfers. Put the output of nccl-tests into "
            "`NIXT_NCCL_TESTS_DIR`."
        ),
    )
