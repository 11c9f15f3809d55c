"""Why times vary within a kernel: the variance by place and by cause."""

from collections.abc import Sequence

import pyarrow as pa

from nixt_pipeline.quantities import number, percent
from nixt_pipeline.reporting import canvas
from nixt_pipeline.reporting.columns import columns_of
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.palette import OTHER_COLOUR, TRANSFER_COLOUR, VARIATION_COLOURS, WAIT_COLOUR
from nixt_pipeline.reporting.rows import SHOWN_ROWS, Row, labelled
from nixt_pipeline.reporting.sections.launches import first_launches, not_drawn, prefixes
from nixt_pipeline.reporting.views import FigureView, LegendEntry, SectionView, table_view


def variations(table: pa.Table) -> list[Row]:
    """The kernels of `variation` whose times vary at all, hottest first."""
    rows = [row for row in table.to_pylist() if row["share_between_ranks"] is not None]
    prefix = prefixes(row["incarnation"] for row in rows)
    return labelled(
        [{**row, "label": prefix[row["incarnation"]] + row["label"]} for row in rows], canvas.LABEL_CHARACTERS
    )


def variation_section(_content: RunContent, table: pa.Table) -> SectionView:
    """Two bars for each kernel, and the numbers."""
    earliest, launches = first_launches(table)
    data = variations(earliest)
    columns = columns_of(
        "label incarnation samples exec_time_mean_us exec_time_cv between_ranks_cv within_ranks_cv"
        " transfer_mean_us transfer_cv wait_mean_us",
        transfer_cv="CV of transfers",
    )
    rows = table.slice(0, SHOWN_ROWS).to_pylist()
    view = table_view("Variation of the hot kernels", rows, columns, total=table.num_rows, source="variation")
    if not data:
        return SectionView("", "", notes=("The times of all kernels are constant.",), tables=(view,))
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
    )
    return SectionView("", "", notes=not_drawn(launches), figures=(figure,), tables=(view,))


def _reading(data: Sequence[Row]) -> str:
    most = max(data, key=lambda row: row["exec_time_cv"])
    cause = ""
    if most["share_of_transfer"] is not None:
        cause = f"; {percent(most['share_of_transfer'])} of the variance is that of the transfers, the rest is waiting"
    return f"{most['label']} varies most, with a coefficient of variation of {number(most['exec_time_cv'])}{cause}."


def draw_variation(data: Sequence[Row], name: str) -> str:
    """Two stacked bars of 100 % for each kernel."""
    if not data:
        return canvas.nothing(name)

    def draw(axes: canvas.Axes) -> None:
        for position, row in enumerate(data):
            between, transfer = row["share_between_ranks"], row["share_of_transfer"]
            axes.barh(position - 0.1, between, height=0.18, color=VARIATION_COLOURS[0])
            axes.barh(position - 0.1, 1 - between, left=between, height=0.18, color=VARIATION_COLOURS[1])
            if transfer is None:
                axes.barh(position + 0.12, 1, height=0.18, color=OTHER_COLOUR)
            else:
                axes.barh(position + 0.12, transfer, height=0.18, color=TRANSFER_COLOUR)
                axes.barh(position + 0.12, 1 - transfer, left=transfer, height=0.18, color=WAIT_COLOUR)
        canvas.title_rows(axes, [row["label"] for row in data], [f"CV {number(row['exec_time_cv'])}" for row in data])
        axes.set_xlim(0, 1)
        canvas.percent_ticks(axes.xaxis, (0, 0.25, 0.5, 0.75, 1))
        axes.set_xlabel("share of the variance of execution times")

    return canvas.chart(name, 0.6 + 0.42 * len(data), draw, _reading(data))
