"""One communicator under several names: each rank sets the name for itself, and NCCL compares none of them.

An application may write its rank into the name, and a plugin of 2.28 or 2.29 on one host writes none. What two ranks of
a communicator have in common is its id and its size, and no rank is there twice.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from nixt_pipeline.store.incarnations import Communicator

_Value = TypeVar("_Value")

_LAST_SEPARATOR = re.compile(r"[\s_.:/-]*(rank|r)?[\s_.:/-]*$", re.IGNORECASE)


class Seat(NamedTuple):
    """A rank of a communicator, as a process wrote both."""

    communicator: Communicator
    rank: int | None


def one_identity(seats: Iterable[Seat]) -> dict[Communicator, Communicator]:
    """The identity that stands for each one that differs from it in name or number of nodes only; without those that
    stand for themselves.

    Communicators that have a rank in common are two that share an id by chance: ids are cut to 56 bits.
    """
    variants: dict[tuple[str | None, int | None], dict[Communicator, list[Seat]]] = defaultdict(dict)
    for seat in seats:
        identity, _, n_ranks, _ = seat.communicator
        variants[identity, n_ranks].setdefault(seat.communicator, []).append(seat)
    result: dict[Communicator, Communicator] = {}
    for (identity, n_ranks), of_id in variants.items():
        if len(of_id) == 1 or identity is None:
            continue
        for together in _complementary(list(of_id.values())):
            members = [seat for variant in together for seat in variant]
            common = (identity, _common_name(members), n_ranks, _common_nodes(members))
            result |= {seat.communicator: common for seat in members if seat.communicator != common}
    return result


def _complementary(variants: list[list[Seat]]) -> list[list[list[Seat]]]:
    """Variants put together as long as no rank is there twice, the largest first."""
    groups: list[tuple[set[int | None], list[list[Seat]]]] = []
    for variant in sorted(variants, key=lambda seats: (-len(seats), str(seats[0].communicator))):
        ranks = {seat.rank for seat in variant}
        fitting = next((group for group in groups if not group[0] & ranks), None)
        if fitting is None:
            groups.append((ranks, [variant]))
        else:
            fitting[0].update(ranks)
            fitting[1].append(variant)
    return [together for _, together in groups]


def _common_name(seats: list[Seat]) -> str | None:
    """What the names have in common but for the rank; else the most frequent, of several that of the lowest rank."""
    named = [seat for seat in seats if seat.communicator[1] is not None]
    if not named:
        return None
    without_rank = {_without(seat.communicator[1] or "", seat.rank) for seat in named}
    if len(without_rank) == 1 and len({seat.communicator[1] for seat in named}) > 1:
        [name] = without_rank
        if name:
            return name
    return _most_frequent(seat.communicator[1] for seat in _by_rank(named))


def _without(name: str, rank: int | None) -> str:
    """The name without the last number in it that is the rank."""
    before, number, after = name, "", ""
    for match in re.finditer(rf"(?<!\d)0*{rank}(?!\d)", name):
        before, number, after = name[: match.start()], match[0], name[match.end() :]
    return (_LAST_SEPARATOR.sub("", before) + after) if number else name


def _common_nodes(seats: list[Seat]) -> int | None:
    """The number of nodes that most ranks report."""
    known = [seat for seat in seats if seat.communicator[3] is not None]
    return _most_frequent(seat.communicator[3] for seat in _by_rank(known))


def _by_rank(seats: list[Seat]) -> list[Seat]:
    return sorted(seats, key=lambda seat: (seat.rank is None, seat.rank or 0))


def _most_frequent(values: Iterable[_Value]) -> _Value | None:
    """Of equally frequent ones the first."""
    counts = Counter(values)
    return counts.most_common(1)[0][0] if counts else None
