import click
import pytest
from click.testing import CliRunner

from nixt_pipeline.cli import main
from nixt_pipeline.cli.output import Format

FORMATS = {
    name: option.type
    for name, command in main.commands.items()
    for option in command.params
    if isinstance(option, click.Option) and "--format" in option.opts
}


def test_every_command_with_a_format_takes_it_from_the_same_few() -> None:
    assert {name for name, kind in FORMATS.items() if not isinstance(kind, Format)} == set()
    spelt = {choice for kind in FORMATS.values() if isinstance(kind, Format) for choice in kind.choices}
    assert spelt == {"text", "csv", "json", "markdown", "html", "pdf"}
    assert len(FORMATS) == 10


@pytest.mark.parametrize(("written", "meant"), [("md", "markdown"), ("table", "text"), ("json", "json")])
def test_earlier_spellings_are_understood(written: str, meant: str) -> None:
    assert Format(["text", "json", "markdown"]).convert(written, None, None) == meant


def test_an_unknown_format_names_the_known_ones() -> None:
    result = CliRunner().invoke(main, ["runs", "--format", "xml"])
    assert (result.exit_code, "'text', 'csv', 'json'" in result.stderr) == (2, True)
