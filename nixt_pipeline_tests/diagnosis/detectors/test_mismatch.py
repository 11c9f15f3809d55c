"""Sends without a Recv are a disagreement only where the log of the receiver reaches to the end."""

from nixt_pipeline.diagnosis.detectors.mismatch import unreceived
from nixt_pipeline.diagnosis.evidence.observations import Edge
from nixt_pipeline.diagnosis.evidence.processes import Process

A, B, C = ("a", 1), ("b", 1), ("c", 1)


def edge(source: Process, target: Process, sent: int, received: int, recorded: float = 1.0) -> Edge:
    return Edge(0, source, target, sent, received, recorded, 1.0)


def test_five_sends_without_a_recv_are_a_disagreement_and_four_may_be_under_way() -> None:
    assert unreceived([edge(A, B, 20, 15), edge(A, C, 20, 16)], (), 5) == [edge(A, B, 20, 15)]


def test_where_a_record_was_lost_counts_prove_nothing() -> None:
    assert unreceived([edge(A, B, 20, 12, recorded=0.95)], (), 5) == []


def test_a_receiver_whose_own_sends_were_received_and_not_recorded_lost_the_end_of_its_log() -> None:
    # In an exchange of all with all, B lost its last pass: A has 20 of what B sent, B itself has 12.
    assert unreceived([edge(A, B, 20, 12), edge(B, A, 12, 20), edge(C, B, 20, 12)], (), 5) == []
    assert unreceived([edge(A, B, 20, 12), edge(C, B, 20, 12)], {B}, 5) == []
