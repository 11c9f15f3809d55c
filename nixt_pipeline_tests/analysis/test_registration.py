"""A new analysis is one module and one line: with its line in `ANALYSES`, everything else knows it."""

import subprocess
import sys
from pathlib import Path

import pytest

from nixt_pipeline_tests.records import collective, write_log

# The line is added before anything that reads `ANALYSES` is imported, as if it stood in the source.
PROGRAM = """
import sys
from nixt_pipeline import analysis
from nixt_pipeline.analysis.columns import RECORDS, event
from nixt_pipeline.inspector.taxonomy import RUN

by_function = analysis.Analysis(
    name="by_function",
    version="1",
    title="Records of functions",
    question="How many records has each function?",
    reading="More records are more calls.",
    columns=(RUN, *event("coll"), RECORDS),
    key=("coll",),
    adds_up_to="events",
    sql="SELECT any_value(run) AS run, coll, count(*) AS records FROM events GROUP BY coll ORDER BY coll",
    highlights=lambda rows: {"functions": len(rows)},
)
analysis.ANALYSES += (by_function,)
analysis.REPORTED += (by_function,)

from click.testing import CliRunner
from nixt_pipeline.analysis.reference import analyses_reference
from nixt_pipeline.cli import main
from nixt_pipeline.definitions import defs

for arguments in (["report", sys.argv[1]], ["sql", "SELECT coll, records FROM by_function", "--format", "csv"]):
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
assert result.stdout.splitlines() == ["coll,records", "AllReduce,3"], result.stdout
page = open("reports/job/index.html", encoding="utf-8").read()
assert 'id="by-function"' in page and "How many records has each function?" in page
assert "by_function.csv" in page
names = {key.to_user_string() for key in defs.resolve_job_def("ingest_run").asset_layer.executable_asset_keys}
assert "by_function" in names
checked = {spec.name for checks in defs.asset_checks for spec in checks.check_specs
           if spec.asset_key.to_user_string() == "by_function"}
assert checked == {
    "every_row_is_one_group", "every_record_is_counted_once", "the_analysis_could_be_computed"
}, checked
assert "## by_function" in analyses_reference()
"""


@pytest.mark.slow
def test_one_line_makes_an_analysis_known_everywhere(tmp_path: Path) -> None:
    write_log(tmp_path / "job" / "node-01-pid1.log", *(collective(sn=n) for n in range(3)))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "job")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
