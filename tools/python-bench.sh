#!/usr/bin/env bash
# Measures small ops from Python beside upstream torch, in turn in one process, and merges rows into out/bench.json.
# The peer is installed once by benches/peers/setup.sh (about 3 GB); without it only ours is measured.
#
#   tools/python-bench.sh [FILE]
set -euo pipefail
cd "$(dirname "$0")/.."

export PYO3_PYTHON=${PYO3_PYTHON:-python3.11}
peer=$(benches/peers/setup.sh)
python=${peer:-$PYO3_PYTHON}
if [[ $("$python" -c 'import sys; print(sys.version_info[:2])') != "(3, 11)" ]]; then
    echo "python-bench: the peers' Python is not 3.11, for which the module is built; measuring without them" >&2
    python=$PYO3_PYTHON
fi
tools/python-build.sh --release
PYTHONPATH=python "$python" bindings/python/bench.py "${1:-out/bench.json}"
