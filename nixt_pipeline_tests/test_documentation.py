"""The documentation names what there is: settings with their defaults, commands, files; and its examples run."""

import json
import re
from pathlib import Path

import click
import pytest

from nixt_pipeline import analyse_run, ingest_run, load_settings
from nixt_pipeline.cli import main
from nixt_pipeline.inspector.runs import RunInfo
from nixt_pipeline.simulation.demo import write_demo_job
from nixt_pipeline_tests import tutorials

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONCEPTS = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_command_is_in_the_readme_and_no_other_is_mentioned_anywhere() -> None:
    mentioned = {
        command
        for page in PAGES
        for command in re.findall(r"(?:`|^\.venv/bin/|bin/)nixt ([a-z]+)", page.read_text(encoding="utf-8"))
    }
    assert mentioned <= set(main.list_commands(click.Context(main)))
    assert set(re.findall(r"^\| `nixt ([a-z]+)", README, flags=re.MULTILINE)) == set(
        main.list_commands(click.Context(main))
    )


def test_the_example_of_run_json_is_valid() -> None:
    (example,) = (block for block in blocks(CONCEPTS, "json") if "parallelism" in block)
    info = RunInfo.model_validate(json.loads(example))
    assert (info.gpus, info.parallelism, info.model_extra) == (32, {"tp": 4, "pp": 2, "dp": 4}, {})


def test_an_example_is_a_command_with_the_output_that_follows() -> None:
    page = '```console\n$ one "\n> two"\nout\nput\n$ three\n```\n\n```python\nprint(4)\n```\n\n```text\n4\n```\n'
    assert [(example.command, example.shown) for example in tutorials.examples(page)] == [
        ('one "\ntwo"\n', "out\nput\n"),
        ("three\n", ""),
        ("python - <<'END'\nprint(4)\nEND\n", "4\n"),
    ]


def test_a_tutorial_is_renewed_where_it_is_wrong(tmp_path: Path) -> None:
    page = "```console\n$ export A=7\n$ echo $A\nold\n$ echo 12\n1...\n```\n"
    assert tutorials.renewed(page, tmp_path) == page.replace("old", "7")


@pytest.mark.slow
@pytest.mark.parametrize("page", tutorials.PAGES, ids=lambda page: page.stem)
def test_the_tutorials_show_what_their_commands_print(page: Path, tmp_path: Path) -> None:
    ran = [*tutorials.run(page.read_text(encoding="utf-8"), tmp_path)]
    assert ran
    wrong = [(example.command, output) for example, output in ran if not example.agrees(output)]
    assert wrong == [], "run: python -m nixt_pipeline_tests.tutorials"


@pytest.mark.slow
def test_the_python_examples_run(tmp_path: Path) -> None:
    settings = load_settings()  # the defaults, as for a reader who tries the examples
    directory = tmp_path / "nccl-inspector-41012"  # the run that the examples open
    write_demo_job(directory, hosts=4, gpus_per_host=2, steps=2)
    ingest_run(directory, settings)
    analyse_run("nccl-inspector-41012", settings)
    examples = [*blocks(README, "python"), *blocks(OPERATIONS, "python")]
    assert len(examples) == 2
    for example in examples:
        exec(example, {})
    assert (tmp_path / "reports" / "nccl-inspector-41012" / "index.html").exists()
