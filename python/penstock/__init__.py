"""Penstock keeps model training fed: shuffled, decoded, augmented batches, as fast as the machine allows.

    import penstock as ps
    ds = ps.tfrecord("shards/").shuffle().example().decode().random_resized_crop(224).flip().normalize("imagenet").batch(64)
    for batch in ds:
        images, labels = batch                      # penstock.Tensor; torch.from_dlpack, numpy.asarray: no copy

Every operation of `penstock ops` is a method of Dataset, and every source is a function of this module, with the same names.
"""

import atexit as _atexit

from . import _core
from ._core import Batch, Error, Skip, Tensor
from ._dataset import AUTOTUNE, Dataset, Spec, from_arrays, from_files, from_generator, image_dataset_from_directory, pipeline
from ._fluent import SOURCES as _SOURCES
from ._model import Model, Weights
from ._records import Example, TFRecordReader, TFRecordWriter, pack

__version__ = _core.version
globals().update(_SOURCES)
__all__ = [
    "AUTOTUNE",
    "Batch",
    "Dataset",
    "Error",
    "Example",
    "Model",
    "Skip",
    "Spec",
    "TFRecordReader",
    "TFRecordWriter",
    "Tensor",
    "Weights",
    "from_arrays",
    "from_files",
    "from_generator",
    "image_dataset_from_directory",
    "pack",
    "pipeline",
    *_SOURCES,
]

_atexit.register(_core.shutdown)  # stops the workers before the interpreter shuts down
