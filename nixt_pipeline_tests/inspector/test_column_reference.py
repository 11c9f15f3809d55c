"""The page of columns is complete and not older than the taxonomy."""

from pathlib import Path

import pyarrow as pa

from nixt_pipeline.inspector import column_reference
from nixt_pipeline.inspector.taxonomy import TABLES, Role

COMMITTED = Path(__file__).parents[2] / "docs" / "columns.md"


def test_the_committed_page_is_up_to_date() -> None:
    command = "python -m nixt_pipeline.inspector.column_reference > docs/columns.md"
    assert COMMITTED.read_text(encoding="utf-8") == column_reference.column_reference(), f"run: {command}"


def test_every_table_says_what_a_row_is_and_every_role_what_it_means() -> None:
    assert set(column_reference.GRAINS) == set(TABLES)
    assert set(column_reference.ROLES) == set(Role)


def test_a_column_is_one_row_with_type_unit_role_and_meaning() -> None:
    # From the taxonomy: Column("hostname", STRING, ID, "", "Host name as written") and the cells' shortest time.
    lines = column_reference.column_reference().splitlines()
    assert "| `hostname` | string |  | Identifier | Host name as written |" in lines
    assert (
        "| `min_exec_time_us` | double | us | Measurement | "
        "Shortest time: of the last rank to arrive, closest to the transfer |"
    ) in lines


def test_list_columns_are_readable() -> None:
    assert column_reference._type_name(pa.list_(pa.int64())) == "list of int64"
