"""Runs one interop test in an environment that scripts/interop.sh made; skips with the remedy where there is none.

    run.py [torch | jax | onnx | webdataset | ray | s3] TEST [argument…]     (none of them: the environment with TensorFlow)
"""
import os
import sys

arguments = sys.argv[1:]
name = arguments.pop(0) if arguments[0] in ("torch", "jax", "onnx", "webdataset", "ray", "s3") else "python"
python = os.environ.get(f"PENSTOCK_INTEROP_{name.upper()}")
if not python:
    print("1..0 # SKIP no environment of frameworks: `make interop` makes it")
    sys.exit()
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0", CUDA_VISIBLE_DEVICES="", PYTHONDONTWRITEBYTECODE="1",
                  JAX_PLATFORMS="cpu")
os.execv(python, [python, *arguments])
