from dataclasses import replace

import pyarrow as pa
import pytest

from nixt_pipeline.inspector import taxonomy
from nixt_pipeline.inspector.inventory import Inventory, LogFile
from nixt_pipeline.quality.ingest import (
    INVENTORY_RULES,
    TYPING_RULES,
    VALIDATION_RULES,
    judge_inventory,
    judge_typing,
    judge_validation,
)
from nixt_pipeline.quality.verdicts import Verdict
from nixt_pipeline.store.accounts import IngestSummary

LOG = LogFile("node-01-pid1.log", 500, 0, "f", "none", "node-01", 1, None, None)
SUMMARY = IngestSummary(
    run="job",
    incarnations=1,
    files={"read": 1, "unchanged": 0, "empty": 0, "foreign": 0, "duplicate": 0, "unreadable": 0, "vanished": 0},
    records={"stored": 3, "collective": 2, "p2p": 1, "duplicate": 0},
    rejected_lines=0,
    foreign_lines=0,
    dropped_by_plugin=0,
    bytes={"read": 100, "stored": 90, "duplicate": 4, "rejected": 3, "foreign": 2, "blank": 1},
    seconds=0.1,
)
NO_REJECTS = taxonomy.schema(taxonomy.REJECT_COLUMNS).empty_table()
COMMUNICATOR = {
    "run": "job",
    "incarnation": 1,
    "id": "0xa",
    "comm_name": None,
    "n_ranks": 2,
    "nnodes": 1,
    "coll_type": "nvlink-only",
    "ranks_per_node": 2.0,
    "ranks_seen": 2,
    "hosts_seen": 1,
    "records": 10,
}
MEMBER = {"run": "job", "incarnation": 1, "id": "0xa", "n_ranks": 2, "nnodes": 1, "hostname": "h", "records": 5}
MEMBERS = [MEMBER | {"rank": 0, "pid": 1}, MEMBER | {"rank": 1, "pid": 2}]


def failing(verdicts: list[Verdict]) -> set[str]:
    return {verdict.rule for verdict in verdicts if not verdict.passed}


def inventory(*files: LogFile) -> list[Verdict]:
    return list(judge_inventory(Inventory("job", "/logs/job", files)))


def validation(summary: IngestSummary, problem: str | None = None) -> list[Verdict]:
    files = pa.table({"path": ["a.log"], "status": ["read"], "problem": pa.array([problem], pa.string())})
    return list(judge_validation(summary, files, NO_REJECTS))


def typing(
    communicators: list[dict[str, object]], members: list[dict[str, object]], incarnations: int = 1
) -> list[Verdict]:
    return list(
        judge_typing(
            pa.Table.from_pylist(communicators, schema=taxonomy.schema(taxonomy.COMMUNICATOR_COLUMNS)),
            pa.Table.from_pylist(members, schema=taxonomy.schema(taxonomy.MEMBERSHIP_COLUMNS)),
            incarnations,
        )
    )


def test_a_sound_inventory_passes_every_rule() -> None:
    verdicts = inventory(LOG)
    assert [verdict.rule for verdict in verdicts] == [rule.name for rule in INVENTORY_RULES]
    assert failing(verdicts) == set()


def test_a_directory_of_foreign_files_holds_no_logs() -> None:
    assert failing(inventory(replace(LOG, path="model.pt", foreign="no log by its name (.pt)"))) == {
        "the_directory_holds_log_files"
    }


def test_logs_and_other_files_are_counted() -> None:
    other = replace(LOG, path="model.pt", foreign="no log by its name (.pt)")
    assert inventory(LOG, replace(LOG, path="b.log"), other)[0].facts == {"log_files": 2, "other_files": 1}


def test_a_file_that_cannot_be_opened_is_named() -> None:
    verdicts = inventory(LOG, replace(LOG, path="b.log", unreadable="Permission denied"))
    assert failing(verdicts) == {"every_log_file_can_be_opened"}
    assert verdicts[1].rows == ({"path": "b.log", "problem": "Permission denied"},)


def test_an_empty_file_is_reported() -> None:
    assert failing(inventory(LOG, replace(LOG, path="b.log", size_bytes=0))) == {"no_log_file_is_empty"}


def test_a_sound_ingest_passes_every_rule() -> None:
    verdicts = validation(SUMMARY)
    assert [verdict.rule for verdict in verdicts] == [rule.name for rule in VALIDATION_RULES]
    assert failing(verdicts) == set()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"bytes": SUMMARY.bytes | {"stored": 89}}, "every_byte_is_accounted_for"),
        ({"records": SUMMARY.records | {"p2p": 2}}, "collective_and_p2p_records_add_up"),
        ({"rejected_lines": 1}, "no_line_is_rejected"),
        ({"records": SUMMARY.records | {"duplicate": 1}}, "no_record_is_logged_twice"),
        ({"dropped_by_plugin": 5}, "the_plugin_lost_no_records"),
        (
            {"records": {"stored": 0, "collective": 0, "p2p": 0, "duplicate": 0}},
            "at_least_one_record_is_readable",
        ),
    ],
)
def test_an_ingest_with_one_fault_fails_exactly_that_rule(change: dict[str, object], rule: str) -> None:
    assert failing(validation(replace(SUMMARY, **change))) == {rule}  # type: ignore[arg-type]


def test_a_damaged_file_is_not_read_to_its_end() -> None:
    assert failing(validation(SUMMARY, problem="gzip ends early")) == {"every_file_is_read_to_its_end"}


def test_the_missing_bytes_are_counted() -> None:
    verdicts = validation(replace(SUMMARY, bytes=SUMMARY.bytes | {"stored": 80}))
    (verdict,) = [verdict for verdict in verdicts if not verdict.passed]
    # 100 - (80 + 4 + 3 + 2 + 1)
    assert verdict.summary == "100 bytes read, 10 unaccounted for"


def test_sound_communicators_pass_every_rule() -> None:
    verdicts = typing([COMMUNICATOR], MEMBERS)
    assert [verdict.rule for verdict in verdicts] == [rule.name for rule in TYPING_RULES]
    assert failing(verdicts) == set()


def test_a_communicator_listed_twice_is_found() -> None:
    assert failing(typing([COMMUNICATOR, COMMUNICATOR], MEMBERS)) == {"every_communicator_is_listed_once"}


def test_missing_ranks_are_counted_over_all_communicators() -> None:
    verdicts = typing([COMMUNICATOR | {"n_ranks": 8}, COMMUNICATOR | {"id": "0xb"}], MEMBERS)
    assert failing(verdicts) == {"every_rank_of_every_communicator_reports"}
    assert verdicts[1].facts == {"ranks_missing": 6, "communicators": 1}


def test_a_rank_claimed_by_two_processes_is_found() -> None:
    members = [*MEMBERS, MEMBER | {"rank": 1, "pid": 3}]
    assert failing(typing([COMMUNICATOR], members)) == {"every_rank_is_one_process"}


def test_a_rank_beyond_its_communicator_is_found() -> None:
    members = [*MEMBERS, MEMBER | {"rank": 7, "pid": 3}]
    assert failing(typing([COMMUNICATOR], members)) == {"every_rank_is_one_process"}


def test_two_launches_in_one_directory_are_reported() -> None:
    assert failing(typing([COMMUNICATOR], MEMBERS, incarnations=2)) == {"all_records_come_from_one_launch"}


def test_the_books_are_told_in_numbers() -> None:
    def told(summary: IngestSummary) -> dict[str, str]:
        return {verdict.rule: verdict.summary for verdict in validation(summary)}

    sound = told(SUMMARY)
    assert sound["every_byte_is_accounted_for"] == "100 bytes read, all accounted for"
    assert sound["collective_and_p2p_records_add_up"] == "2 collectives + 1 point-to-point = 3 stored"
    wrong = told(replace(SUMMARY, records=SUMMARY.records | {"stored": 5}, bytes=SUMMARY.bytes | {"read": 107}))
    assert wrong["every_byte_is_accounted_for"] == "107 bytes read, 7 unaccounted for"
    assert wrong["collective_and_p2p_records_add_up"] == "2 of 5 stored records are of no kind or of two"
