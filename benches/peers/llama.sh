#!/usr/bin/env bash
# Builds llama.cpp for this processor, as the Python package llama-cpp-python in a virtual environment of its own, and
# prints its Python's path. Some ten minutes on two cores, once. Where it cannot be made, one sentence on standard error
# says so and the exit status is 0: benchmarks then run without it.
#
#   benches/peers/llama.sh            make it if it is not there
#   benches/peers/llama.sh --check    only say whether it is there (status 1 if not)
set -euo pipefail

version=0.3.36
llama=${LANTHORN_CACHE:-${HOME:-/tmp}/.cache/lanthorn}/llamacpp-native
python=$llama/bin/python
complete=$llama/llama-cpp-python-$version

if [[ -e $complete ]] && "$python" -c '' 2>/dev/null; then
    echo "$python"
    exit 0
fi
if [[ ${1:-} == --check ]]; then
    exit 1
fi

skip() {
    echo "peers: $1; benchmarks run without llama.cpp" >&2
    exit 0
}

for program in gcc g++; do
    command -v "$program" >/dev/null || skip "there is no $program"
done
log=$llama.log
mkdir -p "$(dirname "$llama")" 2>/dev/null || skip "$(dirname "$llama") cannot be written"
echo "peers: building llama-cpp-python $version in $llama (some ten minutes, once)" >&2
rm -rf "$llama"
python3 -m venv "$llama" >"$log" 2>&1 || skip "the virtual environment could not be made (see $log)"
{
    "$python" -m pip install --quiet --disable-pip-version-check cmake ninja numpy &&
        CMAKE_ARGS="-DGGML_NATIVE=ON" PATH="$llama/bin:$PATH" "$python" -m pip install --quiet --no-cache-dir \
            --disable-pip-version-check --no-binary llama-cpp-python "llama-cpp-python==$version"
} >>"$log" 2>&1 || skip "llama-cpp-python $version could not be built (see $log)"
"$python" -c 'import llama_cpp' >>"$log" 2>&1 || skip "llama-cpp-python $version does not start (see $log)"
touch "$complete"
echo "$python"
