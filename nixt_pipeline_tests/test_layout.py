"""Imports go down, never up or in a circle, and the tests lie as the packages do."""

import ast
import re
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
# Within the diagnosis.
ROOMS = ("results", "diagnose", "registry", "attempts", "wording", "detectors", "evidence", "confidence", "findings")
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


def test_what_finds_does_not_word_and_what_is_evidence_is_not_judged() -> None:
    def room(module: str) -> int:
        return ROOMS.index(module.removeprefix("nixt_pipeline.diagnosis.").split(".")[0])

    within = {a: {b for b in imported if _in_diagnosis(b)} for a, imported in GRAPH.items() if _in_diagnosis(a)}
    assert [(a, b) for a, imported in within.items() for b in imported if room(a) > room(b)] == []


def _in_diagnosis(module: str) -> bool:
    return module.startswith("nixt_pipeline.diagnosis.")


def test_no_module_imports_itself_by_way_of_others() -> None:
    TopologicalSorter(GRAPH).prepare()


def test_detectors_and_wording_hold_no_sql() -> None:
    folders = (PACKAGE / "diagnosis" / "detectors", PACKAGE / "diagnosis" / "wording")
    assert not [path for folder in folders for path in folder.glob("*.py") if "duckdb" in path.read_text("utf-8")]


def test_tests_lie_as_the_packages_do() -> None:
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    assert {folder for folder in folders if not (PACKAGE / folder).is_dir()} <= {Path("evaluation")}


def test_no_test_module_imports_another() -> None:
    tests = {path: path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")}
    assert [
        path.name for path, text in tests.items() if re.search(r"^from nixt_pipeline_tests\S*\.test_", text, re.M)
    ] == []
