"""The input pipelines of well-known articles on slow training, rewritten: each runs at the machine's limit without a word on
threads, buffers or caching.

    python articles.py [PHOTOS]          (class folders; default: a drawn set)
"""

from __future__ import annotations

import array
import os
import sys
import tempfile

import toy

import penstock as ps


def directory_with_augmentation(photos: str) -> ps.Dataset:
    """image_dataset_from_directory, then a resize and a random flip in map, then prefetch."""
    dataset = ps.image_dataset_from_directory(
        photos, labels="inferred", label_mode="binary", image_size=(224, 224), batch_size=32, shuffle=True
    )
    return dataset.flip().prefetch(ps.AUTOTUNE)


def arrays_in_memory(images: memoryview, labels: array.array[int]) -> ps.Dataset:
    """from_tensor_slices on arrays that were prepared before; batch and prefetch."""
    return ps.from_arrays((images, labels)).shuffle().batch(64).prefetch(ps.AUTOTUNE)


def raw_pixels_from_tfrecord(pattern: str, side: int) -> ps.Dataset:
    """TFRecordDataset, parse_single_example, decode_raw, reshape; shuffle(10000), batch, prefetch. The shuffle is over
    everything."""
    dataset = ps.tfrecord(pattern).shuffle().example("image:bytes label:int64").decode(format="raw", shape=f"{side}x{side}x3")
    return dataset.batch(64).prefetch(ps.AUTOTUNE)


def list_of_files(paths: list[str], labels: list[int]) -> ps.Dataset:
    """from_tensor_slices on paths; read_file, decode_jpeg, resize and convert_image_dtype in map; shuffle, batch, prefetch."""
    return ps.from_files(paths, labels).shuffle().decode().resize(224).normalize("0..1").select("image", "label").batch(32)


def write_floats(path: str, rows: int) -> None:
    """A TFRecordWriter loop; no TensorFlow."""
    with ps.TFRecordWriter(path, overwrite=True) as writer:
        for i in range(rows):
            writer.write(ps.Example(data=array.array("f", [i, i / 2, i / 4]).tobytes(), label=i % 10))


def floats_from_tfrecord(path: str) -> ps.Dataset:
    """decode_raw(…, tf.float32), then a scaling in a second map; shuffle(10000), batch 32, prefetch."""
    dataset = ps.tfrecord(path).shuffle(seed=1).example("data:bytes label:int64").decode_raw("float32", (3,), field="data")
    return dataset.batch(32).prefetch(ps.AUTOTUNE)


def show(name: str, dataset: ps.Dataset) -> None:
    elements = sum(batch.size for batch in dataset)
    print(
        f"{name}: {len(dataset)} batches, {elements} elements, {', '.join(f'{k} {v.dtype} {v.shape}' for k, v in dataset.element_spec.items())}"
    )


def main() -> None:
    photos = sys.argv[1] if len(sys.argv) > 1 else toy.photos()
    show("a directory, augmented", directory_with_augmentation(photos))
    images = memoryview(bytearray(os.urandom(100 * 28 * 28))).cast("B", (100, 28, 28))
    show("arrays in memory", arrays_in_memory(images, array.array("q", range(100))))
    with tempfile.TemporaryDirectory() as folder:
        ps.pack(photos, os.path.join(folder, "raw"), resize="48x48", format="raw", channels=3, shards=2)
        show("raw pixels in TFRecords", raw_pixels_from_tfrecord(os.path.join(folder, "raw", "*.tfrecord*"), 48))
        write_floats(os.path.join(folder, "floats.tfrecord"), 1000)
        show("floats in TFRecords", floats_from_tfrecord(os.path.join(folder, "floats.tfrecord")))
    paths = sorted(os.path.join(base, name) for base, _, names in os.walk(photos) for name in names)
    show("a list of files", list_of_files(paths, [i % 2 for i in range(len(paths))]))


if __name__ == "__main__":
    main()
