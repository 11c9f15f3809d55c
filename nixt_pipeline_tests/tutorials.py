"""The commands and outputs of the tutorials: run them, compare them, and renew what the pages show.

`python -m nixt_pipeline_tests.tutorials` runs every tutorial in an empty directory and writes the outputs into its
page. It has `console` blocks (`$ command`, `> continued`, output) and `python` blocks, whose output is in the `text`
block that follows. `...` stands for any text. Only standard output is shown.
"""

import doctest
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))

_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PYTHON = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ (.*\n(?:> .*\n)*)((?:(?!\$ ).*\n)*)", re.MULTILINE)
# Times of the demo's logs are written otherwise.
_NOW = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")
_SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Example:
    """A command or program of a page: its shell command, the output that the page shows, and where that is."""

    command: str
    shown: str
    start: int
    end: int

    def agrees(self, output: str) -> bool:
        """Whether the page shows this output, `...` and white space aside."""
        return doctest.OutputChecker().check_output(self.shown, output, _SAME)


def examples(page: str) -> list[Example]:
    """The examples of a page, in its order."""
    found = [
        Example(
            match[1].replace("\n> ", "\n"), match[2], block.start(1) + match.start(2), block.start(1) + match.end(2)
        )
        for block in _CONSOLE.finditer(page)
        for match in _COMMAND.finditer(block[1])
    ]
    found += [
        Example(f"python - <<'END'\n{block[1]}END\n", block[2], block.start(2), block.end(2))
        for block in _PYTHON.finditer(page)
    ]
    return sorted(found, key=lambda example: example.start)


def run(page: str, directory: Path) -> Iterator[tuple[Example, str]]:
    """Run the examples of a page in `directory`, one after the other; yields each with its output."""
    exports = 'python() { "$PYTHON" "$@"; }\nnixt() { python -m nixt_pipeline.cli "$@"; }\n'
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("NIXT_")},
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }
    for example in examples(page):
        done = subprocess.run(
            ["bash", "-c", exports + example.command],
            cwd=directory, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if example.command.startswith("export "):
            exports += example.command
        yield example, _shown(done.stdout or (done.stderr if done.returncode else ""))


def renewed(page: str, directory: Path) -> str:
    """The page with the outputs of its examples; those that agree already keep their `...`."""
    for example, output in reversed([*run(page, directory)]):
        if not example.agrees(output):
            page = page[: example.start] + output + page[example.end :]
    return page


def _shown(output: str) -> str:
    """An output as a page shows it: without trailing space, and `...` for the time at which the example was run."""
    return "".join(f"{_NOW.sub('...', line).rstrip()}\n" for line in output.splitlines())


if __name__ == "__main__":
    for path in PAGES:
        with tempfile.TemporaryDirectory() as directory:
            path.write_text(renewed(path.read_text(encoding="utf-8"), Path(directory)), encoding="utf-8")
