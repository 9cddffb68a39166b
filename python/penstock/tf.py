"""penstock.tf.dataset: a dataset as a tf.data.Dataset, for model.fit and everything else.

import penstock.tf
model.fit(penstock.tf.dataset(train), epochs=10)
"""

from __future__ import annotations

import atexit
import copy
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from penstock import Dataset, Error, Spec, Tensor
from penstock._unpack import unpacked

ALIGNMENT = 64  # TensorFlow aborts on memory that is not

END_SECONDS, REST_SECONDS, RESTS = 10.0, 0.01, 8  # at exit: at most so long; what is at rest that often in a row stays there

_waiting: dict[int, Dataset] = {}  # by thread: what it waits for
_used = _ending = False


def _signature(spec: Spec) -> Any:
    dtype = tf.string if spec.dtype == "bytes" else tf.as_dtype(spec.dtype)
    if len(spec.shape) > 1 and spec.shape[1] is None and None not in spec.shape[2:]:  # else all elements have one shape
        return tf.RaggedTensorSpec(spec.shape, dtype, ragged_rank=1, row_splits_dtype=tf.int64)
    return tf.TensorSpec(spec.shape, dtype)


def tensor(value: Any) -> Any:
    """A field as a tf.Tensor; fields of numbers share memory with the batch where TensorFlow allows it."""
    if not isinstance(value, Tensor):
        return tf.convert_to_tensor(value)
    if value.row_splits is not None:
        return tf.RaggedTensor.from_row_splits(tensor(value.values), tensor(value.row_splits), validate=False)
    if value.dtype == "bytes":
        return tf.constant(value.tolist(), shape=value.shape, dtype=tf.string)
    if value.data_ptr() % ALIGNMENT:
        return tf.constant(np.asarray(value))
    return tf.experimental.dlpack.from_dlpack(value.__dlpack__())


def _in_python() -> bool:
    """Whether one of TensorFlow's threads runs Python code, ours or TensorFlow's own."""
    known = {thread.ident for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread)}
    return any(thread not in known for thread in sys._current_frames())


def _end() -> None:
    """At exit: lets TensorFlow's threads come to rest. The interpreter's end would stop them wherever they wait for a batch or
    for Python, and TensorFlow would wait for them when it ends its iterators. (A generator of Python's own that never rests
    can hang TensorFlow's exit in that way.)"""
    global _ending
    _ending = True
    until, rest = time.monotonic() + END_SECONDS, 0
    while _used and rest < RESTS and time.monotonic() < until:
        for source in list(_waiting.values()):
            source.cancel()
        rest = 0 if _waiting or _in_python() else rest + 1
        time.sleep(REST_SECONDS)


atexit.register(_end)


def _batches(source: Dataset) -> Iterator[Any]:
    """An epoch, for a thread of TensorFlow's: ends at exit."""
    global _used
    _used = True
    batches: Iterator[Any] | None = None
    while True:
        thread = threading.get_ident()
        _waiting[thread] = source
        try:
            if _ending:
                return
            batches = batches or iter(source)
            batch = next(batches, None)
        except Error:
            if _ending:
                return
            raise
        finally:
            del _waiting[thread]
        if batch is None:
            return
        yield batch


def _kept_lightly(source: Dataset) -> Callable[[], Dataset]:
    """A function that gives `source`, without keeping its threads and memory alive.

    TensorFlow never lets go of a Python function that a tf.data.Dataset calls. What stays is a copy: the chain alone, as long as
    nobody iterates over it. It is needed where a tf.data.Dataset outlives its Python object, as a variant tensor."""
    living, spare = weakref.ref(source), copy.copy(source)

    def get() -> Dataset:
        found = living()
        return spare if found is None else found

    return get


def dataset(source: Dataset, *, as_dict: bool = False, prefetch: int = 2) -> Any:
    """A real tf.data.Dataset: tuples of fields without `key`, the names of files, or dicts of all fields. Iterating over it is iterating over `source`: an epoch each time.

    Fields of numbers share memory with the batch, ragged ones too. TensorFlow copies strings (fields of bytes), bfloat16, and
    what map(…) behind batch returns where that is not aligned to 64 bytes. An error arrives as a tf.errors.OpError with our
    text.

        prefetch: batches that TensorFlow holds beside those of the pipeline; 0: none; tf.data.AUTOTUNE: as many as it likes
    """
    fields = source.element_spec
    signature = {name: _signature(spec) for name, spec in fields.items()}
    ragged = any(isinstance(spec, tf.RaggedTensorSpec) for spec in signature.values())
    living = _kept_lightly(source)

    def values(value: Any) -> Any:
        # NumPy's arrays are the quicker way for TensorFlow's generators, and are not copied either
        if isinstance(value, Tensor) and (value.dtype in ("bytes", "bfloat16") or ragged):
            return tensor(value)
        return tensor(value) if isinstance(value, (list, tuple)) else np.asarray(value)  # NumPy would cut b"a\0" short

    def generate() -> Iterator[Any]:
        for batch in _batches(living()):
            if as_dict:
                yield {name: values(value) for name, value in batch.items()}
            else:
                yield tuple(values(value) for value in batch)

    names = unpacked({name: spec.dtype == "bytes" for name, spec in fields.items()})
    output = signature if as_dict else tuple(signature[name] for name in names)
    result = tf.data.Dataset.from_generator(generate, output_signature=output)
    result.penstock_source = source  # lives as long as this, and as what is made of it
    try:
        result = result.apply(tf.data.experimental.assert_cardinality(len(source)))
    except TypeError:  # endless or unknown
        pass
    return result.prefetch(prefetch) if prefetch else result
