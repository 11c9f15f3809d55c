"""Imports go down, never up or in a circle, and the tests lie as the packages do."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import nixt_pipeline

PACKAGE = Path(nixt_pipeline.__file__).parent
TESTS = Path(__file__).parent
# From the top floor down. What is not named, such as `errors`, is below all of them.
FLOORS = (
    "cli", "definitions", "defs", "api", "pipeline", "reporting", "quality", "fleet", "diagnosis", "analysis", "store",
    "demo", "simulation", "quantities", "inspector",
)  # fmt: skip
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


def imports(path: Path) -> Iterator[str]:
    """The modules of the package that a module imports, at its top or later; what is for types alone is left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        inner for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node not in for_types and (node.module or "") in MODULES:
            for name in node.names:
                module = f"{node.module}.{name.name}"
                yield module if module in MODULES else str(node.module)


GRAPH = {name: {*imports(path)} - {name} for name, path in MODULES.items()}


def floor(module: str) -> int:
    """0 for the top; what is not named is the lowest."""
    part = module.split(".")[1] if "." in module else ""
    return FLOORS.index(part) if part in FLOORS else len(FLOORS)


def test_packages_import_only_what_is_below_them() -> None:
    # The package itself shows what notebooks use, and the page of the API shows the package.
    above = {"nixt_pipeline", "nixt_pipeline.api_reference"}
    upwards = [(a, b) for a, imported in GRAPH.items() for b in imported if floor(a) > floor(b) and a not in above]
    assert upwards == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    TopologicalSorter(GRAPH).prepare()


def test_tests_lie_as_the_packages_do() -> None:
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    assert {folder for folder in folders if not (PACKAGE / folder).is_dir()} <= {Path("evaluation")}
