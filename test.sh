#!/usr/bin/env bash
# Every check of this project: ./test.sh [arguments for pytest, e.g. -m 'not slow']
# Runs in the active virtual environment, else in .venv, which is created when it is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

if [[ -n ${VIRTUAL_ENV:-} ]]; then
    bin=$VIRTUAL_ENV/bin
    if ! "$bin/python" -c 'import dagster_duckdb, hypothesis, mypy, nixt_pipeline, pytest, sqlfluff, xdist' 2>/dev/null || [[ ! -x $bin/ruff ]]; then
        "$bin/python" -m pip install --quiet -r requirements.lock
        "$bin/python" -m pip install --quiet --no-deps --no-build-isolation -e .
    fi
else
    scripts/setup_venv.sh
    bin=.venv/bin
fi

# A style error does not hide the test results: everything runs, pytest last, and any failure fails the whole.
failed=()
"$bin/ruff" check . || failed+=("ruff check")
"$bin/ruff" format --check . || failed+=("ruff format")
"$bin/mypy" || failed+=("mypy")
"$bin/python" scripts/lint_sql.py || failed+=("scripts/lint_sql.py")
for check in "${failed[@]}"; do
    echo "FAILED: $check (see above)" >&2
done
"$bin/python" -m pytest -n 2 --dist loadfile --no-loadscope-reorder "$@" || exit
[[ ${#failed[@]} -eq 0 ]]
