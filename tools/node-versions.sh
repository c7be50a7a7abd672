#!/usr/bin/env bash
# Prints the path of a Node of each major version named, a line each: tools/node-versions.sh 22 24. They come from npm, once,
# into the cache outside the tree. A version that cannot be had is named on standard error and left out.
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/lanthorn
case $(uname -s) in
    Linux) system=linux ;;
    Darwin) system=darwin ;;
    *) echo "node-versions: npm has no Node for $(uname -s)" >&2; exit ;;
esac
case $(uname -m) in
    x86_64) machine=x64 ;;
    aarch64 | arm64) machine=arm64 ;;
    *) echo "node-versions: npm has no Node for $(uname -m)" >&2; exit ;;
esac
package=node-$system-$machine

for major in "$@"; do
    folder=$cache/node-$major
    node=$folder/node_modules/$package/bin/node
    if [[ ! -x $node ]]; then
        mkdir -p "$folder"
        npm install --loglevel=error --prefix "$folder" --no-audit --no-fund "$package@$major" >&2 || true
    fi
    if [[ -x $node && $("$node" --version) == "v$major."* ]]; then
        echo "$node"
    else
        echo "node-versions: $package@$major cannot be had from npm" >&2
    fi
done
