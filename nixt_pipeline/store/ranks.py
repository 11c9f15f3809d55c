"""Which records are one GPU's: the ranks of a process that drives several, and processes that share a name.

A GPU is one rank of a launch. Normally it has a process of its own, and (hostname, pid) finds it. A process that holds
several ranks of one communicator drives several GPUs (`nccl-tests -g 8`, JAX), unless it is several: containers are all
process 1 of the machine whose name they have, and machines can share a name. Those wrote different files.

Which rank of one communicator is which of another, the log of such a process does not say. They are joined by what
holds for every framework: ranks rise with the GPUs, groups of a kind share the GPUs among them, and their names are
numbered. Where that leaves several possibilities, the join is not `certain`.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from os.path import commonpath
from pathlib import PurePosixPath
from typing import NamedTuple

from nixt_pipeline.disjoint_sets import DisjointSets
from nixt_pipeline.grouping import grouped
from nixt_pipeline.inspector.parallelism import role_by_name
from nixt_pipeline.store.incarnations import Communicator, Process

# Groups of these hold every n-th GPU, those of other kinds GPUs that follow one another.
_STRIDED_ROLES = ("data", "pipeline")


class Held(NamedTuple):
    """A rank of a communicator in a launch, which a process wrote to `path`."""

    incarnation: int
    process: Process
    communicator: Communicator
    rank: int
    path: str


class Place(NamedTuple):
    """What follows the process's name in that of the rank (" rank 12"), and whether no other would be as likely."""

    suffix: str
    certain: bool


Seat = tuple[Process, Communicator, int | None]  # the last is the rank
_Ranks = Mapping[Communicator, list[int]]


def crowded(seats: Iterable[tuple[Process, Communicator, int | None]]) -> set[Process]:
    """The processes that hold several ranks of one communicator."""
    first: dict[tuple[Process, Communicator], int | None] = {}
    return {process for process, comm, rank in seats if first.setdefault((process, comm), rank) != rank}


def places(held: Iterable[Held]) -> dict[Seat, Place]:
    """The place of every rank that the processes of `held`, which are `crowded`, hold in their communicators."""
    result: dict[Seat, Place] = {}
    for (_, process), seats in grouped(held, lambda seat: (seat.incarnation, seat.process)).items():
        parts = _parts(seats)
        for folder, part in zip(_folders([_paths(part) for part in parts]), parts, strict=True):
            for (comm, rank), place in _split(_ranks(part)).items():
                result[process, comm, rank] = Place(folder + place.suffix, place.certain)
    return result


def _parts(seats: list[Held]) -> list[list[Held]]:
    """The processes behind one name, by the files that they wrote: two that hold different ranks of a communicator are
    not one, and files that continue one another hold the same."""
    groups: DisjointSets[str] = DisjointSets()
    wrote: dict[tuple[Communicator, int], str] = {}
    for seat in seats:
        groups.join(seat.path, wrote.setdefault((seat.communicator, seat.rank), seat.path))
    by_group = grouped(seats, lambda seat: groups.find(seat.path))
    parts: list[list[Held]] = []
    for part in sorted(by_group.values(), key=lambda part: (-len(part), _paths(part)[0])):
        beside = [other for other in parts if not _shared(part, other)]
        near = [other for other in beside if _directories(part) & _directories(other)]
        home = near or (beside if len(beside) == 1 else [])
        if home:
            home[0].extend(part)
        else:
            parts.append(part)
    return sorted(parts, key=lambda part: _paths(part)[0])


def _shared(one: list[Held], other: list[Held]) -> set[Communicator]:
    """Communicators of which both hold ranks, and so are two processes."""
    return {seat.communicator for seat in one} & {seat.communicator for seat in other}


def _paths(part: list[Held]) -> list[str]:
    return sorted({seat.path for seat in part})


def _directories(part: list[Held]) -> set[str]:
    return {str(PurePosixPath(seat.path).parent) for seat in part}


def _folders(paths: list[list[str]]) -> list[str]:
    """What tells the files of each part apart, in parentheses: the folder if it does, else the file."""
    if len(paths) == 1:
        return [""]
    names = [str(PurePosixPath(own[0]).parent) for own in paths]
    if len(set(names)) < len(names):
        names = [own[0] for own in paths]
    shared = commonpath(names)
    return [f" ({name[len(shared) :].lstrip('/') or name})" for name in names]


def _ranks(part: list[Held]) -> dict[Communicator, list[int]]:
    ranks: dict[Communicator, set[int]] = defaultdict(set)
    for seat in part:
        ranks[seat.communicator].add(seat.rank)
    return {comm: sorted(own) for comm, own in ranks.items()}


def _split(ranks: _Ranks) -> dict[tuple[Communicator, int], Place]:
    """The GPUs of one process, told by the rank in the communicator that holds all of them."""
    widest = max(ranks, key=lambda comm: (len(ranks[comm]), comm[2] or 0, "world" in (comm[1] or "").lower(), comm[0]))
    families = _families(ranks)
    gpus = _count(ranks, widest, families)
    if gpus == 1:
        return {(comm, own[0]): Place("", True) for comm, own in ranks.items()}
    whole = len(ranks[widest]) == gpus
    names = [f" rank {rank}" for rank in ranks[widest]] if whole else [f" local rank {n}" for n in range(gpus)]
    result = {}
    for family in families:
        for number, comm in enumerate(family):
            numbers, certain = _numbers(family, number, len(ranks[comm]), gpus)
            for rank, gpu in zip(ranks[comm], numbers, strict=True):
                result[comm, rank] = Place(names[gpu], certain)
    return result


def _families(ranks: _Ranks) -> list[list[Communicator]]:
    """Communicators of one shape and kind of name, in the order of the numbers in their names."""
    families = grouped(ranks, lambda comm: (comm[2], comm[3], re.sub(r"\d+", "", comm[1] or ""), len(ranks[comm])))
    return [sorted(family, key=lambda comm: (_numbered(comm), comm[0] or "")) for family in families.values()]


def _numbered(comm: Communicator) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d{1,18}", comm[1] or ""))


def _count(ranks: _Ranks, widest: Communicator, families: list[list[Communicator]]) -> int:
    """How many GPUs the process drives: as many as it holds ranks of one communicator, or of all of a kind, where their
    numbers or another kind say that these share the GPUs."""
    most = len(ranks[widest])
    own = next(family for family in families if widest in family)
    others = [len(family) * len(ranks[family[0]]) for family in families if family is not own]
    together = len(own) * most
    return together if _told_by_name(own) or together in others else most


def _told_by_name(family: list[Communicator]) -> bool:
    return len({_numbered(comm) for comm in family}) == len(family)


def _numbers(family: list[Communicator], number: int, size: int, gpus: int) -> tuple[list[int], bool]:
    """The GPUs of the communicator at `number` in its family, of which it has `size`."""
    groups = len(family)
    if size == gpus:
        return list(range(gpus)), True
    if groups * size != gpus:
        return [(number * size + place) % gpus for place in range(size)], False
    certain = _told_by_name(family)
    if role_by_name(family[number][1]) in _STRIDED_ROLES:
        return [number + place * groups for place in range(size)], certain
    return [number * size + place for place in range(size)], certain
