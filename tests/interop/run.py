"""Runs one interop test in the environment that scripts/interop.sh made; skips with the remedy where there is none."""
import os
import sys

python = os.environ.get("PENSTOCK_INTEROP_PYTHON")
if not python:
    print("1..0 # SKIP no environment of frameworks: `make interop` makes it")
    sys.exit()
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0", CUDA_VISIBLE_DEVICES="", PYTHONDONTWRITEBYTECODE="1")
os.execv(python, [python, *sys.argv[1:]])
