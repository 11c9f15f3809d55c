"""What the diagnosis names: a process, and where one process drives several GPUs, each of its ranks."""

import re
from collections.abc import Iterable

# Hostname and process id; the third, where there is one, tells the ranks or files of that process id apart.
Process = tuple[str, int] | tuple[str, int, str]


def process_of(hostname: str, pid: int, name: str) -> Process:
    """The process that the store calls `name`: <hostname>-pid<pid> and what tells its ranks apart."""
    suffix = name.removeprefix(f"{hostname}-pid{pid}")
    return (hostname, pid, suffix) if suffix else (hostname, pid)


def name_of(process: Process) -> str:
    """What people read; the inverse of `process_of`."""
    hostname, pid, *suffix = process
    return f"{hostname}-pid{pid}{''.join(map(str, suffix))}"


def names_of(processes: Iterable[Process]) -> tuple[str, ...]:
    """The names, sorted by host, process id and rank."""
    return tuple(name_of(process) for process in sorted(processes, key=_order))


def _order(process: Process) -> tuple[str, int, tuple[int, ...], str]:
    hostname, pid, *suffix = process
    text = "".join(map(str, suffix))
    return hostname, pid, tuple(int(number) for number in re.findall(r"\d{1,18}", text)), text


def ranks_of(named: Iterable[Process], processes: Iterable[Process]) -> list[Process]:
    """All of the `processes` that have the host and process id of one that is named."""
    ids = {process[:2] for process in named}
    return [process for process in processes if process[:2] in ids]


def hosts_of(processes: Iterable[Process]) -> tuple[str, ...]:
    """Every host on which one of them runs, sorted."""
    return tuple(sorted({process[0] for process in processes}))
