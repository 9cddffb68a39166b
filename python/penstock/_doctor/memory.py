"""The page cache: whether the data fits into the memory that is free, and whether epochs after the first are slower."""

import os

from .observe import Observation

FITS = 0.9  # of the free memory, as in the doctor of the engine
SLOWER, LEAST_STEPS = 1.25, 5
MOST_FILES = 500_000


def free():
    """Bytes that the page cache may take; None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as f:
            for line in f:
                if line.startswith("MemAvailable:"):
                    return 1024 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    return None


def data_bytes(data):
    """Bytes of a file, of the files of a pattern or below a folder; None: unknown."""
    import glob

    paths = [data] if os.path.exists(data) else glob.glob(data)
    if not paths:
        return None
    total = files = 0
    for path in paths:
        if os.path.isfile(path):
            total += os.path.getsize(path)
        for base, _, names in os.walk(path):
            for name in names:
                files += 1
                total += _size(os.path.join(base, name))
            if files > MOST_FILES:
                return total
    return total


def _size(path):
    try:
        return os.path.getsize(path)
    except OSError:  # removed meanwhile, or a link to nothing
        return 0


def fits(data, memory, here, samples):
    """What is known of the data, as in the JSON. here: samples per epoch of the loader; samples: of the real data set, or None."""
    room, size = memory or free(), data_bytes(os.fspath(data)) if data is not None else None
    if size is not None and samples and here:
        size = int(size * samples / here)
    cold = None if size is None or room is None else size > FITS * room
    words = {True: "the data set does not fit into memory: an epoch on a sample, or the first one after it was written, reads from the page cache, the real ones "
                   "will not",
             False: "the data set fits into memory: after the first epoch it is read from the page cache", None: None}
    return {"samples": samples or here, "bytes": size, "memory_bytes": room, "cold": cold, "cache": words[cold]}


def slowed(seen):
    """Returns the steps of the first epoch and those of the later ones, if these are clearly slower because they wait longer; else None."""
    if seen is None or not any(seen.epochs):
        return None
    first, later = seen.of_epochs(lambda epoch: epoch == 0), seen.of_epochs(lambda epoch: epoch > 0)
    if min(len(first), len(later)) < LEAST_STEPS:
        return None
    before, after = _middle(first, _all), _middle(later, _all)
    longer = _middle(later, Observation.waiting) - _middle(first, Observation.waiting)
    clearly = after > SLOWER * before and longer > 0.5 * (after - before) and later.bounds()[1] < first.bounds()[0]
    return (first, later) if clearly else None


def _all(seen, i):
    return seen.spent((i,)) / max(1, seen.sizes[i])


def _middle(seen, value):
    values = sorted(value(seen, i) for i in seen.steady())
    return values[len(values) // 2] if values else 0.0
