"""TFRecord files and tf.train.Examples without TensorFlow, and packing."""

import os
import struct
from collections.abc import Sequence

from . import _core, _fluent


class TFRecordWriter:
    """Writes a TFRecord file and its index. The file appears when the writer is closed; if the with block raises an exception,
    no file is written.

    Example:

        with ps.TFRecordWriter("train.tfrecord") as writer:
            writer.write(ps.Example(image=jpeg, label=3))
    """

    def __init__(self, path, compression="none", *, level=0, sync=True, index=True, overwrite=False):
        self._writer = _core.Writer(
            path, compression=compression or "none", level=level, sync=sync, index=index, overwrite=overwrite
        )

    def write(self, record):
        """Appends bytes, or an Example."""
        self._writer.write(record.serialize() if isinstance(record, Example) else record)

    def close(self):
        self._writer.commit()

    def __enter__(self):
        return self

    def __exit__(self, kind, *failure):
        if kind is None:
            self._writer.commit()
        else:
            self._writer.discard()


class TFRecordReader(Sequence):
    """The records of a TFRecord file as bytes, with checksums verified: reader[17], len(reader), and iteration in order. The index
    is created on first use. A compressed file has no index and can only be read in order.

    Example:

        label = ps.Example.parse(ps.TFRecordReader("train.tfrecord")[17])["label"]
    """

    def __init__(self, path, *, compression="auto", verify=True, cache_dir=None):
        self._path, self._compression, self._verify, self._cache_dir, self._shard = path, compression, verify, cache_dir, None
        iter(self)  # raises now if the file does not exist

    def _open(self):
        if self._shard is None:
            cache_dir = None if self._cache_dir is None else os.fsencode(self._cache_dir)
            self._shard = _core.Shard(self._path, verify=self._verify, cache_dir=cache_dir)
        return self._shard

    def __len__(self):
        try:
            return len(self._open())
        except _core.Error as error:  # list() calls len() and treats a TypeError as "unknown"
            if error.status != "PST_EUNSUPPORTED":
                raise
            raise TypeError(str(error)) from error

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self._open()[i] for i in range(*index.indices(len(self)))]
        return self._open()[index]

    def __iter__(self):
        return _core.Reader(self._path, compression=self._compression, verify=self._verify)


class Example(dict):
    """A tf.train.Example: names of features and their values. Values may be bytes, str, int, float, lists of those, and arrays
    of float32 or int64. A parsed Example has lists of bytes, and Tensors of float32 or int64.

    Example:

        record = ps.Example(image=jpeg, label=3, box=[0.1, 0.2, 0.9, 0.8]).serialize()
    """

    def serialize(self):
        return _core.build_example({name: _feature(name, value) for name, value in self.items()})

    @classmethod
    def parse(cls, record):
        return cls(_core.parse_example(record))


def _feature(name, value):
    """Converts a value to a list of bytes, or a buffer of float32 or int64."""
    from array import array

    if isinstance(value, (bytes, bytearray, str)):
        value = [value]
    elif isinstance(value, (int, float)):
        value = [value]
    elif not isinstance(value, (list, tuple)):
        return _numbers(name, value)
    if all(isinstance(item, (bytes, bytearray, str)) for item in value):
        return [item.encode("utf-8", "surrogateescape") if isinstance(item, str) else bytes(item) for item in value]
    if all(isinstance(item, int) for item in value):
        return array("q", value)
    if all(isinstance(item, (int, float)) for item in value):
        return _floats(name, value)
    return _numbers(name, value)


def _floats(name, values):
    from array import array

    try:
        return array("f", struct.pack(f"={len(values)}f", *values))
    except OverflowError:
        raise OverflowError(f"feature {name}: a number does not fit float32, the only float of tf.train.Example") from None


def _numbers(name, value):
    """Arrays and lists of NumPy's numbers."""
    from array import array

    try:
        view = memoryview(value)
    except TypeError:
        import numpy

        value = numpy.asarray(value)
        view = memoryview(value)
    if view.format in ("f", "q") and view.c_contiguous:
        return value
    if view.format == "l" and view.c_contiguous:
        return view.cast("B").cast("q")
    flat = value.reshape(-1).tolist() if hasattr(value, "reshape") else view.tolist()
    if view.format in "bBhHiIlLqQ?":
        return array("q", map(int, flat))
    if view.format in "efd":
        return _floats(name, flat)
    raise TypeError(f"feature {name}: values of format {view.format}; expected numbers or bytes")


def pack(
    sources,
    out,
    *,
    source_format=None,
    name=None,
    version=None,
    features=None,
    shards=0,
    shard_size=0,
    split=None,
    shuffle=False,
    seed=0,
    compression="none",
    resize=None,
    format=None,
    quality=0,
    channels=0,
    augment=0,
    workers=0,
    bad="error",
    force=False,
    sync=True,
    entropy=False,
    progress=None,
    part=None,
    join=False,
):
    """Packs files, arrays and tables into TFRecord shards, as `penstock pack` does; returns a report. After an interruption,
    the same call resumes where it stopped.

        sources: a path or several: class folders, lists, CSV, tar, npy, text, TFRecord
        split: "train=0.9,val=0.1" or {"train": 0.9, "val": 0.1}
        resize: 256 (the shorter side), "320x240" (width x height) or (height, width)
        entropy: also store entropy indexes: places inside JPEGs where decoding can start, so that crops decode faster
        part: (3, 64) writes only the third of 64 parts, so that 64 processes share the work; join=True completes the dataset
        progress: called with (stage, done, total, bytes) a few times per second

    Example:

        ps.pack("photos", "shards", shards=16, split={"train": 0.9, "val": 0.1})
    """
    sources = [sources] if isinstance(sources, (str, bytes, os.PathLike)) else list(sources)
    if isinstance(split, dict):
        split = ",".join(f"{key}={value}" for key, value in split.items())
    return _core.pack(
        [os.fsencode(source) for source in sources],
        os.fsencode(out),
        source_format=source_format,
        name=name,
        version=version,
        features=features,
        shards=shards,
        shard_size=shard_size,
        split=split,
        shuffle=shuffle,
        seed=seed,
        compression=compression or "none",
        resize=None if resize is None else _fluent.TEXT["size2d"](resize).strip("'"),
        format=format,
        quality=quality,
        channels=channels,
        augment=augment,
        workers=workers,
        bad=bad,
        force=force,
        sync=sync,
        entropy=entropy,
        progress=progress,
        part=part[0] if part else 0,
        parts=part[1] if part else 0,
        join=join,
    )
