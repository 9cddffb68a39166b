"""Penstock in the peer benchmark: pipelines through the C library by ctypes, packing through the tool.

Variant nosync of `pack`: publishes without fsync, as the peers write. PENSTOCK_BUILD names the build folder
(default: the one of this clone).
"""
import ctypes
import json
import os
import subprocess

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("PENSTOCK_BUILD", os.path.join(HERE, "..", "build"))
TOOL = os.path.join(BUILD, "cli", "penstock")

TEXTS = {
    "train_jpeg": "tfrecord '{data}/tfrecord/*.tfrecord' | shuffle | repeat | example 'image:bytes label:int64' | decode"
                  " | random_resized_crop 224 | flip | normalize imagenet | batch {batch} drop_remainder=true",
    "eval_jpeg": "tfrecord '{data}/tfrecord/*.tfrecord' | shuffle | repeat | example 'image:bytes label:int64' | decode"
                 " | resize short=256 | center_crop 224 | normalize imagenet | batch {batch} drop_remainder=true",
    "raw": "tfrecord '{data}/tfrecord-raw/*.tfrecord' | shuffle | repeat | example 'image:bytes label:int64'"
           " | decode format=raw shape=224x224x3 | batch {batch} drop_remainder=true",
    "small": "tfrecord '{data}/tfrecord-small/*.tfrecord' | shuffle | repeat | example 'x:float[32] label:int64'"
             " | batch {batch} drop_remainder=true",
    # Keras does not antialias either
    "directory": "folder '{data}/files' | shuffle | repeat | decode | resize 224 method=bilinear | cast f32"
                 " | batch {batch} drop_remainder=true",
}


class Tensor(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("rank", ctypes.c_uint32), ("shape", ctypes.c_uint64 * 8),
                ("data", ctypes.c_void_p), ("row_splits", ctypes.c_void_p)]


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("sys_errno", ctypes.c_int), ("op", ctypes.c_char * 32),
                ("path", ctypes.c_char * 192), ("record", ctypes.c_uint64), ("offset", ctypes.c_uint64),
                ("message", ctypes.c_char * 256)]


DTYPES = {2: np.uint8, 3: np.int32, 4: np.int64, 5: np.float16, 7: np.float32, 8: np.float64}


def version():
    return subprocess.run([TOOL, "version"], check=True, capture_output=True, text=True).stdout.strip()


def library():
    lib = ctypes.CDLL(os.path.join(BUILD, "src", "libpenstock.so.0"))
    lib.pst_batch_get.restype = ctypes.POINTER(Tensor)
    lib.pst_batch_get.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    lib.pst_batch_unref.argtypes = [ctypes.c_void_p]
    lib.pst_pipeline_next.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    return lib


def array(tensor):
    """The tensor's memory as a NumPy array, without a copy."""
    dtype = np.dtype(DTYPES[tensor.dtype])
    shape = tuple(tensor.shape[: tensor.rank])
    raw = (ctypes.c_uint8 * (int(np.prod(shape)) * dtype.itemsize)).from_address(tensor.data)
    return np.frombuffer(raw, dtype).reshape(shape)


def run(case, data, batch, variant):
    lib, pipeline, current, error = library(), ctypes.c_void_p(), ctypes.c_void_p(), Error()
    text = TEXTS[case].format(data=data, batch=batch)

    def check(status):
        if status:
            raise RuntimeError(f"{error.path.decode()}: {error.message.decode()}")

    check(lib.pst_pipeline_parse(ctypes.byref(pipeline), text.encode(), None, ctypes.byref(error)))
    field = b"x" if case == "small" else b"image"
    while True:
        check(lib.pst_pipeline_next(pipeline, ctypes.byref(current), ctypes.byref(error)))
        yield array(lib.pst_batch_get(current, field)[0]), array(lib.pst_batch_get(current, b"label")[0])
        lib.pst_batch_unref(current)


def pack(files, out, variant):
    """5000 files of class folders into 8 shards, their bytes untouched, with key, label and size."""
    command = [TOOL, "pack", files, os.path.join(out, "packed"), "--shards", "8", "--json"]
    if variant == "nosync":
        command.append("--no-sync")
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return report["records"], report["source_bytes"]
