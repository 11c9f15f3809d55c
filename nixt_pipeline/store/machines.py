"""Machines that share a host name (`localhost`): a communicator counts more nodes than its ranks have host names.

Ranks of a communicator of one node share a machine; failing that, a directory for each machine tells them apart. Where
neither gives as many machines as the communicator has nodes, the name stays, and what it names are several.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from os.path import commonpath
from pathlib import PurePosixPath

from nixt_pipeline.disjoint_sets import DisjointSets
from nixt_pipeline.grouping import grouped
from nixt_pipeline.store.incarnations import Communicator, Process
from nixt_pipeline.store.ranks import Held, Seat


def too_few_names(seats: Iterable[Seat]) -> list[Communicator]:
    """The communicators with more nodes than host names, of those of which all ranks are there; the largest first."""
    hosts: dict[Communicator, set[str | None]] = defaultdict(set)
    ranks: dict[Communicator, set[int | None]] = defaultdict(set)
    for (hostname, _), comm, rank in seats:
        hosts[comm].add(hostname)
        ranks[comm].add(rank)
    few = [
        comm for comm, names in hosts.items()
        if None not in names and len(names) < (comm[3] or 0) and len(ranks[comm]) == comm[2]
    ]  # fmt: skip
    return sorted(few, key=lambda comm: (-(comm[2] or 0), str(comm)))


def machine_names(held: Iterable[Held], comm: Communicator) -> dict[Seat, str]:
    """The name of the machine of each seat, as far as those of `comm` can be told apart; empty when they cannot."""
    seats = list(held)
    machine = _by_nodes(seats)
    own = [seat for seat in seats if seat.communicator == comm]
    if len({machine[_file(seat)] for seat in own}) != comm[3]:
        machine = {_file(seat): (seat.process[0], _directory(seat)) for seat in seats}
        crossing = defaultdict(set)
        for seat in seats:
            if seat.communicator[3] == 1:
                crossing[seat.communicator].add(machine[_file(seat)])
        if len({machine[_file(seat)] for seat in own}) != comm[3] or any(len(found) > 1 for found in crossing.values()):
            return {}
    names = _named(own, machine)
    return {
        (seat.process, seat.communicator, seat.rank): names[machine[_file(seat)]]
        for seat in seats
        if machine[_file(seat)] in names
    }


_File = tuple[Process, str]


def _file(seat: Held) -> _File:
    return seat.process, seat.path


def _directory(seat: Held) -> str:
    return str(PurePosixPath(seat.path).parent)


def _by_nodes(seats: list[Held]) -> dict[_File, object]:
    """A key of the machine on which each file was written, by the communicators of one node."""
    groups: DisjointSets[_File] = DisjointSets()
    first: dict[Communicator, _File] = {}
    for seat in seats:
        if seat.communicator[3] == 1:
            groups.join(_file(seat), first.setdefault(seat.communicator, _file(seat)))
    return {_file(seat): groups.find(_file(seat)) for seat in seats}


def _named(seats: list[Held], machine: Mapping[_File, object]) -> dict[object, str]:
    """<host name> (<directory>), or with a number in the order of the ranks where machines share a directory. A host
    name that only one machine has stays."""
    by_machine = grouped(sorted(seats, key=lambda seat: seat.rank), lambda seat: machine[_file(seat)])
    names = {}
    for hostname, keys in grouped(by_machine, lambda key: by_machine[key][0].process[0] or "").items():
        directories = [{_directory(seat) for seat in by_machine[key]} for key in keys]
        apart = all(len(folders) == 1 for folders in directories)
        apart = apart and len({min(folders) for folders in directories}) == len(keys)
        shared = commonpath([min(folders) for folders in directories])
        for number, (key, folders) in enumerate(zip(keys, directories, strict=True), start=1):
            folder = min(folders)
            suffix = (folder[len(shared) :].lstrip("/") or folder) if apart else f"machine {number}"
            names[key] = f"{hostname} ({suffix})" if len(keys) > 1 else hostname
    return names
