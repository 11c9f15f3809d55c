import pyarrow as pa

from nixt_pipeline.reporting.sections.edges import draw_edges, edge_panels, edges_section
from nixt_pipeline_tests.reporting import examples


def test_an_edge_has_the_times_of_both_ends() -> None:
    (panel,) = edge_panels(pa.Table.from_pylist([examples.edge_row("a-pid1", "b-pid1", 100.0, 900.0)]))
    (edge,) = panel.edges
    assert (panel.title, panel.total) == ("1 MB between hosts", 1)
    assert (edge["label"], edge["send_time_p50_us"], edge["recv_time_p50_us"]) == ("a-pid1 → b-pid1", 100.0, 900.0)


def test_an_end_that_left_no_record_is_named_by_its_rank() -> None:
    (panel,) = edge_panels(pa.Table.from_pylist([examples.edge_row("a-pid1", None, 100.0, None)]))
    assert panel.edges[0]["label"] == "a-pid1 → rank 1"
    assert "<svg" in draw_edges(panel, "edges")


def test_of_many_edges_the_slowest_and_the_fastest_are_kept() -> None:
    rows = [examples.edge_row(f"a-pid{number:02}", "b", 100.0 + number, 1000.0) for number in range(40)]
    (panel,) = edge_panels(pa.Table.from_pylist(rows), limit=4)
    assert [edge["send_time_p50_us"] for edge in panel.edges] == [139.0, 138.0, 101.0, 100.0]
    assert panel.total == 40


def test_the_reading_says_which_end_waits() -> None:
    rows = [examples.edge_row("a", "b", 100.0, 900.0), examples.edge_row("b", "c", 100.0, 110.0)]
    section = edges_section(examples.content(), pa.Table.from_pylist(rows))
    assert section.figures[0].reading == (
        "On 50 % of 2 edges the Recv takes more than 1.5 times as long as its counterpart: it waits for the sender."
    )
