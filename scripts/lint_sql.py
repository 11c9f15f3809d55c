#!/usr/bin/env python3
"""Lint the SQL of the package with sqlfluff, by the rules in pyproject.toml; exits with 1 when one is broken.

    scripts/lint_sql.py

Texts are found in the source by their first word and completed with the constants that they name. Values are bound, so
a number takes the place of each `$name`. What a template is filled with is replaced: alone in brackets by a query,
alone in a line (a clause, a CTE) by nothing, elsewhere by its name. Texts composed of what only a function knows are
left out.
"""

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from sqlfluff.core import FluffConfig, Linter

ROOT = Path(__file__).resolve().parents[1]
# Whether a template uses a CTE shows only when it is filled.
_UNUSED_CTE = "ST03"
_IS_SQL = re.compile(r"(\s|--[^\n]*\n)*(WITH|SELECT|FROM|CREATE|INSERT|DELETE|COPY|SET|DROP)\s")


def completed(node: ast.Constant | ast.JoinedStr, module: str) -> str | None:
    """The text of a string, or of an f-string whose parts are constants of its module; None for all but SQL."""
    first = node.values[0] if isinstance(node, ast.JoinedStr) else node
    if not (isinstance(first, ast.Constant) and isinstance(first.value, str) and _IS_SQL.match(first.value)):
        return None
    if node is first:
        return first.value
    try:
        return str(eval(compile(ast.Expression(node), module, "eval"), vars(importlib.import_module(module))))
    except NameError:
        return None


def strings(tree: ast.AST) -> Iterator[ast.Constant | ast.JoinedStr]:
    """The strings and f-strings of a module, without docstrings and the pieces of f-strings."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr):
            yield node
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            yield from strings(node)


def with_values(sql: str) -> str:
    """The text with something in the place of bound parameters and of what a template is filled with."""
    sql = re.sub(r"\$\w+", "1", sql)
    sql = re.sub(r"\(\{\w+\}\)", "(SELECT 1)", sql)
    sql = re.sub(r"^ *\{\w+\}[,;]?$", "", sql, flags=re.MULTILINE)
    return re.sub(r"\{(\w+)\}", r"\1", sql).strip() + "\n"


def sql_texts(package: Path) -> Iterator[tuple[Path, int, str]]:
    """Every SQL text below `package`, with its file and the line that it begins in."""
    for path in sorted(package.rglob("*.py")):
        module = ".".join(path.relative_to(package.parent).with_suffix("").parts)
        for node in strings(ast.parse(path.read_text(encoding="utf-8"))):
            text = completed(node, module)
            if text is not None:
                yield path, node.lineno, text


def main() -> int:
    """Print each broken rule with the place of its text; returns the exit code."""
    sys.path.insert(0, str(ROOT))  # this checkout, whichever is installed
    linter = Linter(FluffConfig.from_path(str(ROOT)))
    texts = broken = 0
    for path, line, sql in sql_texts(ROOT / "nixt_pipeline"):
        texts += 1
        for violation in linter.lint_string(with_values(sql)).get_violations():
            if violation.rule_code() == _UNUSED_CTE and "{" in sql:
                continue
            broken += 1
            place = f"{path.relative_to(ROOT)}:{line}, line {violation.line_no} of the text"
            print(f"{place}: {violation.rule_code()} {violation.desc()}")
    print(f"{texts} SQL texts, {broken} rules broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
