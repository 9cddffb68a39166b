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
from ._compress import Compressed, compress
from ._dataset import AUTOTUNE, Dataset, Spec, from_arrays, from_files, from_generator, image_dataset_from_directory, load_plugin, pipeline
from ._doctor.answer import Answer
from ._fluent import SOURCES as _SOURCES
from ._joins import JOINS as _JOINS
from ._layers import Layers, layers
from ._model import Model, Weights
from ._records import Example, TFRecordReader, TFRecordWriter, pack
from ._tape import GradientTape, function, losses, optimizers


def doctor(loader, step=None, data=None, **options):
    """Says why training is slow, and what each remedy would bring. The result prints as the answer; to_dict(), save("report.html").

        loader: any iterable of batches: torch DataLoader, tf.data.Dataset, Keras PyDataset, Grain, a Dataset, a generator
        step: the training step, called with one batch; None: only the loader is measured
        data: the files that the loader reads; the equivalent penstock pipeline is then written and measured
        seconds=12: time for all measurements; epochs, samples: size of the real training; verify=True: try remedies out

    Example:

        print(ps.doctor(loader, step=train_step, data="photos/"))
    """
    from ._doctor.run import doctor as run

    return run(loader, step, data, **options)


def configure_store(*, endpoint=None, region=None, access_key=None, secret_key=None, session_token=None, virtual_host=False, cache=None, cache_bytes=0,
                    evict=None, connections=0, memory_bytes=0, ca_file=None):
    """Says how object stores are reached, and what is kept of what is read from them. Call it before the first remote path is used.

        endpoint, region, access_key, secret_key, session_token: what is not given comes from the environment, as Amazon's own tools take it
        virtual_host: the bucket is part of the host's name
        cache: the folder that keeps downloaded data for later runs, shared by all processes; None: PENSTOCK_CACHE, otherwise nothing is kept
        cache_bytes: how many bytes it may hold; 0: no limit
        evict: "lru": copies that no process has open make room for new ones; None: nothing is removed
        connections: 0: 8, and more while they bring more
        memory_bytes: without a cache, the most memory for downloaded data, in steps of 16 MiB and at least one of them; 0: an eighth of what is available, at most 512 MiB
        ca_file: certificates of the authorities that servers are trusted by; None: AWS_CA_BUNDLE, CURL_CA_BUNDLE, SSL_CERT_FILE, or those of the system

    Example:

        ps.configure_store(cache="/scratch/penstock", cache_bytes=200 << 30, evict="lru")
    """
    if evict not in (None, "lru"):
        raise ValueError(f'evict: expected "lru" or None, not {evict!r}')
    _core.configure_store(endpoint, region, access_key, secret_key, session_token, virtual_host, cache and str(cache), cache_bytes, evict, connections,
                          memory_bytes, ca_file and str(ca_file))


__version__ = _core.version
globals().update(_SOURCES)
globals().update(_JOINS)
__all__ = [
    "AUTOTUNE",
    "Answer",
    "Batch",
    "Compressed",
    "Dataset",
    "Error",
    "Example",
    "GradientTape",
    "Layers",
    "Model",
    "Skip",
    "Spec",
    "TFRecordReader",
    "TFRecordWriter",
    "Tensor",
    "Weights",
    "compress",
    "configure_store",
    "doctor",
    "from_arrays",
    "from_files",
    "from_generator",
    "function",
    "image_dataset_from_directory",
    "layers",
    "load_plugin",
    "losses",
    "optimizers",
    "pack",
    "pipeline",
    *_SOURCES,
    *_JOINS,
]

_atexit.register(_core.shutdown)  # stops the workers before the interpreter shuts down
