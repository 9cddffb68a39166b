#!/usr/bin/env bash
# The tests against the real things: TensorFlow, TFDS, Pillow, h5py; PyTorch; JAX, Numba, mypy; ONNX Runtime, TensorBoard;
# webdataset, OpenCV; Ray and Dask; an S3 server. interop.sh BUILD
# Their venvs (about 2, 6, 1, 0.3, 0.1, 0.5 and 0.3 GB) lie outside the clone, in $PENSTOCK_CACHE or ~/.cache/penstock, keyed by their requirements: made
# once. One that cannot be made: a failure where CI=true, else its tests are skipped.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
cache=${PENSTOCK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/penstock}

# Prints the Python of the venv with these requirements, made if need be; nothing if it cannot be made.
environment() {
    local requirements=$here/tests/interop/$1 venv
    venv=$cache/venv-$(sha256sum "$requirements" | cut -c1-12)
    if [ ! -e "$venv/ready" ]; then
        echo "Making the environment of the interop tests in $venv ($1, once) …" >&2
        mkdir -p "$cache"
        exec 9>"$cache/lock"
        flock 9
        if [ ! -e "$venv/ready" ]; then
            rm -rf "$venv"
            if ! { python3 -m venv "$venv" && "$venv/bin/pip" install -q --disable-pip-version-check -r "$requirements"; } >&2; then
                rm -rf "$venv"
                [ "${CI:-}" = true ] && { echo "interop: the environment could not be made" >&2; exit 1; }
                echo "interop: the tests with $1 are skipped, as their environment could not be made (see above)" >&2
                return
            fi
            touch "$venv/ready"
        fi
        flock -u 9
    fi
    echo "$venv/bin/python"
}

PENSTOCK_INTEROP_PYTHON=$(environment requirements.txt)
PENSTOCK_INTEROP_TORCH=$(environment requirements-torch.txt)
PENSTOCK_INTEROP_JAX=$(environment requirements-jax.txt)
PENSTOCK_INTEROP_ONNX=$(environment requirements-onnx.txt)
PENSTOCK_INTEROP_WEBDATASET=$(environment requirements-webdataset.txt)
PENSTOCK_INTEROP_RAY=$(environment requirements-ray.txt)
PENSTOCK_INTEROP_S3=$(environment requirements-s3.txt)
export PENSTOCK_INTEROP_RAY PENSTOCK_INTEROP_S3
export PENSTOCK_INTEROP_PYTHON PENSTOCK_INTEROP_TORCH PENSTOCK_INTEROP_JAX PENSTOCK_INTEROP_ONNX PENSTOCK_INTEROP_WEBDATASET
exec python3 "$here/scripts/run_tests.py" "$build" --suite interop
