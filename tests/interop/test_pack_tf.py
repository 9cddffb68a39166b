"""What `penstock pack` writes, read by TensorFlow, TFDS, NumPy, h5py and Pillow."""
import csv
import glob
import io
import os
import tarfile

import h5py
import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from PIL import Image

import tap
from tool import penstock, scratch


def examples(folder, kind=""):
    """Every Example below `folder` in shard order, as {name: list of values}."""
    paths = sorted(p for p in glob.glob(os.path.join(folder, "*.tfrecord-*")) if not p.endswith(".pidx"))
    assert paths, folder
    for record in tf.data.TFRecordDataset(paths, kind):
        features = tf.train.Example.FromString(record.numpy()).features.feature
        yield {name: list(getattr(value, value.WhichOneof("kind")).value) for name, value in features.items()}


def images(folder, count=60):
    penstock("generate", folder, "--images", count, "--size", 48, "--classes", 5, "--quiet")
    return sorted(os.path.relpath(path, folder) for path in glob.glob(os.path.join(folder, "*", "*")))


def test_class_folders_keep_their_bytes():
    with scratch() as folder:
        source, out = os.path.join(folder, "images"), os.path.join(folder, "out")
        paths = images(source)
        penstock("pack", source, out, "--shards", 3, "--quiet")
        classes = sorted(os.listdir(source))
        found = list(examples(out))
        assert [e["key"][0].decode() for e in found] == paths
        for example, path in zip(found, paths):
            full = os.path.join(source, path)
            assert example["image"][0] == open(full, "rb").read(), path
            assert example["label"] == [classes.index(path.split("/")[0])], path
            assert (example["width"][0], example["height"][0]) == Image.open(full).size, path
        assert open(os.path.join(out, "labels.txt")).read().split() == classes


def test_tfds_opens_the_folder():
    with scratch() as folder:
        source, out = os.path.join(folder, "images"), os.path.join(folder, "shapes")
        paths = images(source)
        penstock("pack", source, out, "--shards", 2, "--split", "train=0.7,val=0.3", "--format", "png", "--rgb", "--quiet")
        builder = tfds.builder_from_directory(out)
        classes = sorted(os.listdir(source))
        assert builder.info.features["label"].names == classes
        total, seen = 0, set()
        for split in ("train", "val"):
            dataset = builder.as_dataset(split=split)
            rows = list(tfds.as_numpy(dataset))
            assert len(rows) == builder.info.splits[split].num_examples
            total += len(rows)
            for row in rows:
                key = row["key"].decode()
                seen.add(key)
                want = np.asarray(Image.open(os.path.join(source, key)).convert("RGB"))
                difference = np.abs(row["image"].astype(int) - want)  # JPEG decoders may differ by a level or two
                assert difference.max() <= (4 if key.endswith("jpg") else 0), (key, difference.max())
                assert classes[row["label"]] == key.split("/")[0]
        assert total == len(paths) and seen == set(paths)


def test_tfds_reads_untouched_bytes():
    with scratch() as folder:
        source, out = os.path.join(folder, "images"), os.path.join(folder, "shapes")
        paths = images(source)
        penstock("pack", source, out, "--shards", 2, "--quiet")
        rows = list(tfds.as_numpy(tfds.builder_from_directory(out).as_dataset(split="train", shuffle_files=False)))
        assert sorted(row["key"].decode() for row in rows) == paths


def test_arrays():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((100, 4, 3), np.float32)
    y = rng.integers(-5, 1 << 40, 100)
    picture = rng.integers(0, 255, (100, 8, 6, 3), np.uint8)
    with scratch() as folder:
        np.savez(os.path.join(folder, "a.npz"), x=x, y=y, picture=picture)
        np.savez_compressed(os.path.join(folder, "b.npz"), x=x, y=y, picture=picture)
        for name in ("x", "y", "picture"):
            np.save(os.path.join(folder, name + ".npy"), locals()[name])
        with h5py.File(os.path.join(folder, "c.h5"), "w") as file:
            file["x"], file["y"] = x, y
            file.create_dataset("picture", data=picture, chunks=(7, 8, 6, 3), compression="gzip")
        sources = {"a.npz": ["a.npz"], "b.npz": ["b.npz"], "npy": ["x.npy", "y.npy", "picture.npy"], "hdf5": ["c.h5"]}
        for name, files in sources.items():
            out = os.path.join(folder, "out-" + name)
            penstock("pack", *(os.path.join(folder, f) for f in files), out, "--shards", 2, "--quiet")
            found = list(examples(out))
            assert len(found) == 100, name
            for i, example in enumerate(found):
                assert np.array_equal(np.float32(example["x"]).reshape(4, 3), x[i]), (name, i)
                assert example["y"] == [y[i]], (name, i)
                assert example["picture"] == [picture[i].tobytes()], (name, i)
            rows = list(tfds.as_numpy(tfds.builder_from_directory(out).as_dataset(split="train")))
            assert np.array_equal(rows[0]["x"], x[0]) and np.array_equal(rows[0]["picture"], picture[0]), name


def test_arrays_as_images():
    picture = np.random.default_rng(2).integers(0, 255, (20, 9, 7, 3), np.uint8)
    with scratch() as folder:
        np.savez(os.path.join(folder, "a.npz"), image=picture, label=np.arange(20))
        penstock("pack", os.path.join(folder, "a.npz"), os.path.join(folder, "out"), "--format", "png", "--quiet")
        for i, example in enumerate(examples(os.path.join(folder, "out"))):
            assert np.array_equal(np.asarray(Image.open(io.BytesIO(example["image"][0]))), picture[i]), i


def test_csv_table():
    rows = [[i, i * 0.5 - 3, f"name, \"{i}\"\nline"] for i in range(50)]
    with scratch() as folder:
        path = os.path.join(folder, "t.csv")
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows([["id", "score", "text"], *rows])
        penstock("pack", path, os.path.join(folder, "out"), "--quiet")
        found = list(examples(os.path.join(folder, "out")))
        assert [e["id"] for e in found] == [[r[0]] for r in rows]
        assert [e["score"] for e in found] == [[r[1]] for r in rows]
        assert [e["text"][0].decode() for e in found] == [r[2] for r in rows]


def test_webdataset_tar():
    with scratch() as folder:
        images(os.path.join(folder, "images"), 20)
        files = sorted(glob.glob(os.path.join(folder, "images", "*", "*")))
        for kind in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
            path, out = os.path.join(folder, f"d{kind}.tar"), os.path.join(folder, f"out{kind}")
            with tarfile.open(path, "w", format=kind) as tar:
                for i, file in enumerate(files):
                    key = f"{'long-folder-name-' * 5}/{i:06d}"
                    tar.add(file, key + os.path.splitext(file)[1])
                    label = tarfile.TarInfo(key + ".cls")
                    text = str(i % 7).encode()
                    label.size = len(text)
                    tar.addfile(label, io.BytesIO(text))
            penstock("pack", path, out, "--quiet")
            found = list(examples(out))
            assert [e["image"][0] for e in found] == [open(f, "rb").read() for f in files]
            assert [e["label"] for e in found] == [[i % 7] for i in range(len(files))]


def test_resize_is_pillows():
    """Antialiased as Pillow's BILINEAR, stored losslessly: at most one level apart."""
    with scratch() as folder:
        source, out = os.path.join(folder, "images"), os.path.join(folder, "out")
        os.makedirs(os.path.join(source, "a"))
        rng = np.random.default_rng(3)
        for i in range(8):
            size = rng.integers(20, 200, 2)
            noise = rng.integers(0, 255, (*size, 3), np.uint8)
            Image.fromarray(noise).resize((int(size[1]), int(size[0]))).save(os.path.join(source, "a", f"{i}.png"))
        penstock("pack", source, out, "--resize", 32, "--quiet")
        for example in examples(out):
            original = Image.open(os.path.join(source, example["key"][0].decode()))
            ours = Image.open(io.BytesIO(example["image"][0]))
            assert min(ours.size) == 32
            want = np.asarray(original.resize(ours.size, Image.BILINEAR)).astype(int)
            difference = np.abs(np.asarray(ours) - want)
            assert difference.max() <= 1, difference.max()


tap.main(globals())
