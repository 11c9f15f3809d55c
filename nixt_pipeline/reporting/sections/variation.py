"""Why times vary within a kernel: the variance by place and by cause."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from nixt_pipeline.quantities import count, duration, number, percent
from nixt_pipeline.reporting.canvas import LABEL_CHARACTERS, nothing, percent_ticks, render, title_rows
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.palette import OTHER_COLOUR, TRANSFER_COLOUR, VARIATION_COLOURS, WAIT_COLOUR
from nixt_pipeline.reporting.rows import SHOWN_ROWS, first_launches, not_drawn
from nixt_pipeline.reporting.text import unique_labels
from nixt_pipeline.reporting.views import FigureView, LegendEntry, SectionView, Spec, table_view

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Variation:
    """One kernel: its coefficient of variation, that of its transfers, and the shares of the variance. None: the log
    cannot tell."""

    label: str
    cv: float
    transfer_cv: float | None
    between_ranks: float
    transfer: float | None
    samples: int


def variations(table: pa.Table) -> tuple[Variation, ...]:
    """The kernels of `variation` whose times vary at all, hottest first."""
    rows = [row for row in table.to_pylist() if row["share_between_ranks"] is not None]
    several = len({row["incarnation"] for row in rows}) > 1
    names = (f"launch {row['incarnation']}: {row['label']}" if several else row["label"] for row in rows)
    return tuple(
        Variation(
            label,
            row["exec_time_cv"],
            row["transfer_cv"],
            row["share_between_ranks"],
            row["share_of_transfer"],
            row["samples"],
        )
        for label, row in zip(unique_labels(names, LABEL_CHARACTERS), rows, strict=True)
    )


def variation_section(_content: RunContent, table: pa.Table) -> SectionView:
    """Two bars for each kernel, and the numbers."""
    earliest, launches = first_launches(table)
    data = variations(earliest)
    columns = (
        Spec("Kernel", "label"),
        Spec("Launch", "incarnation", count, numeric=True),
        Spec("Records", "samples", count, numeric=True),
        Spec("Mean time", "exec_time_mean_us", duration, numeric=True),
        Spec("CV", "exec_time_cv", number, numeric=True),
        Spec("CV between ranks", "between_ranks_cv", number, numeric=True),
        Spec("CV over time", "within_ranks_cv", number, numeric=True),
        Spec("Mean transfer", "transfer_mean_us", duration, numeric=True),
        Spec("CV of transfers", "transfer_cv", number, numeric=True),
        Spec("Mean waiting", "wait_mean_us", duration, numeric=True),
    )
    rows = table.slice(0, SHOWN_ROWS).to_pylist()
    view = table_view("Variation of the hot kernels", rows, columns, total=table.num_rows, source="variation")
    if not data:
        return SectionView("", "", notes=("The times of no kernel vary.",), tables=(view,))
    figure = FigureView(
        draw_variation(data, "variation"),
        "Upper bar: the variance by place; lower bar: by cause. All of the variance is 100 %. Grey: unknown, "
        "for lack of complete collectives.",
        anchor="figure-variation",
        title="Variation of execution times, split",
        reading=_reading(data),
        legend=(
            LegendEntry("between ranks", VARIATION_COLOURS[0]),
            LegendEntry("each rank over time", VARIATION_COLOURS[1]),
            LegendEntry("transfer", TRANSFER_COLOUR),
            LegendEntry("waiting", WAIT_COLOUR),
        ),
        source="variation",
    )
    return SectionView("", "", notes=not_drawn(launches), figures=(figure,), tables=(view,))


def _reading(data: tuple[Variation, ...]) -> str:
    most = max(data, key=lambda item: item.cv)
    cause = ""
    if most.transfer is not None:
        cause = f"; {percent(most.transfer)} of the variance is that of the transfers, the rest is waiting"
    return f"{most.label} varies most, with a coefficient of variation of {number(most.cv)}{cause}."


def draw_variation(data: tuple[Variation, ...], name: str) -> str:
    """Two stacked bars of 100 % for each kernel."""
    if not data:
        return nothing(name)

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        for position, item in enumerate(data):
            axes.barh(position - 0.1, item.between_ranks, height=0.18, color=VARIATION_COLOURS[0])
            rest = 1 - item.between_ranks
            axes.barh(position - 0.1, rest, left=item.between_ranks, height=0.18, color=VARIATION_COLOURS[1])
            if item.transfer is None:
                axes.barh(position + 0.12, 1, height=0.18, color=OTHER_COLOUR)
            else:
                axes.barh(position + 0.12, item.transfer, height=0.18, color=TRANSFER_COLOUR)
                axes.barh(position + 0.12, 1 - item.transfer, left=item.transfer, height=0.18, color=WAIT_COLOUR)
        title_rows(axes, [item.label for item in data], [f"CV {number(item.cv)}" for item in data])
        axes.set_xlim(0, 1)
        percent_ticks(axes.xaxis, (0, 0.25, 0.5, 0.75, 1))
        axes.set_xlabel("share of the variance of execution times")

    return render(name, 0.6 + 0.42 * len(data), draw, _reading(data))
