"""The penstock pipeline that makes batches such as a loader makes, from the same data."""

import os
import shlex
import time

from .. import _core

SMALLEST = 8  # sides of a gray image
IMAGES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp")


class Shape:
    """What the images of a batch look like; None where the batch has no images."""

    def __init__(self, batch):
        self.height = self.width = None
        self.first = self.floats = self.negative = self.large = False
        for value in arrays(batch):
            shape = tuple(int(n) for n in value.shape)
            if self.height is not None or len(shape) not in (3, 4) or len(shape) == 3 and min(shape[1:]) < SMALLEST:
                continue
            shape = shape if len(shape) == 4 else (*shape, 1)  # gray, without a dimension for it
            self.first = shape[1] in (1, 3) and shape[3] not in (1, 3)
            self.height, self.width = shape[2:4] if self.first else shape[1:3]
            self.channels = shape[1] if self.first else shape[3]
            self.floats = "float" in str(value.dtype)
            if self.floats:
                first = _plain(value[0])
                self.negative, self.large = float(first.min()) < 0, float(first.max()) > 8


def _plain(value):
    """A tensor of any framework as a NumPy array."""
    import numpy

    return numpy.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def arrays(batch):
    """The arrays in a batch: of any framework, in tuples, lists and dicts."""
    if hasattr(batch, "shape") and hasattr(batch, "dtype"):
        return [batch]
    if isinstance(batch, _core.Batch):
        batch = [value for _, value in batch.items()]
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        return [array for item in batch for array in arrays(item)]
    return []


def source(data):
    """Returns the text of the source for a path: class folders, shards, a list."""
    data = os.fspath(data)
    quoted = shlex.quote(data) if any(c in data for c in " |'\"#") else data
    if os.path.isdir(data):
        names = sorted(os.listdir(data))
        if any(".tfrecord" in name for name in names):
            return f"tfrecord {quoted} | shuffle | example"
        for folder in names:
            path = os.path.join(data, folder)
            if os.path.isdir(path) and any(name.lower().endswith(IMAGES) for name in os.listdir(path)):
                return f"folder {quoted} | shuffle"
        if any(name.lower().endswith(IMAGES) for name in names):
            return f"folder {quoted} labels=none | shuffle"
        return None
    if ".tfrecord" in os.path.basename(data) or "*" in data:
        return f"tfrecord {quoted} | shuffle | example"
    if data.endswith((".csv", ".txt", ".lst")):
        return f"files {quoted} | shuffle"
    if data.endswith(".npy"):
        return f"npy {quoted} | shuffle"
    return None


def text(data, batch, size):
    """Returns the text of a pipeline for the data, which decodes images and brings them to the form that the loader's have; None if
    the kind of data is unknown."""
    begin = source(data)
    if begin is None:
        return None
    shape = Shape(batch)
    parts = [begin]
    if shape.height and not begin.startswith("npy"):
        side = str(shape.height) if shape.height == shape.width else f"{shape.width}x{shape.height}"
        gray = " channels=1" if shape.channels == 1 else ""
        parts.append(f"decode{gray} | resize {side}")
        if shape.floats:
            parts.append("cast f32" if shape.large else "normalize imagenet" if shape.negative and shape.channels == 3 else "normalize 0..1")
        if shape.first:
            parts.append("layout nchw")
    return " | ".join([*parts, f"batch {size}"])


def written(data, batch, size):
    """Returns (the text of the equivalent pipeline, ""), or (None, why there is none): a pipeline counts as equivalent only if it
    delivers the arrays that hold most of the loader's batch, in the same form."""
    from .._dataset import pipeline

    made = text(data, batch, size)
    if made is None:
        return None, f"{os.fspath(data)} is neither class folders of images, TFRecord shards, a list of files nor .npy"
    wanted = [(_form(value.shape), _family(value.dtype)) for value in arrays(batch)]
    if not wanted:
        return None, "the loader's batches hold no arrays"
    try:
        with pipeline(made) as dataset:
            fields = {name: (_form(spec.shape), _family(spec.dtype)) for name, spec in dataset.element_spec.items()}
    except (_core.Error, OSError, ValueError) as error:
        return None, f"{made}: {error}"
    most = max(_count(form) for form, _ in wanted)
    for form, family in wanted:
        if 20 * _count(form) >= most and not any(_alike(form, other) and family == kind for other, kind in fields.values()):
            have = ", ".join(f"{name} {kind} {_named(other)}" for name, (other, kind) in fields.items())
            return None, f"the loader's batches hold {family} {_named(form)} per sample, which no pipeline of usual operations makes from the data: it has {have}"
    return made, ""


def _form(shape):
    """The shape of one sample, without dimensions of one."""
    return tuple(None if n is None else int(n) for n in tuple(shape)[1:] if n != 1)


def _named(form):
    return "x".join("?" if n is None else str(n) for n in form) or "numbers"


def _count(form):
    count = 1
    for n in form:
        count *= n or 1
    return count


def _family(dtype):
    name = str(dtype)
    if "bytes" in name or "string" in name or "|S" in name or "object" in name:
        return "bytes"
    return "float" if "float" in name else "uint8" if "uint8" in name else "integer"


def _alike(form, other):
    return len(form) == len(other) and all(n is None or m is None or n == m for n, m in zip(form, other))


def large_images(data, batch):
    """Returns (pixels of the stored images, pixels of those in a batch) from a few files; None if that cannot be told."""
    from .._dataset import pipeline

    shape, begin = Shape(batch), source(data)
    if begin is None or not shape.height:
        return None
    areas = []
    with pipeline(f"{begin} | take 16 | decode | batch 1", workers=1, prefetch=1) as dataset:
        for one in dataset:
            for _, value in one.items():
                if len(value.shape) == 4:
                    areas.append(value.shape[1] * value.shape[2])
    return (sorted(areas)[len(areas) // 2], shape.height * shape.width) if areas else None


def small_files(data):
    """Returns (number, mean bytes) of the files in class folders, or None."""
    if not os.path.isdir(data):
        return None
    count = total = 0
    for base, _, names in os.walk(data):
        for name in names:
            if name.lower().endswith(IMAGES):
                count += 1
                total += os.path.getsize(os.path.join(base, name))
        if count > 20000:
            break
    return (count, total / count) if count else None


def convert(batch, like):
    """Converts a penstock batch to what the loader's batches hold: torch, tf or NumPy arrays, a tuple, a list or a dict."""
    first = arrays(like)[:1]
    module = type(first[0]).__module__.split(".")[0] if first else "numpy"
    fields = [value for value in batch if str(value.dtype) != "bytes"]
    if module == "torch":
        from torch.utils.dlpack import from_dlpack

        made = [from_dlpack(value) for value in fields]
    elif module == "tensorflow":
        from .. import tf as adapter

        made = [adapter.tensor(value) for value in fields]
    else:
        import numpy

        made = [numpy.asarray(value) for value in fields]
    if isinstance(like, dict):
        return dict(zip(like, made))
    if isinstance(like, (list, tuple)):
        return type(like)(made[: len(like)]) if type(like) in (list, tuple) else tuple(made[: len(like)])
    return made[0]


SAMPLED = 64  # files in a trial


def resized(data, side, folder):
    """Packs a sample of the images in class folders at `side` pixels into `folder`. Returns (bytes per image, seconds per image)."""
    from .._records import pack

    rows = []
    for base, _, names in os.walk(data):
        rows += [os.path.join(base, name) for name in sorted(names) if name.lower().endswith(IMAGES)]
    rows = rows[:: max(1, len(rows) // SAMPLED)][:SAMPLED]
    listing = os.path.join(folder, "sample.csv")
    with open(listing, "w", encoding="utf-8") as f:
        f.writelines(f'"{os.path.abspath(path)}",{os.path.basename(os.path.dirname(path))}\n' for path in rows)
    begun = time.perf_counter()
    pack(listing, os.path.join(folder, "shards"), resize=side, shards=2, sync=False)
    spent = (time.perf_counter() - begun) / len(rows)
    shards = os.path.join(folder, "shards")
    total = sum(os.path.getsize(os.path.join(base, name)) for base, _, names in os.walk(shards) for name in names)
    return total / len(rows), spent, len(rows)
