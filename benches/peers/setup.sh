#!/usr/bin/env bash
# Makes the virtual environment of the benchmarks' peers (upstream PyTorch and transformers, about 3 GB to download) and prints
# its Python's path. Outside the tree, so that it survives `make clean`; made once. Where it cannot be made, one sentence
# on standard error says so and the exit status is 0: benchmarks then run without a peer.
#
#   benches/peers/setup.sh            make it if it is not there
#   benches/peers/setup.sh --check    only say whether it is there (status 1 if not)
set -euo pipefail

torch=2.13.0
transformers=5.24.0
peers=${LANTHORN_CACHE:-${HOME:-/tmp}/.cache/lanthorn}/peers
python=$peers/bin/python
# Written when the installation is complete; an interrupted one is made anew.
complete=$peers/torch-$torch-transformers-$transformers

if [[ -e $complete ]] && "$python" -c '' 2>/dev/null; then
    echo "$python"
    exit 0
fi
if [[ ${1:-} == --check ]]; then
    exit 1
fi

skip() {
    echo "peers: $1; benchmarks run without PyTorch" >&2
    exit 0
}

found=
for candidate in python3.11 python3.12 python3.13 python3; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then
        found=$candidate
        break
    fi
done
[[ -n $found ]] || skip "no Python 3.10 to 3.14 with venv on this machine"

log=$peers.log
mkdir -p "$(dirname "$peers")" 2>/dev/null || skip "$(dirname "$peers") cannot be written"
echo "peers: installing torch $torch and transformers $transformers into $peers (about 3 GB, once)" >&2
"$python" -c '' 2>/dev/null || rm -rf "$peers"
"$found" -m venv "$peers" >"$log" 2>&1 || skip "the virtual environment could not be made (see $log)"
"$python" -m pip install --quiet --no-cache-dir --disable-pip-version-check "torch==$torch" numpy \
    "transformers==$transformers" gguf==0.19.0 accelerate sentencepiece protobuf >>"$log" 2>&1 ||
    skip "torch $torch and transformers $transformers could not be installed (see $log)"
"$python" -c 'import torch, numpy, transformers, gguf' >>"$log" 2>&1 || skip "torch $torch does not start (see $log)"
touch "$complete"
echo "$python"
