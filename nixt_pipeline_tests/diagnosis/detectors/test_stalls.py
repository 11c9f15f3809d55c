"""Four ranks on two hosts, and transfers that occasionally stall for a second or two."""

from dataclasses import replace
from pathlib import Path

import pytest

import nixt_pipeline as nixt
from nixt_pipeline.diagnosis.detectors.stalls import Stalls, find_stalls
from nixt_pipeline.diagnosis.evidence.observations import Communicator
from nixt_pipeline.diagnosis.evidence.stalls import Stall
from nixt_pipeline.diagnosis.wording.stalls import stall_finding
from nixt_pipeline.diagnosis.wording.text import title
from nixt_pipeline.settings import Settings, Thresholds
from nixt_pipeline_tests.diagnosis.examples import SECOND_US, communicator, observations
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log

A1, A2, B1, B2, C1, C2 = (("a", 1), ("a", 2), ("b", 1), ("b", 2), ("c", 1), ("c", 2))


def found(comms: list[Communicator], *stalls: tuple[int, float, float]) -> list[Stalls]:
    """What is found in a job of 40 s, of stalls given by communicator, end and length in seconds."""
    told = [
        Stall(comm, comms[comm].members, int(at), int(at * SECOND_US), length * SECOND_US)
        for comm, at, length in stalls
    ]
    return find_stalls(replace(observations(comms, blocks=40), stalls=tuple(told)), (), Thresholds())


def test_the_machine_that_all_paths_have_in_common_and_others_do_not_is_named() -> None:
    rails = [communicator(0, A1, B1), communicator(1, B1, C1), communicator(2, A2, C2)]
    # Twice, the paths of host b stood still together: 2 s and 1 s of 40 s are 7.5 %.
    (stalls,) = found(rails, (0, 12.0, 2.0), (1, 12.2, 1.5), (0, 30.0, 1.0), (1, 30.0, 1.0))
    assert (stalls.suspects, stalls.across, len(stalls.moments)) == ((B1,), True, 2)
    assert stalls.cost_share == pytest.approx(0.075)


def test_without_a_path_around_them_one_of_the_hosts_or_the_network_may_be_it() -> None:
    (stalls,) = found([communicator(0, A1, A2, B1, B2)], (0, 12.0, 2.0), (0, 30.0, 2.0))
    assert stalls.suspects == (A1, A2, B1, B2)


def test_of_a_rail_that_stood_still_while_another_went_on_its_processes_are_named() -> None:
    comms = [communicator(0, A1, A2, B1, B2), communicator(1, A1, B1), communicator(2, A2, B2)]
    observed = observations(comms, blocks=40)
    (stalls,) = found(comms, (0, 12.0, 2.0), (1, 12.2, 2.0), (0, 30.0, 2.0), (1, 30.0, 2.0))
    finding = stall_finding(observed, stalls, Thresholds())
    assert (finding.level, finding.processes, finding.ambiguous) == ("fabric", ("a-pid1", "b-pid1"), True)
    assert title(finding) == "Slow network: the network, or one of a-pid1, b-pid1"


def test_what_stood_still_once_is_a_note_whatever_it_costs() -> None:
    world = [communicator(0, A1, A2, B1, B2)]
    for stalls, severity, often in (
        ([(0, 12.0, 10.0)], "P2", "stalled once, for 10 s,"),
        ([(0, 12.0, 5.0), (0, 30.0, 5.0)], "P1", "stalled 2 times, for 5 s on average,"),
        # Written by two passes of the dump thread, but one stall: the second began before the first was over.
        ([(0, 12.0, 3.0), (0, 13.5, 3.0)], "P2", "stalled once, for 3 s,"),
    ):
        (suspect,) = found(world, *stalls)
        finding = stall_finding(observations(world, blocks=40), suspect, Thresholds())
        assert (finding.severity, often in finding.evidence) == (severity, True)


def test_what_costs_little_is_not_told() -> None:
    # 1.9 s of 40 s are less than the 5 % of a P2.
    assert found([communicator(0, A1, A2, B1, B2)], (0, 12.0, 0.9), (0, 30.0, 1.0)) == []


def test_stalls_inside_a_host_are_apart_from_those_between_hosts() -> None:
    comms = [communicator(0, A1, A2), communicator(1, B1, B2), communicator(2, A1, B1)]
    inside, across = found(comms, (0, 12.0, 2.0), (0, 30.0, 2.0), (2, 20.0, 2.0))
    assert (inside.suspects, inside.across, len(inside.moments)) == ((A1, A2), False, 2)
    assert (across.members, across.across, len(across.moments)) == ((A1, B1), True, 1)


@pytest.mark.parametrize(
    ("stalled", "told"),
    [((20, 40), "stalled 2 times, for 999 ms on average"), ((20,), "stalled once, for 999 ms"), ((0, 1), "")],
)
def test_stalls_are_read_from_a_log(stalled: tuple[int, ...], told: str, tmp_path: Path, settings: Settings) -> None:
    # 60 collectives of 1 ms, one each 100 ms; the first of all make the connections.
    hosts = [("node-0", 1), ("node-0", 2), ("node-1", 3), ("node-1", 4)]
    for rank, (host, pid) in enumerate(hosts):
        lines, at_us = [], EPOCH_US
        for sn in range(60):
            time_us = 1_000_000 if sn in stalled else 1_000
            at_us += 99_000 + time_us
            lines.append(collective(sn=sn, rank=rank, nnodes=2, host=host, pid=pid, time_us=time_us, at_us=at_us))
        write_log(tmp_path / "job" / f"{host}-pid{pid}.log", *lines)
    run = nixt.ingest_run(tmp_path / "job", settings).run
    findings = [finding for finding in nixt.diagnose_run(run, settings).findings if finding.severity != "info"]
    if not told:
        assert findings == []
        return
    (finding,) = findings
    assert (finding.kind, finding.level, finding.hosts) == ("fabric-slow", "fabric", ("node-0", "node-1"))
    assert told in finding.evidence
