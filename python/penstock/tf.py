"""penstock.tf.dataset: a dataset as a tf.data.Dataset, for model.fit and everything else.

import penstock.tf
model.fit(penstock.tf.dataset(train), epochs=10)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from penstock import Dataset, Spec, Tensor


ALIGNMENT = 64  # TensorFlow aborts on memory that is not


def _signature(spec: Spec) -> Any:
    dtype = tf.string if spec.dtype == "bytes" else tf.as_dtype(spec.dtype)
    if len(spec.shape) > 1 and spec.shape[0] is None and spec.shape[1] is None:
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


def dataset(source: Dataset, *, as_dict: bool = False, prefetch: int | None = None) -> Any:
    """A real tf.data.Dataset: tuples of fields, or dicts. Iterating over it is iterating over `source`: an epoch each time."""
    names = list(source.element_spec)
    signature = {name: _signature(spec) for name, spec in source.element_spec.items()}
    ragged = any(isinstance(spec, tf.RaggedTensorSpec) for spec in signature.values())

    def values(value: Any) -> Any:
        if isinstance(value, Tensor) and (value.dtype in ("bytes", "bfloat16") or ragged):
            return tensor(value)
        return np.asarray(value)

    def generate() -> Iterator[Any]:
        for batch in source:
            if as_dict:
                yield {name: values(value) for name, value in batch.items()}
            else:
                yield tuple(values(value) for value in batch.values())

    output = signature if as_dict else tuple(signature[name] for name in names)
    result = tf.data.Dataset.from_generator(generate, output_signature=output)
    try:
        result = result.apply(tf.data.experimental.assert_cardinality(len(source)))
    except TypeError:  # endless or unknown
        pass
    return result.prefetch(tf.data.AUTOTUNE if prefetch is None else prefetch)
