#!/usr/bin/env bash
# Create .venv and install the locked requirements and this project into it; does nothing when they are there already.
# Uses uv when it is installed, else python3 -m venv and pip.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv
stamp=$venv/.installed
wanted=$(cat requirements.lock pyproject.toml | sha256sum)
if [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then
    exit 0
fi

fail() {
    echo "$*" >&2
    exit 1
}

find_python() {
    local candidate
    for candidate in python3.13 python3.12 python3.11 python3; do
        if command -v "$candidate" >/dev/null &&
            "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    fail "No Python 3.11, 3.12 or 3.13 found. On Debian or Ubuntu: sudo apt-get install python3 python3-venv"
}

echo "Installing into $PWD/$venv (a few minutes the first time)"
if command -v uv >/dev/null; then
    [[ -x $venv/bin/python ]] || uv venv --quiet --python '>=3.11,<3.14' $venv
    uv pip install --quiet --python $venv/bin/python -r requirements.lock
    uv pip install --quiet --python $venv/bin/python --no-deps --no-build-isolation -e .
else
    python=$(find_python)
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        fail "$python cannot create virtual environments. On Debian or Ubuntu: sudo apt-get install python$version-venv"
    fi
    [[ -x $venv/bin/pip ]] || "$python" -m venv --clear $venv
    $venv/bin/pip install --quiet --disable-pip-version-check -r requirements.lock
    $venv/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
fi
echo "$wanted" >"$stamp"
