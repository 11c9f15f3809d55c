import subprocess
import sys

import click
import duckdb
import pytest
from click.testing import CliRunner

from nixt_pipeline.cli import main
from nixt_pipeline.cli.output import Format, InputError, input_errors

CONTEXT = click.Context(main)
COMMANDS = {name: main.get_command(CONTEXT, name) for name in main.list_commands(CONTEXT)}
FORMATS = {
    name: option.type
    for name, command in COMMANDS.items()
    for option in (command.params if command else ())
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


def test_the_list_of_commands_says_what_each_says_of_itself() -> None:
    listed = CliRunner().invoke(main, ["--help"], terminal_width=110).output
    for name, command in COMMANDS.items():
        assert command is not None
        assert f"{name:<9}  {command.get_short_help_str(80)}\n" in listed
    assert CliRunner().invoke(main, ["nothing"]).exit_code == 2


def test_help_imports_none_of_the_libraries_that_commands_need() -> None:
    program = (
        "import sys, nixt_pipeline.cli; print({'duckdb', 'pyarrow', 'pandas', 'numpy', 'pydantic'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout == b"set()\n"


def test_only_a_database_that_cannot_write_is_an_error_of_the_storage() -> None:
    words = "Permission denied"
    with pytest.raises(InputError, match="NIXT_DATA_DIR"), input_errors():
        raise duckdb.IOException(words)
    # A defect that quotes a log is none.
    with pytest.raises(ValueError, match=words), input_errors():
        raise ValueError(words)
