"""The fleet's page: hosts to drain, runs that became slower, baselines, scaling, nccl-tests.

It shows what the fleet's assets have written and computes nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from nixt_pipeline.fleet.against import COMPARISONS
from nixt_pipeline.fleet.baselines import BASELINES
from nixt_pipeline.fleet.hosts import HOST_HEALTH
from nixt_pipeline.fleet.nccl_tests.variation import BENCHMARK_VARIATION
from nixt_pipeline.fleet.scaling import SCALING, SCALING_TOTALS
from nixt_pipeline.fleet.tables import FleetTable
from nixt_pipeline.inert import shorten
from nixt_pipeline.quantities import count, gbs, number, percent, plural, size, utc
from nixt_pipeline.reporting import pages
from nixt_pipeline.reporting.canvas import gaps, head, number_axis, render
from nixt_pipeline.reporting.comparison_page import PAGE as COMPARISON_PAGE
from nixt_pipeline.reporting.comparison_page import percentage
from nixt_pipeline.reporting.index import FLEET_PAGE
from nixt_pipeline.reporting.views import Fact, FigureView, LegendEntry, SectionView, Spec, table_view
from nixt_pipeline.settings import Settings
from nixt_pipeline.store.files import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = Mapping[str, Any]

# More rows than these are for `nixt hosts` and SQL: the page is for reading.
_HOSTS, _RUNS, _SERIES = 40, 60, 6
# Okabe and Ito's colours that stand out on light and dark.
_LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def fleet_page_path(settings: Settings) -> Path:
    """The page's file."""
    return settings.reports_dir / FLEET_PAGE


def render_fleet_page(settings: Settings) -> Path:
    """Write the page from the results that exist, and return its path."""
    path = fleet_page_path(settings)
    write_text(fleet_html(settings), path)
    return path


def fleet_html(settings: Settings) -> str:
    """The page. A result that does not exist is shown as not computed."""
    hosts = _rows(HOST_HEALTH, settings)
    compared = _rows(COMPARISONS, settings)
    suspects = [row for row in hosts or () if row["suspect"]]
    verdicts = [row["verdict"] for row in _latest(compared or ())]
    slower, elsewhere = verdicts.count("regressed"), verdicts.count("slower-other-hosts")
    known = hosts is not None and compared is not None
    return pages.render(
        "fleet.html.j2",
        title="All runs together",
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
        return "hosts are not judged yet"
    return f"{plural(suspects, 'host')} to drain" if suspects else "no host to drain"


def _runs_in_words(compared: Sequence[Row] | None, slower: int, elsewhere: int) -> str:
    if compared is None:
        return "runs are not compared yet"
    words = f"{plural(slower, 'workload')} became slower" if slower else "no workload became slower with its latest run"
    on_others = f"{plural(elsewhere, 'workload')} {'is' if elsewhere == 1 else 'are'} slower on other hosts"
    return f"{words}; {on_others}" if elsewhere else words


def _facts(hosts: Sequence[Row] | None, compared: Sequence[Row] | None) -> Iterator[Fact]:
    yield Fact("Runs with a workload", count(len(compared or ())))
    yield Fact("Workloads", count(len({row["workload"] for row in compared or ()})))
    yield Fact("Hosts in diagnosed runs", count(len(hosts or ())))
    yield Fact("Hosts ever named", count(sum(row["named"] > 0 for row in hosts or ())))


def _sections(settings: Settings, hosts: Sequence[Row] | None, compared: Sequence[Row] | None) -> Iterator[SectionView]:
    yield _hosts(hosts)
    yield _comparisons(compared, settings)
    yield _baselines(_rows(BASELINES, settings), settings)
    yield _scaling(_rows(SCALING, settings), _rows(SCALING_TOTALS, settings))
    yield _variation(_rows(BENCHMARK_VARIATION, settings), settings)


def _rows(result: FleetTable, settings: Settings) -> list[dict[str, Any]] | None:
    """The rows of a result; None when it was not computed, or by a version that knew fewer columns."""
    table = result.read(settings)
    return None if table is None else list(table.to_pylist())


def _state(rows: Sequence[Row] | None) -> Any:
    return "missing" if rows is None else ("ok" if rows else "empty")


def _report_link(settings: Settings, page: str = "index.html") -> Any:
    """Where a row's run has its page, if it has one."""

    def link(row: Row) -> str | None:
        below = f"{row['run']}/{page}"
        return quote(below) if (settings.reports_dir / below).exists() else None

    return link


def _hosts(hosts: Sequence[Row] | None) -> SectionView:
    columns = (
        Spec("Host", "hostname"),
        Spec("Drain", "drain"),
        Spec("Named in runs", "named", count, numeric=True),
        Spec("of its runs", "runs", count, numeric=True),
        Spec("Expected", "expected", number, numeric=True),
        Spec("Chance", "chance", percent, numeric=True),
        Spec("Late", "late", count, numeric=True),
        Spec("Slow", "slow", count, numeric=True),
        Spec("Stopped", "stopped", count, numeric=True),
        Spec("Lost rank-seconds", "lost_rank_seconds", number, numeric=True),
        Spec("Lost share", "lost_share", percent, numeric=True),
        Spec("Trend", "trend"),
        Spec("Last named", "last_named_us", utc),
        Spec("Last seen", "last_seen_us", utc),
    )
    named = [{**row, "drain": _drain(row)} for row in hosts or () if row["named"]]
    cautions = sorted({row["caution"] for row in named if row["caution"]})
    return SectionView(
        "hosts",
        "Hosts",
        state=_state(hosts),
        question="Which hosts keep being named by findings, and which are to be drained?",
        reading=(
            "A host that runs in many jobs is named more often by that alone. Expected is in how many of its runs it "
            "would be named at the rate of all other hosts; chance is how likely as many are, corrected for the "
            "number of hosts. To drain are hosts named in two runs or more, hardly by chance, and in one of their "
            "latest runs. Lost share is the lost part of the rank-time of all ranks of its runs."
        ),
        caveats=tuple(
            f"Names marked as no machine cannot be followed from run to run: {why}. Say in run.json which nodes they"
            " were (host_nodes)."
            for why in cautions
        ),
        tables=(table_view("Hosts that were named", named, columns, top=_HOSTS),) if hosts else (),
    )


def _drain(row: Row) -> str:
    if row["caution"]:
        return "no machine"
    return "yes" if row["suspect"] else ""


def _latest(compared: Sequence[Row]) -> list[Row]:
    """The latest compared run of each workload."""
    ordered = sorted(compared, key=lambda row: row["first_dump_us"] or 0)
    return list({row["workload"]: row for row in ordered if row["verdict"]}.values())


def _comparisons(compared: Sequence[Row] | None, settings: Settings) -> SectionView:
    columns = (
        Spec("Run", "run", link=_report_link(settings)),
        Spec("Verdict", "verdict", link=_report_link(settings, COMPARISON_PAGE)),
        Spec("Began", "first_dump_us", utc),
        Spec("Against", "reference"),
        Spec("Runs", "against", lambda runs: count(len(runs)), numeric=True),
        Spec("Transfer", "transfer_change", percentage, numeric=True),
        Spec("Waiting", "waiting_change", percentage, numeric=True),
        Spec("Explained by", "explained_by", lambda hosts: ", ".join(hosts or ())),
        Spec("Why", "reason"),
    )
    newest = sorted((row for row in compared or () if row["verdict"]), key=lambda row: -(row["first_dump_us"] or 0))
    return SectionView(
        "comparisons",
        "Runs against those before",
        state=_state(compared),
        question="Which runs are slower than earlier ones that did the same work?",
        reading=(
            "Each run is compared with the baseline of its workload as it was when the run began, or with an earlier "
            "run of the same work; never with one that has a P0 or P1 finding. A change of 5 % counts if chance does "
            "not explain it; transfer and waiting are separate. On other hosts, what the findings of the slower run do "
            "not explain may be the hosts or the change."
        ),
        tables=(table_view("Comparisons, the newest first", newest, columns, top=_RUNS),) if compared else (),
    )


def _baselines(rows: Sequence[Row] | None, settings: Settings) -> SectionView:
    columns = (
        Spec("Run", "run", link=_report_link(settings)),
        Spec("Workload", "workload"),
        Spec("Baseline", "fit", lambda fit: "yes" if fit else "no"),
        Spec("Why", "reason"),
        Spec("Decision", "decision"),
        Spec("Level", "level", number, numeric=True),
        Spec("Began", "first_dump_us", utc),
    )
    newest = sorted(rows or (), key=lambda row: -(row["first_dump_us"] or 0))
    return SectionView(
        "baselines",
        "Baselines",
        state=_state(rows),
        question="Which runs are new ones compared with, and why not with others?",
        reading=(
            "Level is a run's transfer times relative to the middle of its workload. `nixt baselines --pin RUN` or "
            "`--reject RUN` decide otherwise."
        ),
        tables=(table_view("Fitness of runs, the newest first", newest, columns, top=_RUNS),) if rows else (),
    )


# What is scaled is a model; of runs that name none it is not known whether they do the same work.
_NO_MODEL = "Only runs of a known model are here, at two sizes or more. Set model in run.json for the others."


def _scaling(rows: Sequence[Row] | None, totals: Sequence[Row] | None) -> SectionView:
    columns = (
        Spec("Kernel or role", "series"),
        Spec("Same kernel", "same_kernel", lambda same: "yes" if same else "no"),
        Spec("Model", "model"),
        Spec("GPUs", "gpus", count, numeric=True),
        Spec("Ranks", "n_ranks", count, numeric=True),
        Spec("Size", "coll_msg_size_bytes", size, numeric=True),
        Spec("Runs", "runs", count, numeric=True),
        Spec("GB/s", "busbw_gbs", gbs, numeric=True),
        Spec("From", "busbw_low_gbs", gbs, numeric=True),
        Spec("To", "busbw_high_gbs", gbs, numeric=True),
        Spec("CV", "busbw_cv", number, numeric=True),
        Spec("Transfer CV", "transfer_cv", number, numeric=True),
        Spec("Captured", "capture_rate", percent, numeric=True),
        Spec("Trend", "busbw_trend", number, numeric=True),
        Spec("by chance", "busbw_trend_p", percent, numeric=True),
    )
    total_columns = (
        Spec("Model", "model"),
        Spec("GPUs", "gpus", count, numeric=True),
        Spec("Runs", "runs", count, numeric=True),
        Spec("Mean GB/s", "busbw_gbs", gbs, numeric=True),
        Spec("Change", "change_gbs", gbs, numeric=True),
        Spec("by mix", "change_by_mix_gbs", gbs, numeric=True),
        Spec("by rate", "change_by_rate_gbs", gbs, numeric=True),
        Spec("In same kernels", "same_kernel_share", percent, numeric=True),
        Spec("Bytes per GPU", "bytes_per_gpu", size, numeric=True),
        Spec("Volumes", "volume_note"),
    )
    notes = sorted({row["volume_note"] for row in totals or () if row["volume_note"]})
    return SectionView(
        "scaling",
        "Scaling",
        state=_state(rows),
        question="What happens to bandwidth and its variation with the number of GPUs?",
        reading=(
            "Only a kernel that is the same at every size can be said to scale; its trend is Spearman's rank "
            "correlation of bandwidth with GPUs. A group that grows with the job is another kernel at every size, "
            "shown by its role. Mix is the part of the change that comes from other shares of the bytes, rate the "
            "part from other bandwidths."
        ),
        caveats=(_NO_MODEL, *(f"Volumes are {note}." for note in notes)),
        figures=_scaling_figures(rows or ()),
        tables=(
            table_view("Models by size", totals or (), total_columns),
            table_view("Kernels by size", rows, columns, top=_RUNS),
        )
        if rows
        else (),
    )


def _scaling_figures(rows: Sequence[Row]) -> tuple[FigureView, ...]:
    """Bandwidth and variation of the kernels that are the same at every size, for the model that has most of them."""
    same = [row for row in rows if row["same_kernel"]]
    models = sorted({row["model"] for row in same}, key=lambda model: -sum(row["model"] == model for row in same))
    if not models:
        return ()
    series: dict[str, list[Row]] = {}
    for row in same:
        if row["model"] == models[0]:
            series.setdefault(row["series"], []).append(row)
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

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        head(figure, label)
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
    return render(f"scaling-{measure}", 2.4, draw, f"{label} by the number of GPUs: {names}")


def _variation(rows: Sequence[Row] | None, settings: Settings) -> SectionView:
    columns = (
        Spec("Run", "run", link=_report_link(settings)),
        Spec("Function", "coll"),
        Spec("Placement", "coll_type"),
        Spec("Ranks", "n_ranks", count, numeric=True),
        Spec("Size", "coll_msg_size_bytes", size, numeric=True),
        Spec("CV", "exec_time_cv", number, numeric=True),
        Spec("Transfer CV", "transfer_cv", number, numeric=True),
        Spec("Waiting", "waiting_share", percent, numeric=True),
        Spec("Benchmark", "benchmark"),
        Spec("Its CV", "benchmark_cv", number, numeric=True),
        Spec("Ratio", "cv_ratio", number, numeric=True),
        Spec("of transfers", "transfer_cv_ratio", number, numeric=True),
        Spec("Note", "note"),
    )
    return SectionView(
        "nccl-tests",
        "Against nccl-tests",
        state=_state(rows),
        question="How much more do times vary in training than in a benchmark?",
        reading=(
            "A ratio is given only where function, size of one rank, ranks, nodes and NCCL are the same. Waiting is "
            "the share of the variance that is not in the transfers. Put the output of nccl-tests into "
            "`NIXT_NCCL_TESTS_DIR`."
        ),
        tables=(table_view("Training against the closest benchmark", rows, columns, top=_RUNS),) if rows else (),
    )
