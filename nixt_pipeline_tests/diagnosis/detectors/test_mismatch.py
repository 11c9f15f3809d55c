"""Sends without a Recv are a disagreement only where the log of the receiver reaches to the end."""

from dataclasses import replace

from nixt_pipeline.diagnosis.detectors.mismatch import unreceived
from nixt_pipeline.diagnosis.evidence.alike import Pace
from nixt_pipeline.diagnosis.evidence.observations import Edge
from nixt_pipeline.diagnosis.evidence.processes import Process
from nixt_pipeline.settings import Thresholds

LIMITS = Thresholds()
A, B, C = ("a", 1), ("b", 1), ("c", 1)


def edge(source: Process, target: Process, sent: int, received: int, recorded: float = 1.0) -> Edge:
    return Edge(0, source, target, sent, received, recorded, 1.0)


def test_five_sends_without_a_recv_are_a_disagreement_and_four_may_be_under_way() -> None:
    assert unreceived([edge(A, B, 20, 15), edge(A, C, 20, 16)], (), LIMITS) == [edge(A, B, 20, 15)]


def test_where_a_record_was_lost_counts_prove_nothing() -> None:
    assert unreceived([edge(A, B, 20, 12, recorded=0.95)], (), LIMITS) == []


def test_a_receiver_whose_own_sends_were_received_and_not_recorded_lost_the_end_of_its_log() -> None:
    # In an exchange of all with all, B lost its last pass: A has 20 of what B sent, B itself has 12.
    assert unreceived([edge(A, B, 20, 12), edge(B, A, 12, 20), edge(C, B, 20, 12)], (), LIMITS) == []
    assert unreceived([edge(A, B, 20, 12), edge(C, B, 20, 12)], {B}, LIMITS) == []


def test_what_is_sent_within_a_pass_of_the_dump_thread_may_be_unwritten() -> None:
    # 13 Sends a second: 12 too few Recvs may be what a killed process had not written, 20 are not.
    pace = Pace(13e-6)
    assert unreceived([replace(edge(A, B, 200, 188), pace=pace)], (), LIMITS) == []
    assert len(unreceived([replace(edge(A, B, 200, 180), pace=pace)], (), LIMITS)) == 1
