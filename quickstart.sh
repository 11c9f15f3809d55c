#!/usr/bin/env bash
# From a fresh clone to a report:
#   ./quickstart.sh             a synthetic job with a late host
#   ./quickstart.sh DUMP_DIR    the NCCL Inspector logs in DUMP_DIR
set -euo pipefail

if [[ $# -gt 1 || ${1:-} == -* ]]; then
    echo "usage: $0 [DUMP_DIR]" >&2
    exit 2
fi
if [[ $# -eq 1 && ! -d $1 ]]; then
    echo "$0: no directory '$1'" >&2
    exit 2
fi
dump_dir=${1:+$(realpath -- "$1")}

cd "$(dirname "${BASH_SOURCE[0]}")"
scripts/setup_venv.sh
if [[ -z $dump_dir ]]; then
    report=$(.venv/bin/nixt demo)
else
    .venv/bin/nixt ingest "$dump_dir"
    report=$(.venv/bin/nixt report "$dump_dir")
fi
echo
echo "Report: $(realpath -- "$report")"
echo "Next:   .venv/bin/nixt --help"
