"""`nixt.toml` holds for its directory and those below; names that are mistakes are reported."""

import os
import re
from pathlib import Path

import pytest

from nixt_pipeline.settings import SettingsError, doubts, load_settings


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with a `nixt.toml`, and one in it."""
    (tmp_path / "shared" / "deep" / "er").mkdir(parents=True)
    (tmp_path / "shared" / "nixt.toml").write_text('data_dir = "store"\nnode_map = "nodes.json"\n')
    return tmp_path / "shared"


@pytest.mark.parametrize("below", [".", "deep", "deep/er"])
def test_the_store_is_the_same_from_every_directory_below(
    project: Path, below: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project / below)
    settings = load_settings()
    assert (settings.data_dir, settings.node_map) == (project / "store", project / "nodes.json")
    # What the file leaves out is beside it as well.
    assert (settings.reports_dir, settings.landing_dir) == (project / "reports", project / "data" / "landing")


def test_the_nearest_file_counts(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "deep" / "nixt.toml").write_text('reports_dir = "/srv/reports"\n')
    monkeypatch.chdir(project / "deep" / "er")
    settings = load_settings()
    assert (settings.reports_dir, settings.data_dir) == (Path("/srv/reports"), project / "deep" / "data")


def test_a_path_in_the_environment_is_relative_to_the_working_directory(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project / "deep")
    monkeypatch.setenv("NIXT_DATA_DIR", "here")
    assert load_settings().data_dir.absolute() == project / "deep" / "here"


def test_without_a_file_everything_is_in_the_working_directory() -> None:
    settings = load_settings()
    assert (settings.data_dir, settings.reports_dir) == (Path("data"), Path("reports"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_that_anybody_may_have_put_there_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project / "deep")
    os.chown(project / "nixt.toml", 12345, -1)
    assert load_settings().data_dir == project / "store"  # the directory is not open to everybody
    project.chmod(0o1777)
    with pytest.raises(SettingsError, match=f"{project}/nixt.toml belongs to another user"):
        load_settings()


@pytest.mark.parametrize("text", ["workers = ", 'workers = "\udcff"', "workers = 1\nworkers = 2"])
def test_a_file_that_is_not_toml_is_named(project: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "nixt.toml").write_text(text, errors="surrogateescape")
    monkeypatch.chdir(project / "deep")
    with pytest.raises(SettingsError, match=f"cannot read {project}/nixt.toml: "):
        load_settings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workers = 0", r"setting 'workers': .* \(got 0\); correct {file}"),
        ("landing = 'x'", r"there is no setting 'landing', which {file} names; did you mean landing_dir\?"),
        ("thresholds = 3", r"setting 'thresholds': .* correct {file}"),
        ("[thresholds.diagnosis]\nmin_bloks = 3", r"did you mean thresholds.diagnosis.min_blocks\?"),
    ],
)
def test_a_wrong_value_in_the_file_is_named_with_the_file(
    project: Path, text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "nixt.toml").write_text(text)
    monkeypatch.chdir(project / "deep")
    with pytest.raises(SettingsError, match=message.format(file=re.escape(f"{project}/nixt.toml"))):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("NIXT_WORKERS", "none", "setting 'workers': .*; correct NIXT_WORKERS"),
        ("NIXT_FINISHED_MARKERS", "done", "finished_markers.*lists are written as JSON"),
        ("NIXT_THRESHOLDS__DIAGNOSIS__MIN_BLOCKS", "few", "correct NIXT_THRESHOLDS__DIAGNOSIS__MIN_BLOCKS"),
    ],
)
def test_a_wrong_value_in_the_environment_is_named(
    name: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=message):
        load_settings()


def test_variables_that_are_not_settings_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIXT_CORPUS", "/whole/jobs")  # for the tests of this package
    monkeypatch.setenv("NIXT_WORKERS", "2")
    monkeypatch.setenv("NIXT_DATADIR", "/srv")
    monkeypatch.setenv("NIXT_FROBNICATE", "1")
    assert doubts() == [
        "NIXT_DATADIR is not a setting and is ignored; did you mean NIXT_DATA_DIR?",
        "NIXT_FROBNICATE is not a setting and is ignored",
    ]


def test_former_names_are_reported(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "nixt.toml").write_text("[thresholds]\nmin_blocks = 4\ncomparison_margin = 0.1\n")
    monkeypatch.chdir(project)
    monkeypatch.setenv("NIXT_THRESHOLDS__MIN_BLOCKS", "5")
    assert doubts() == [
        "NIXT_THRESHOLDS__MIN_BLOCKS is called NIXT_THRESHOLDS__DIAGNOSIS__MIN_BLOCKS now",
        f"{project}/nixt.toml: thresholds.min_blocks is called thresholds.diagnosis.min_blocks now",
        f"{project}/nixt.toml: thresholds.comparison_margin is called thresholds.comparison.margin now",
    ]
    thresholds = load_settings().thresholds
    assert (thresholds.diagnosis.min_blocks, thresholds.comparison.margin) == (5, 0.1)


@pytest.mark.parametrize("text", ["thresholds = 3", "thresholds = "])
def test_a_broken_file_hides_no_doubt_about_the_environment(
    project: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "nixt.toml").write_text(text)
    monkeypatch.chdir(project)
    monkeypatch.setenv("NIXT_FROBNICATE", "1")
    assert doubts() == ["NIXT_FROBNICATE is not a setting and is ignored"]
