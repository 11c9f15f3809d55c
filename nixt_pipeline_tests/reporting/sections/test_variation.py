import pyarrow as pa

from nixt_pipeline.reporting.sections.variation import draw_variation, variation_section, variations
from nixt_pipeline_tests.reporting import examples


def test_the_shares_of_the_variance_are_those_of_the_table() -> None:
    rows = [examples.variation_row("a", 0.5, 0.25, 0.1), examples.variation_row("b", 0.1, 0.5, None)]
    first, second = variations(pa.Table.from_pylist(rows))
    assert [first[name] for name in ("exec_time_cv", "share_between_ranks", "share_of_transfer")] == [0.5, 0.25, 0.1]
    assert second["share_of_transfer"] is None
    assert "<svg" in draw_variation((first, second), "variation")


def test_kernels_whose_times_do_not_vary_have_no_bars() -> None:
    table = pa.Table.from_pylist([examples.variation_row("a", 0.0, None, None)])
    section = variation_section(examples.content(), table)
    assert section.figures == ()
    assert section.notes == ("The times of all kernels are constant.",)


def test_the_reading_names_the_kernel_that_varies_most_and_why() -> None:
    rows = [examples.variation_row("a", 0.5, 0.25, 0.1), examples.variation_row("b", 0.7, 0.5, 0.9)]
    section = variation_section(examples.content(), pa.Table.from_pylist(rows))
    assert section.figures[0].reading == (
        "b varies most, with a coefficient of variation of 0.7; 90 % of the variance is that of the transfers, the "
        "rest is waiting."
    )
