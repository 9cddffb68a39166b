"""penstock.jax.iterator: batches as JAX arrays.

import penstock.jax
for images, labels in penstock.jax.iterator(dataset):
    ...
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from penstock import Dataset, Tensor


def array(value: Any) -> Any:
    """Converts a field to a jax.Array that shares memory with the batch on the CPU. Fields of bytes become lists; a ragged field
    becomes a pair of values and row splits. Unless jax_enable_x64 is set, JAX has no 64-bit types, and such fields are copied."""
    if isinstance(value, bytes):  # of an element without batch
        return value
    if not isinstance(value, Tensor):
        return jax.numpy.asarray(value)
    if value.dtype == "bytes":
        return value.tolist()
    if value.row_splits is not None:
        return array(value.values), array(value.row_splits)
    if value.dtype in ("int64", "float64") and not bool(getattr(jax.config, "jax_enable_x64")):
        return jax.numpy.asarray(np.asarray(value))
    return jax.dlpack.from_dlpack(value)


def _ready(value: Any, device: Any) -> Any:
    value = array(value)
    return value if device is None or isinstance(value, bytes) else jax.device_put(value, device)


def iterator(dataset: Dataset, *, as_dict: bool = False, device: Any = None) -> Iterator[Any]:
    """Yields one epoch of batches as tuples of jax.Arrays, without `key` (file names); as_dict: dicts of all fields; device: target."""
    for batch in dataset:
        if as_dict:
            yield {name: _ready(value, device) for name, value in batch.items()}
        else:
            yield tuple(_ready(value, device) for value in batch)
