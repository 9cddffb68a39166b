#!/bin/sh
# generate.sh BUILD: writes everything that is generated and checked in: the lists of operations and layers, docs/ops.md, docs/layers.md, the Python stubs
# and the public ABI.
# Tests fail where one of them is not current.
set -e
cd "$(dirname "$0")/.."
build=$1
new=$(mktemp)
trap 'rm -f "$new"' EXIT

# A file takes its place only when its generator succeeded, and keeps its time when nothing changed.
keep() {
    cmp -s "$new" "$1" || cat "$new" >"$1"
}

python3 scripts/list_ops.py
python3 scripts/list_layers.py
ninja -C "$build" | tail -n 1
"$build/cli/penstock" ops --markdown >"$new"
keep docs/ops.md
"$build/cli/penstock" model --layers --markdown >"$new"
keep docs/layers.md
PYTHONPATH="$build/python" python3 scripts/python_stubs.py >"$new"
keep python/penstock/__init__.pyi
python3 scripts/abi_dump.py "$build/src/libpenstock.so" >"$new"
keep tests/public/abi.txt
