"""Who stopped first: tracks that got less far than their alike, and the processes that these have in common.

The plugin writes completed operations only. The operation that hangs is therefore missing on *all* of its ranks, and
what depends on it stops soon after. Tracks that do the same do it in lockstep, so that those that got less far hold the
one who hung.
"""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from nixt_pipeline.diagnosis.detectors.tracks import SEND_RECV, Track
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.settings import Thresholds

# Two that stopped are distinguished when the records of the one that got less far are so unlikely to be merely lost.
_LESS_FAR_CHANCE = 0.01


@dataclass(frozen=True)
class Stop:
    """One hang: the tracks that stopped first, the processes of which one hung, by how many operations those that do
    the same in the same stage are ahead (0 when there are none: stages are never equally far), and how likely lost
    records alone would make it seem so, anywhere in the job."""

    first: tuple[Track, ...]
    suspects: frozenset[Process]
    lead: int
    chance: float


def stopped_first(tracks: Sequence[Track], limits: Thresholds) -> list[Stop]:
    """What stopped before its alike, one for each hang; empty after a normal end."""
    families: dict[tuple[Hashable, ...], list[Track]] = defaultdict(list)
    for track in tracks:
        families[track.family].append(track)
    usual = {family: _usual(members) for family, members in families.items()}
    carried: dict[tuple[int, frozenset[Process]], list[Track]] = defaultdict(list)
    for track in tracks:
        carried[track.carrier].append(track)
    stopped, chances = [], {}
    for carrier, members in carried.items():
        leads = [(track, max(0, usual[track.family] - track.reached)) for track in members]
        # Whoever lost many records may have lost the last ones in all of its ranks.
        chances[carrier] = prod(track.hidden**lead for track, lead in leads) * len(carried)
        if chances[carrier] <= limits.diagnosis.lead_chance:
            stopped += [track for track, lead in leads if lead > 0]
    edges = [track for track in tracks if track.what == SEND_RECV]
    takes_part: dict[tuple[Hashable, ...], set[Process]] = defaultdict(set)
    for track in tracks:
        takes_part[track.kind] |= track.members
    return [
        Stop(
            *_interrupted(*_narrowed(group, takes_part), carried, usual, limits.diagnosis.lead_chance),
            _lead(group, usual),
            min(chances[track.carrier] for track in group),
        )
        for group in _joined(stopped, edges)
    ]


def _interrupted(
    first: tuple[Track, ...],
    suspects: frozenset[Process],
    carried: Mapping[tuple[int, frozenset[Process]], Sequence[Track]],
    usual: Mapping[tuple[Hashable, ...], int],
    lead_chance: float,
) -> tuple[tuple[Track, ...], frozenset[Process]]:
    """Of several communicators that may hold the one who hung, the only one that stopped between two of its functions.

    A stage that waits for another has done all of what it had begun, and lacks as many operations of each function.
    Only where no record of theirs can be missing.
    """
    leads = {
        carrier: {usual[track.family] - track.reached for track in carried[carrier]}
        for carrier in {track.carrier for track in first if track.what != SEND_RECV}
        if all(track.hidden <= lead_chance for track in carried[carrier])
    }
    between = [carrier for carrier, found in leads.items() if len(found) > 1]
    if len(leads) < 2 or len(between) != 1 or not between[0][1] < suspects:
        return first, suspects
    return tuple(track for track in first if track.carrier == between[0]), between[0][1]


def together(stops: Sequence[Stop]) -> Stop:
    """Several that stopped without anything recorded between them, as one: a job hangs once, and all but one of them
    wait for it, or stopped because their host did."""
    return Stop(
        tuple(track for stop in stops for track in stop.first),
        frozenset().union(*(stop.suspects for stop in stops)),
        max(stop.lead for stop in stops),
        min(stop.chance for stop in stops),
    )


def ahead(stop: Stop, tracks: Iterable[Track]) -> int:
    """How many that do the same as those that stopped first got further."""
    families = {track.family for track in stop.first}
    return len(
        {track.carrier for track in tracks if track.family in families} - {track.carrier for track in stop.first}
    )


def _lead(group: Iterable[Track], usual: Mapping[tuple[Hashable, ...], int]) -> int:
    """By how many operations the peers of what carries most of a hang are ahead of it."""
    leads: dict[tuple[int, frozenset[Process]], int] = defaultdict(int)
    for track in group:
        leads[track.carrier] += max(0, usual[track.family] - track.reached) if track.family != track.kind else 0
    return max(leads.values())


def _usual(family: Sequence[Track]) -> int:
    """The number that at least half of a family reached. That few got further makes no suspects of the others."""
    return sorted((track.reached for track in family), reverse=True)[(len(family) + 1) // 2 - 1]


def _joined(stopped: Iterable[Track], edges: Sequence[Track]) -> list[list[Track]]:
    """Groups of tracks that stopped by the same cause, because they share a process or something is sent between them:
    a pipeline stage that stops leaves the next without input. With the edges inside of each group."""
    parts: list[tuple[set[Process], list[Track]]] = []
    stopped = list(stopped)
    members: set[Process] = set().union(*(track.members for track in stopped))
    known = {(track.family, track.carrier) for track in stopped}
    links = [edge for edge in edges if edge.members & members and (edge.family, edge.carrier) not in known]
    for track in [*stopped, *links]:
        touching = [part for part in parts if part[0] & track.members]
        processes = set(track.members).union(*(part[0] for part in touching))
        merged = [track, *(other for part in touching for other in part[1])]
        parts = [*(part for part in parts if part not in touching), (processes, merged)]
    return [merged for _, merged in parts]


def _narrowed(
    group: list[Track], takes_part: Mapping[tuple[Hashable, ...], Collection[Process]]
) -> tuple[tuple[Track, ...], frozenset[Process]]:
    """Of tracks that stopped together, those that stopped first, and the processes that these have in common.

    What got further than its peers waits elsewhere for one of them. What says nothing, because all of its kind got
    equally far, is Send and Recv along a pipeline: there, each stage waits for another. Nor does a collective clear
    processes that take no part in its kind (`takes_part`, by kind): the embedding of the first and the last stage is
    behind whatever stage of the pipeline hangs.
    """
    of_family: dict[tuple[Hashable, ...], list[Track]] = defaultdict(list)
    for track in group:
        of_family[track.family].append(track)
    least: dict[tuple[Hashable, ...], list[Track]] = defaultdict(list)
    told: dict[tuple[Hashable, ...], bool] = defaultdict(bool)
    for family in of_family.values():
        first = _least(family)
        least[family[0].kind] += first
        told[family[0].kind] |= len(first) < len(family)
    everybody: frozenset[Process] = frozenset().union(*(track.members for track in group))
    elsewhere = {
        kind: everybody.difference(takes_part[kind] if first[0].what != SEND_RECV else everybody)
        for kind, first in least.items()
    }
    sets = [
        (elsewhere[kind].union(*(track.members for track in first)), first)
        for kind, first in least.items()
        if told[kind] or first[0].what != SEND_RECV
    ] or [(everybody, group)]
    # Where they contradict each other, the edge that is behind has both ends: one of them goes on elsewhere.
    edges = [members for members, first in sets if first[0].what == SEND_RECV]
    suspects: frozenset[Process] = (
        frozenset.intersection(*(members for members, _ in sets))
        or (edges and frozenset.intersection(*edges))
        or frozenset().union(*(members for members, _ in sets))
    )
    first = [track for _, first in sets for track in first if track.members & suspects]
    return tuple([track for track in first if track.members <= suspects] or first), suspects


def _least(family: Sequence[Track]) -> list[Track]:
    """Those that got least far, as far as lost records allow to say."""
    last = min(family, key=lambda track: (track.reached, track.hidden))
    return [
        track
        for track in family
        if track.reached == last.reached or last.hidden ** (track.reached - last.reached) > _LESS_FAR_CHANCE
    ]
