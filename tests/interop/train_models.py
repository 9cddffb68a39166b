"""What the tests of training share: the start values of the benchmark's models, comparison."""

import numpy as np

S3 = (
    "conv 32 3 relu pad=same | conv 32 3 relu pad=same | maxpool 2 | conv 64 3 relu pad=same | conv 64 3 relu pad=same | maxpool 2 | "
    "conv 128 3 relu pad=same | maxpool 2 | flatten | dense 10"
)


def uniform(seed, count):
    """Numbers from 0 to 1 that every framework can make."""
    x = np.arange(count, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(seed * 0x9E3779B9 & 0xFFFFFFFF)
    x = (x ^ x >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    x = (x ^ x >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    x ^= x >> np.uint32(16)
    return ((x >> np.uint32(8)) / np.float32(2**24)).astype(np.float32)


def batch(shape, count):
    """Images and labels."""
    images = uniform(0, count * int(np.prod(shape))).reshape(count, *shape)
    return images, np.floor(10 * uniform(1, count)).astype(np.int64)


def start(model, names=None):
    """Gives the kernels their start values, numbered from 2 in the order of `names`."""
    names = names or [name for name in model.weights if name.endswith("/kernel")]
    for seed, name in enumerate(names, 2):
        shape = model.weights[name].shape
        area = 1 if len(shape) == 2 else shape[0] * shape[1]
        ends = 2 if len(shape) == 3 else shape[-2] + shape[-1]
        limit = np.sqrt(6 / (area * ends))
        model.weights[name] = ((2 * uniform(seed, int(np.prod(shape))) - 1) * limit).astype(np.float32).reshape(shape)


def difference(found, wanted):
    """The root mean square of the difference, relative to that of what is wanted."""
    found, wanted = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    assert found.shape == wanted.shape, (found.shape, wanted.shape)
    return np.sqrt(np.mean((found - wanted) ** 2)) / max(np.sqrt(np.mean(wanted**2)), 1e-12)
