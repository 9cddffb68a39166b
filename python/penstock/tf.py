"""penstock.tf.dataset: a dataset as a tf.data.Dataset, for model.fit and other uses.

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

ALIGNMENT = 64  # TensorFlow aborts if memory is not aligned to this

END_SECONDS, REST_SECONDS, RESTS = 10.0, 0.01, 8  # at exit: longest wait; pause between checks; idle checks in a row that suffice

_waiting: dict[int, Dataset] = {}  # by thread: the dataset that it waits for
_used = _ending = False


def _signature(spec: Spec, batched: bool) -> Any:
    dtype = tf.string if spec.dtype == "bytes" else tf.as_dtype(spec.dtype)
    if batched and len(spec.shape) > 1 and spec.shape[1] is None and None not in spec.shape[2:]:  # else all elements have one shape
        return tf.RaggedTensorSpec(spec.shape, dtype, ragged_rank=1, row_splits_dtype=tf.int64)
    return tf.TensorSpec(spec.shape, dtype)


def tensor(value: Any) -> Any:
    """Converts a field to a tf.Tensor. Fields of numbers share memory with the batch if TensorFlow allows it."""
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
    """Returns whether a thread of TensorFlow runs Python code."""
    known = {thread.ident for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread)}
    return any(thread not in known for thread in sys._current_frames())


def _end() -> None:
    """At exit, waits until TensorFlow's threads are idle. Otherwise the interpreter would stop them while they wait for a batch or
    for Python, and TensorFlow would wait for them when it deletes its iterators. (A Python generator that never becomes idle
    can still make TensorFlow hang at exit.)"""
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
    """Yields one epoch on a thread of TensorFlow; ends at exit."""
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
    """Returns a function that returns `source` without keeping its threads and memory alive.

    TensorFlow never releases a Python function that a tf.data.Dataset calls. So the function holds a copy: only the chain, unless it
    is iterated. The copy is needed if a tf.data.Dataset outlives its Python object, as a variant tensor."""
    living, spare = weakref.ref(source), copy.copy(source)

    def get() -> Dataset:
        found = living()
        return spare if found is None else found

    return get


def dataset(source: Dataset, *, as_dict: bool = False, prefetch: int = 2) -> Any:
    """Returns a tf.data.Dataset: tuples of fields without `key` (file names), or dicts of all fields. Each iteration over it is the
    next epoch of `source`.

    Fields of numbers share memory with the batch, also ragged ones. TensorFlow copies strings (fields of bytes), bfloat16, and
    results of map(…) after batch that are not aligned to 64 bytes. An error is raised as a tf.errors.OpError with the text of
    Penstock's error.

        prefetch: batches that TensorFlow holds in addition to the pipeline's; 0: none; tf.data.AUTOTUNE: chosen by TensorFlow
    """
    fields = source.element_spec
    signature = {name: _signature(spec, source._has_batches) for name, spec in fields.items()}
    ragged = any(isinstance(spec, tf.RaggedTensorSpec) for spec in signature.values())
    living = _kept_lightly(source)

    def values(value: Any) -> Any:
        # NumPy arrays are faster for TensorFlow's generators and are not copied either
        if isinstance(value, Tensor) and (value.dtype in ("bytes", "bfloat16") or ragged):
            return tensor(value)
        return tensor(value) if isinstance(value, (list, tuple, bytes)) else np.asarray(value)  # NumPy would cut b"a\0" short

    def generate() -> Iterator[Any]:
        for batch in _batches(living()):
            if as_dict:
                yield {name: values(value) for name, value in batch.items()}
            else:
                yield tuple(values(value) for value in batch)

    names = unpacked({name: spec.dtype == "bytes" for name, spec in fields.items()})
    output = signature if as_dict else tuple(signature[name] for name in names)
    result = tf.data.Dataset.from_generator(generate, output_signature=output)
    result.penstock_source = source  # keeps `source` alive as long as `result` and datasets made from it
    try:
        result = result.apply(tf.data.experimental.assert_cardinality(len(source)))
    except TypeError:  # endless or unknown
        pass
    return result.prefetch(prefetch) if prefetch else result
