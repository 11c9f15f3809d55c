from dataclasses import replace

from nixt_pipeline.diagnosis.evidence.observations import Communicator
from nixt_pipeline.diagnosis.evidence.parts import components, parts_of
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.diagnosis.evidence.span import Span
from nixt_pipeline_tests.diagnosis.examples import communicator

SECOND = 1_000_000
EIGHT: list[Process] = [*(("a", pid) for pid in range(4)), *(("b", pid) for pid in range(4, 8))]


def parts(*comms: tuple[list[Process], Span | None]) -> list[set[int]]:
    """The communicators of each part, given by their members and the seconds in which they were in use."""
    made = [
        replace(communicator(number, *members), span=span and (span[0] * SECOND, span[1] * SECOND))
        for number, (members, span) in enumerate(comms)
    ]
    return [set(part.communicators) for part in parts_of(made)]


def test_what_shares_processes_directly_or_through_others_is_one_part() -> None:
    pairs = [(EIGHT[n : n + 2], (0, 90)) for n in (0, 2, 4, 6)]
    assert parts(*pairs) == [{0}, {1}, {2}, {3}]
    assert parts(*pairs, (EIGHT[1:3], (0, 90)), (EIGHT[5:7], (0, 90))) == [{0, 1, 4}, {2, 3, 5}]


def test_a_communicator_that_replaces_another_is_another_part() -> None:
    assert parts((EIGHT, (0, 25)), (EIGHT[:5] + EIGHT[6:], (55, 95))) == [{0}, {1}]
    # It need not have taken long.
    assert parts((EIGHT, (0, 25)), (EIGHT[:7], (26, 95)), (EIGHT[:6], (96, 99))) == [{0}, {1}, {2}]


def test_what_is_written_one_after_the_other_in_a_pass_is_in_use_together() -> None:
    pairs = [(EIGHT[n : n + 2], (0, 0)) for n in (0, 2, 4, 6)]
    assert parts(*pairs, (EIGHT, (1, 1))) == [{0, 1, 2, 3, 4}]


def test_what_spans_both_joins_those_that_follow_one_another() -> None:
    assert parts((EIGHT, (0, 25)), (EIGHT[:7], (55, 95)), (EIGHT[:2], (0, 95))) == [{0, 1, 2}]


def test_a_communicator_without_a_time_goes_with_the_others_of_its_processes() -> None:
    assert parts((EIGHT, None), (EIGHT[:2], (55, 95)), (EIGHT[4:], None)) == [{0, 1, 2}]


def test_components_know_no_time() -> None:
    made: list[Communicator] = [communicator(0, *EIGHT), communicator(1, *EIGHT[:7]), communicator(2, ("c", 1))]
    assert components(made) == {0: 0, 1: 0, 2: 1}
    assert components([]) == {}
