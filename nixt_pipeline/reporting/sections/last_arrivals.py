"""Which hosts and processes arrive last, as bars."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.quantities import count, percent
from nixt_pipeline.reporting.canvas import LABEL_CHARACTERS, nothing, percent_axis, render, title_rows
from nixt_pipeline.reporting.palette import INK, NEUTRAL_COLOUR
from nixt_pipeline.reporting.rows import as_floats, first_rows
from nixt_pipeline.reporting.text import unique_labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_ENTITIES = 12


@dataclass(frozen=True)
class LastArrival:
    """How often an entity arrived last, of the complete collectives it took part in."""

    label: str
    observed: float
    expected: float
    cells: int

    @property
    def excess(self) -> float:
        """Share of collectives beyond what chance alone gives."""
        return self.observed - self.expected


@dataclass(frozen=True)
class LastArrivals:
    """The entities with the largest excess, of `total`."""

    rows: tuple[LastArrival, ...]
    total: int


def last_arrivals(
    spatial: pa.Table, level: str, within_host: Collection[str] = (), limit: int = MAX_ENTITIES
) -> LastArrivals:
    """Who arrived last more often than chance, from `spatial_correlation` at `level` (`host` or `process`).

    `within_host` names the placements whose communicators all sit on one host: between hosts they say nothing, because
    a host that holds every rank is last by definition.
    """
    counted = at_level(spatial, level)
    if level != "process":
        counted = between_hosts(counted, within_host)
    counted = counted.filter(pc.greater(counted["cells"], 0))
    names = ("last_arrivals", "expected_last_arrivals", "cells")
    sums = counted.group_by("entity").aggregate([(name, "sum") for name in names])
    last, expected, cells = (as_floats(pc.fill_null(sums[f"{name}_sum"], 0)) for name in names)
    excess = pc.divide(pc.subtract(last, expected), cells)
    rows = first_rows(sums.append_column("excess", excess), limit, ("excess", "descending"), ("entity", "ascending"))
    found = [
        LastArrival(
            row["entity"],
            (row["last_arrivals_sum"] or 0) / row["cells_sum"],
            (row["expected_last_arrivals_sum"] or 0) / row["cells_sum"],
            row["cells_sum"],
        )
        for row in rows
    ]
    return LastArrivals(_relabelled(found), sums.num_rows)


def at_level(spatial: pa.Table, level: str) -> pa.Table:
    """The rows of `spatial_correlation` at a level, with `entity`: the process or host, without the domain that all
    hosts share, or a placeholder when the log does not name it."""
    rows = spatial.filter(pc.equal(spatial["level"], level))
    name = pc.cast(rows["process" if level == "process" else "hostname"], pa.string())
    domain = common_domain(spatial)
    if domain:
        name = pc.replace_substring(name, domain, "", max_replacements=1)
    return rows.append_column("entity", pc.fill_null(name, "(not named)"))


def between_hosts(rows: pa.Table, within_host: Collection[str]) -> pa.Table:
    """The rows of placements that are not in `within_host`."""
    return rows.filter(pc.invert(pc.is_in(rows["coll_type"], value_set=pa.array(within_host, pa.string()))))


def _relabelled(rows: Sequence[LastArrival]) -> tuple[LastArrival, ...]:
    labels = unique_labels((row.label for row in rows), LABEL_CHARACTERS)
    return tuple(LastArrival(label, r.observed, r.expected, r.cells) for label, r in zip(labels, rows, strict=True))


def common_domain(spatial: pa.Table) -> str:
    """The domain that every host name ends with, from its first dot on; "" when they differ: labels do without it."""
    domains = {name[len(name.partition(".")[0]) :] for name in pc.unique(spatial["hostname"].drop_null()).to_pylist()}
    return domains.pop() if len(domains) == 1 else ""


def draw_last_arrivals(data: LastArrivals, name: str) -> str:
    """Bars for the observed share of last arrivals, a tick for the share that chance alone gives."""
    if not data.rows:
        return nothing(name)

    def draw(figure: "Figure") -> None:
        axes = figure.subplots()
        positions = range(len(data.rows))
        axes.barh(positions, [row.observed for row in data.rows], height=0.42, color=NEUTRAL_COLOUR)
        expected = [row.expected for row in data.rows]
        axes.plot(expected, positions, linewidth=0, marker="|", markersize=12, markeredgewidth=2, color=INK)
        notes = [f"{percent(row.observed)} of {count(row.cells)}" for row in data.rows]
        title_rows(axes, [row.label for row in data.rows], notes)
        percent_axis(axes, max(max(row.observed, row.expected) for row in data.rows) * 1.04)
        axes.set_xlabel("share of complete collectives in which it arrived last")

    first = data.rows[0]
    alt = f"{first.label} arrived last in {percent(first.observed)} of {count(first.cells)} collectives"
    return render(name, 0.6 + 0.34 * len(data.rows), draw, f"{alt}, expected {percent(first.expected)}")
