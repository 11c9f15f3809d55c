"""Which machine a host name stands for, so that a host can be followed from run to run.

A log has the name that `gethostname` gave: that of the machine, or of a container or pod, which is called the same in
the next job, on whatever machine. Where the run says which node it was, that counts: `host_nodes` in run.json, a folder
`node=<name>`, or the file of the setting `node_map`. Otherwise a name is a machine's unless something speaks against
it.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from nixt_pipeline.fleet.tables import Row
from nixt_pipeline.grouping import grouped
from nixt_pipeline.settings import Settings, SettingsError

# Names that many machines have.
_PLACEHOLDERS = {"localhost", "localhost.localdomain", "(none)", "unknown", "ubuntu", "debian"}
# Docker calls a container by the first twelve digits of its id.
_CONTAINER_ID = re.compile(r"(?=.*\d)[0-9a-f]{12}|[0-9a-f]{64}")
# Pods of a Deployment or of an indexed Job end in five characters of Kubernetes' alphabet without vowels
# (k8s.io/apimachinery/pkg/util/rand), after the hash of the template or the index.
_RANDOM_POD = re.compile(r".+-(?:[bcdfghjklmnpqrstvwxz2456789]{8,10}|\d+)-[bcdfghjklmnpqrstvwxz2456789]{5}")
_SERVICE_NAME = re.compile(r".+\.(?:svc|pod)(?:\..*)?")
# A StatefulSet, PyTorchJob or MPIJob numbers its pods from 0 on, without leading zeros.
_NUMBERED = re.compile(r"(.+-|.*\D)(0|[1-9]\d*)")
# What machines are called and workloads hardly ever: a small cluster may be numbered from 0 on as pods are.
_MACHINE_STEM = re.compile(r"(?:.*[^a-z])?(?:gpu|node|host|dgx|hgx|compute|server|machine|cn|nid)[-_]?")


@dataclass(frozen=True)
class Machines:
    """`nodes`: the machine behind a name of a run, where the run says so; `cautions`: why a name is no machine's."""

    nodes: Mapping[tuple[str, str], str] = field(default_factory=dict)
    cautions: Mapping[str, str] = field(default_factory=dict)

    def of(self, run: str, host: str) -> str:
        """The machine's name, or else the host's."""
        return self.nodes.get((run, host), host)

    def caution(self, run: str, host: str) -> str:
        """Why the host's name cannot be followed to other runs; empty when it can."""
        return "" if (run, host) in self.nodes else self.cautions.get(host, "")


@dataclass(frozen=True)
class _Appearance:
    """A name in one run. `numbers`: those that share its stem there; `pid`: the lowest of its processes."""

    run: str
    pid: int | None
    first_us: int
    last_us: int
    numbers: frozenset[int]


def find_machines(rows: Iterable[Row], settings: Settings) -> Machines:
    """Judge the host names in rows of the run catalog. Raises `SettingsError` for an unusable `node_map`."""
    mapped = _read_node_map(settings)
    nodes: dict[tuple[str, str], str] = {}
    appearances: dict[str, list[_Appearance]] = defaultdict(list)
    for row in rows:
        names = row["host_names"]
        said = dict(zip(names, row.get("node_names") or [None] * len(names), strict=True))
        said |= mapped.get("*", {}) | mapped.get(row["run"], {})
        nodes |= {(row["run"], name): node for name, node in said.items() if node}
        pids = row.get("lowest_pids") or [None] * len(names)
        numbers = _numbers(names)
        for name, pid in zip(names, pids, strict=True):
            if not said.get(name):
                span = row["first_dump_us"] or 0, row["last_dump_us"] or 0
                appearances[name].append(_Appearance(row["run"], pid, *span, numbers[_stem(name)[0]]))
    return Machines(nodes, _cautions(appearances, settings))


def _read_node_map(settings: Settings) -> dict[str, dict[str, str]]:
    if not settings.node_map:
        return {}
    path = settings.node_map
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} (setting node_map): {error}; it holds {{run or *: {{host: node}}}}") from error
    if not isinstance(content, dict) or not all(isinstance(names, dict) for names in content.values()):
        raise SettingsError(f"{path} (setting node_map) has another shape; it holds {{run or *: {{host: node}}}}")
    return {run: {str(host): str(node) for host, node in names.items()} for run, names in content.items()}


def _cautions(appearances: Mapping[str, Sequence[_Appearance]], settings: Settings) -> dict[str, str]:
    if settings.hosts_are_machines == "yes":
        return {}
    if settings.hosts_are_machines == "no":
        return dict.fromkeys(appearances, "the setting hosts_are_machines")
    found = {
        name: _by_form(name) or _by_runs(name, seen, settings.thresholds.comparison.max_namespaced_pid)
        for name, seen in appearances.items()
    }
    return {name: reason for name, reason in found.items() if reason}


def _by_form(name: str) -> str:
    """What the name alone says."""
    if name.lower() in _PLACEHOLDERS:
        return "many machines have this name"
    if _CONTAINER_ID.fullmatch(name):
        return "it is the id of a container"
    if _RANDOM_POD.fullmatch(name) or _SERVICE_NAME.fullmatch(name):
        return "it is the name of a pod"
    return ""


def _by_runs(name: str, seen: Sequence[_Appearance], max_namespaced_pid: int) -> str:
    """What its runs say: process ids of a namespace, places that are numbered in each job, two jobs at one time."""
    both = _at_one_time(seen)
    if both:
        return f"its process {both[0].pid} ran in {both[0].run} and in {both[1].run} at the same time"
    pids = {appearance.pid for appearance in seen if appearance.pid is not None}
    namespaced = bool(pids) and max(pids) < max_namespaced_pid
    repeated = len(seen) > 1 and len(pids) == 1
    first = min((min(appearance.numbers, default=0) for appearance in seen), default=0)
    places = [frozenset(range(first, first + len(appearance.numbers))) for appearance in seen]
    in_order = 2 * sum(a.numbers == places_of for a, places_of in zip(seen, places, strict=True)) > len(seen)
    stem, number = _stem(name)
    if number is None:
        return "its process ids are those of a container" if namespaced and not any(map(str.isdigit, name)) else ""
    if _MACHINE_STEM.fullmatch(stem.lower()):
        return ""
    if in_order and namespaced and first <= 1:
        return f"each job numbers its hosts from {first} on, with process ids of a container"
    if in_order and repeated and first == 0 and stem.endswith("-"):
        return "each job numbers its hosts from 0 on, with the same process ids"
    return ""


def _at_one_time(seen: Sequence[_Appearance]) -> tuple[_Appearance, _Appearance] | None:
    """Two runs that overlap in time and have the same process on the name. Equal spans are copies of one log."""
    timed = (appearance for appearance in seen if appearance.pid is not None and appearance.last_us)
    for same in grouped(timed, lambda appearance: appearance.pid).values():
        ordered = sorted(same, key=lambda appearance: (appearance.first_us, appearance.last_us))
        for one, next_one in pairwise(ordered):
            is_copy = (one.first_us, one.last_us) == (next_one.first_us, next_one.last_us)
            if next_one.first_us < one.last_us and not is_copy:
                return one, next_one
    return None


def _stem(name: str) -> tuple[str, int | None]:
    """`trainer-` and 2 of `trainer-2`; a number with leading zeros is a part of the name."""
    match = _NUMBERED.fullmatch(name)
    return (match[1], int(match[2])) if match else (name, None)


def _numbers(names: Iterable[str]) -> dict[str, frozenset[int]]:
    """Stem -> the numbers of the names that have it."""
    found: dict[str, set[int]] = defaultdict(set)
    for stem, number in map(_stem, names):
        found[stem] |= set() if number is None else {number}
    return {stem: frozenset(numbers) for stem, numbers in found.items()}
