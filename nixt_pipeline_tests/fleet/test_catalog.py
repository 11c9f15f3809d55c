from pathlib import Path

import pyarrow.parquet as pq

from nixt_pipeline.api import analyse_run
from nixt_pipeline.fleet.catalog import RUN_CATALOG, update_run_catalog
from nixt_pipeline.settings import Settings
from nixt_pipeline.store import layout
from nixt_pipeline.store.ingest import ingest
from nixt_pipeline_tests.records import EPOCH_US, collective, write_log


def drop(settings: Settings, run: str, lines: int = 2) -> Path:
    """A job of one process: `lines` collectives of 1 MB in 100 us on a communicator of one rank."""
    directory = settings.landing_dir / run
    records = [collective(sn=n, n_ranks=1, at_us=EPOCH_US + n) for n in range(lines)]
    write_log(directory / "node-01-pid100.log", *records)
    return directory


def test_without_runs_the_catalog_is_empty(settings: Settings) -> None:
    assert update_run_catalog(settings).table.num_rows == 0
    assert pq.read_table(RUN_CATALOG.path(settings)).num_rows == 0


def test_a_run_is_one_row(settings: Settings) -> None:
    directory = drop(settings, "job")
    ingest(directory, "job", settings)
    analyse_run("job", settings)
    (row,) = update_run_catalog(settings).table.to_pylist()
    assert row["run"] == "job"
    assert row["source_dir"] == str(directory)
    assert (row["hosts"], row["processes"], row["communicators"], row["records"]) == (1, 1, 1, 2)
    assert (row["first_dump_us"], row["last_dump_us"]) == (EPOCH_US, EPOCH_US + 1)
    # Two messages of 1 MB; two times of 100 us; one rank logged both collectives.
    assert (row["payload_bytes"], row["rank_time_us"]) == (2e6, 200.0)
    assert (row["capture_rate"], row["complete_share"]) == (1.0, 1.0)
    assert row["analysed"]


def test_a_run_that_was_not_analysed_is_listed_as_such(settings: Settings) -> None:
    ingest(drop(settings, "job"), "job", settings)
    (row,) = update_run_catalog(settings).table.to_pylist()
    assert not row["analysed"]
    assert row["payload_bytes"] is None


def test_the_sidecar_names_the_run_and_its_model(settings: Settings) -> None:
    directory = drop(settings, "job")
    (directory / "run.json").write_text('{"name": "pretraining, week 3", "model": "7B"}', encoding="utf-8")
    ingest(directory, "job", settings)
    (row,) = update_run_catalog(settings).table.to_pylist()
    assert (row["name"], row["model"]) == ("pretraining, week 3", "7B")


def inferred(settings: Settings, **groups: list[list[int]]) -> object:
    """The parallelism that the catalog tells of a job with these communicators, by name: their ranks, once for each."""
    of_process: dict[int, list[str]] = {}
    for kind, (name, rows) in enumerate(groups.items()):
        for number, ranks in enumerate(rows):
            for rank, pid in enumerate(ranks):
                line = collective(comm=f"0x{kind}{number}", name=name, rank=rank, n_ranks=len(ranks), pid=pid)
                of_process.setdefault(pid, []).append(line)
    for pid, lines in of_process.items():
        write_log(settings.landing_dir / "job" / f"a-pid{pid}.log", *lines)
    ingest(settings.landing_dir / "job", "job", settings)
    return update_run_catalog(settings).table.to_pylist()[0]["parallelism"]


def test_gradients_over_data_and_context_parallelism_are_not_more_data_parallelism(settings: Settings) -> None:
    # Eight ranks: tensor 2, context 2, data 2; Megatron's group of gradients has four of them.
    assert inferred(
        settings,
        tp=[[0, 1], [2, 3], [4, 5], [6, 7]],
        cp=[[0, 2], [1, 3], [4, 6], [5, 7]],
        DATA_PARALLEL_GROUP_WITH_CP=[[0, 2, 4, 6], [1, 3, 5, 7]],
    ) == "tp=2 cp=2 dp=2"  # fmt: skip


def test_groups_of_an_embedding_are_no_pipelines(settings: Settings) -> None:
    assert inferred(settings, pp=[[0, 1, 2, 3]], EMBEDDING_GROUP=[[0, 3]], dp=[[0, 4]]) == "pp=4 dp=2"


def test_only_new_and_changed_runs_are_looked_at(settings: Settings) -> None:
    ingest(drop(settings, "first"), "first", settings)
    assert update_run_catalog(settings).renewed == ("first",)
    assert update_run_catalog(settings).renewed == ()
    ingest(drop(settings, "second"), "second", settings)
    assert update_run_catalog(settings).renewed == ("second",)
    ingest(drop(settings, "first", lines=3), "first", settings)
    grown = update_run_catalog(settings)
    assert grown.renewed == ("first",)
    assert dict(zip(grown.table["run"].to_pylist(), grown.table["records"].to_pylist(), strict=True)) == {
        "first": 3,
        "second": 2,
    }


def test_a_run_that_was_analysed_since_is_looked_at_again(settings: Settings) -> None:
    ingest(drop(settings, "job"), "job", settings)
    update_run_catalog(settings)
    analyse_run("job", settings)
    catalog = update_run_catalog(settings)
    assert catalog.renewed == ("job",)
    assert catalog.table["analysed"].to_pylist() == [True]


def test_a_run_that_is_gone_is_dropped(settings: Settings) -> None:
    ingest(drop(settings, "job"), "job", settings)
    update_run_catalog(settings)
    (layout.store_dir("job", settings) / layout.MANIFEST).unlink()
    assert update_run_catalog(settings).table.num_rows == 0


def test_the_largest_sequence_number_does_not_stop_the_catalog(settings: Settings) -> None:
    directory = settings.landing_dir / "job"
    write_log(directory / "node-01-pid100.log", collective(sn=1, n_ranks=8), collective(sn=2**62 - 1, n_ranks=8))
    ingest(directory, "job", settings)
    analyse_run("job", settings)
    (row,) = update_run_catalog(settings).table.to_pylist()
    assert 0 < row["capture_rate"] < 1e-15


def test_a_run_says_on_which_nodes_its_hosts_were(settings: Settings) -> None:
    directory = settings.landing_dir / "job"
    for number, (folder, host, pid) in enumerate(
        (("node=n17/", "pod-0", 7), ("node=n3/", "pod-1", 9), ("node=n3/", "pod-2", 7), ("node=n4/", "pod-2", 8))
    ):
        (directory / folder).mkdir(parents=True, exist_ok=True)
        record = collective(rank=number, n_ranks=4, host=host, pid=pid, at_us=EPOCH_US)
        write_log(directory / f"{folder}{host}-pid{pid}.log", record)
    (directory / "run.json").write_text('{"host_nodes": {"pod-1": "n30"}}', encoding="utf-8")
    ingest(directory, "job", settings)
    (row,) = update_run_catalog(settings).table.to_pylist()
    assert row["host_names"] == ["pod-0", "pod-1", "pod-2"]
    assert row["lowest_pids"] == [7, 9, 7]
    # What run.json says counts more than a folder; a name on two nodes is on none.
    assert row["node_names"] == ["n17", "n30", None]
