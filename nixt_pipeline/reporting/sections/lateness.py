"""For which host the others waited, over time, as a map of hosts and bins."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from nixt_pipeline.quantities import count, percent, utc
from nixt_pipeline.reporting import canvas
from nixt_pipeline.reporting.content import RunContent
from nixt_pipeline.reporting.legends import share_legend
from nixt_pipeline.reporting.rows import first_rows, matching
from nixt_pipeline.reporting.sections.launches import launch_section
from nixt_pipeline.reporting.text import unique_labels
from nixt_pipeline.reporting.views import FigureView, SectionView

MAX_HOSTS = 32
# With more hosts than this, one of them holds up a small part of the job only: the limits of the colours are a tenth.
_MANY_HOSTS = 64


@dataclass(frozen=True)
class LatenessMap:
    """One launch: the hosts that others waited for most, of `total`; `shares[host][bin]` is the share of the rank-time
    of collectives across hosts, None where the host took part in none."""

    start_us: int
    width_us: int
    hosts: tuple[str, ...]
    shares: tuple[tuple[float | None, ...], ...]
    total: int

    @property
    def scale(self) -> float:
        """What the limits of the colours are multiplied by."""
        return 0.1 if self.total > _MANY_HOSTS else 1.0


def lateness_maps(table: pa.Table, limit: int = MAX_HOSTS) -> tuple[LatenessMap, ...]:
    """`host_lateness` by launch, earliest first."""
    launches = sorted(pc.unique(table["incarnation"]).to_pylist())
    return tuple(_map(matching(table, {"incarnation": number}), limit) for number in launches)


def _map(launch: pa.Table, limit: int) -> LatenessMap:
    width = launch["bin_width_us"][0].as_py()
    start, last = (bound(launch["bin_start_us"]).as_py() for bound in (pc.min, pc.max))
    bins = range(start, last + 1, width)
    caused = launch.group_by("hostname").aggregate([("caused_wait_us", "sum")])
    most = first_rows(caused, limit, "-caused_wait_us_sum", "hostname")
    hosts = [row["hostname"] for row in most]
    by_host: dict[str, dict[int, float | None]] = defaultdict(dict)
    for row in launch.filter(pc.is_in(launch["hostname"], value_set=pa.array(hosts))).to_pylist():
        by_host[row["hostname"]][row["bin_start_us"]] = row["share_of_rank_time"]
    shares = tuple(tuple(by_host[host].get(moment) for moment in bins) for host in hosts)
    return LatenessMap(start, width, tuple(hosts), shares, caused.num_rows)


def lateness_section(content: RunContent, table: pa.Table) -> SectionView:
    """A map for each launch."""
    return launch_section(content, table, "lateness", lateness_maps, _view)


def _view(data: LatenessMap, name: str, onsets_us: Sequence[int]) -> FigureView:
    cut = f" The {len(data.hosts)} of {count(data.total)} hosts with most." if data.total > len(data.hosts) else ""
    return FigureView(
        draw_lateness(data, name, onsets_us),
        f"from {utc(data.start_us)}. Colour: rank-time that others waited for the host, as a share of all rank-time in "
        f"large collectives across hosts.{cut}",
        title="hosts that others waited for",
        reading=_reading(data),
        legend=share_legend(data.scale),
    )


def _reading(data: LatenessMap) -> str:
    peaks = [max((share or 0.0 for share in shares), default=0.0) for shares in data.shares]
    peak = max(peaks)
    if peak == 0:
        return "No host kept others waiting."
    host = unique_labels([data.hosts[peaks.index(peak)]], canvas.SHORT_LABEL_CHARACTERS)[0]
    moment = data.shares[peaks.index(peak)].index(peak)
    return (
        f"The largest loss is from waiting for {host}: {percent(peak)} of the rank-time in the bin that "
        f"starts {moment * data.width_us / 1e6:.3g} s into the log."
    )


def draw_lateness(data: LatenessMap, name: str, onsets_us: Sequence[int] = ()) -> str:
    """Hosts as rows, bins as columns, the share as colour."""
    bins = len(data.shares[0])
    unit, scale = canvas.time_unit(bins * data.width_us / 1e6)
    width = bins * data.width_us / 1e6 / scale
    moments = [(onset - data.start_us) / 1e6 / scale for onset in onsets_us]

    def draw(axes: canvas.Axes) -> None:
        canvas.share_map(axes, data.shares, width, scale=data.scale)
        canvas.mark_moments(axes, [moment for moment in moments if 0 <= moment <= width])
        canvas.name_rows(axes, unique_labels(data.hosts, canvas.SHORT_LABEL_CHARACTERS))
        axes.set_xlim(0, width)
        canvas.number_axis(axes, "x")
        axes.set_xlabel(f"{unit} since the start")

    alt = f"{len(data.hosts)} hosts over {bins} bins. {_reading(data)}"
    return canvas.chart(name, 0.75 + 0.16 * len(data.hosts), draw, alt)
