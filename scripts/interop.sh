#!/usr/bin/env bash
# The tests against the real things: TensorFlow, TFDS, Pillow, h5py. interop.sh BUILD
# Their venv (about 2 GB) lies outside the clone, in $PENSTOCK_CACHE or ~/.cache/penstock, keyed by its requirements: made
# once. Without it: a failure where CI=true, else an offer.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
requirements=$here/tests/interop/requirements.txt
cache=${PENSTOCK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/penstock}
venv=$cache/venv-$(sha256sum "$requirements" | cut -c1-12)

if [ ! -e "$venv/ready" ]; then
    echo "Making the environment of the interop tests in $venv (once, about 2 GB) …"
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
    if [ ! -e "$venv/ready" ]; then
        rm -rf "$venv"
        if ! { python3 -m venv "$venv" && "$venv/bin/pip" install -q --disable-pip-version-check -r "$requirements"; }; then
            rm -rf "$venv"
            [ "${CI:-}" = true ] && { echo "interop: the environment could not be made" >&2; exit 1; }
            echo "interop: skipped, as the environment could not be made (see above)"
            exit 0
        fi
        touch "$venv/ready"
    fi
    flock -u 9
fi

PENSTOCK_INTEROP_PYTHON=$venv/bin/python exec python3 "$here/scripts/run_tests.py" "$build" --suite interop
