#!/usr/bin/env bash
# How many small changes of the code the tests notice: scripts/mutation_testing.sh [PACKAGE...]
# Works in a copy, with a sample of the mutants: SEED=1 SAMPLE=100 (of each package) BUDGET_S=3600 (of all together).
# Needs cosmic-ray in the active environment: pip install -e '.[mutation]'
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! python -c "import cosmic_ray" 2>/dev/null; then
    echo "cosmic-ray is missing: pip install -e '.[mutation]'" >&2
    exit 2
fi
packages=("$@")
[[ $# -gt 0 ]] || packages=(diagnosis store quality)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$copy"
cd "$copy"
# The copy's modules, not those of the checkout that the environment was installed from.
export PYTHONPATH=$copy PYTHONDONTWRITEBYTECODE=1 OPENBLAS_NUM_THREADS=1
python -m benchmarks.mutation_testing --seed "${SEED:-1}" --sample "${SAMPLE:-100}" --budget "${BUDGET_S:-3600}" \
    "${packages[@]}"
