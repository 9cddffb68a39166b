"""image_dataset_from_directory against Keras's: the same files, labels and split; images within the levels that rounding costs."""

import contextlib
import io
import os
import tempfile

import keras
import numpy as np
import tap
from PIL import Image

import penstock as ps
from penstock._keras_folder import shuffled

SIZES = ((40, 30), (30, 40), (24, 20), (61, 17), (16, 16), (9, 33), (50, 50))


def smooth(width, height, seed, amplitude):
    y, x = np.mgrid[0:height, 0:width]
    waves = [128 + amplitude * (0.6 * np.sin(x / (4 + c) + seed) + 0.4 * np.cos(y / (5 + c))) for c in range(3)]
    return Image.fromarray(np.stack(waves, -1).astype(np.uint8))


@contextlib.contextmanager
def folder(classes=("b", "A", "c c"), per_class=7, amplitude=100, bmp=True):
    """Class folders with folders in them, images of many sizes and formats, files that are none, a hidden and a linked folder."""
    with tempfile.TemporaryDirectory() as root, tempfile.TemporaryDirectory() as elsewhere:
        for k, name in enumerate(classes):
            for i in range(per_class):
                base = os.path.join(root, name, *(["z", "y-1"][i % 2 :] if i % 3 == 0 else []))
                os.makedirs(base, exist_ok=True)
                image = smooth(*SIZES[(i + k) % len(SIZES)], i + 7 * k, amplitude)
                image.save(os.path.join(base, f"{i * 5 % 7}{k}.{('png', 'PNG', 'bmp' if bmp else 'Png')[i % 3]}"))
            with open(os.path.join(root, name, "notes.txt"), "w") as f:
                f.write("not an image")
        os.makedirs(os.path.join(root, ".hidden"))
        smooth(9, 9, 1, 50).save(os.path.join(elsewhere, "linked.png"))
        os.symlink(elsewhere, os.path.join(root, classes[0], "link"))
        yield root


def both(root, **options):
    """(Keras's, ours) with the same arguments."""
    with contextlib.redirect_stdout(io.StringIO()):
        theirs = dict(options, labels=list(options["labels"])) if isinstance(options.get("labels"), (list, tuple)) else options
        # theirs is a copy, as Keras shuffles the caller's own list, and a list, as it fails with a tuple
        return keras.utils.image_dataset_from_directory(root, **theirs), ps.image_dataset_from_directory(root, **options)


def same_files(theirs, ours):
    assert list(theirs.file_paths) == ours.file_paths and theirs.class_names == ours.class_names
    assert len(theirs) == len(ours)


def same_batches(theirs, ours, tolerance, options):
    """The order is the same: nothing is shuffled."""
    count = 0
    for want, batch in zip(theirs, ours, strict=True):
        want, got = want if isinstance(want, tuple) else (want,), tuple(np.asarray(field) for field in batch)
        assert len(want) == len(got), options
        for w, g in zip(want, got):
            assert w.shape == g.shape and w.dtype.name == g.dtype, (options, w.shape, g.shape, w.dtype, g.dtype)
        if len(want) > 1:
            assert np.array_equal(want[1].numpy(), got[1]), options
        difference = np.abs(want[0].numpy() - got[0]).max()
        assert difference <= tolerance, (options, float(difference))
        count += len(got[0])
    return count


def check(root, tolerance=1.01, **options):
    options = {"image_size": (14, 18), "batch_size": 5, "shuffle": False, **options}
    theirs, ours = both(root, **options)
    same_files(theirs, ours)
    return same_batches(theirs, ours, tolerance, options)


def test_labels():
    with folder() as root:
        assert check(root) == 21
        check(root, label_mode="categorical")
        check(root, labels=None)
        check(root, label_mode=None)
        check(root, labels=[i % 4 for i in range(21)])
        check(root, labels=tuple(i % 4 for i in range(21)), label_mode="categorical")
        check(root, labels=[i % 2 for i in range(21)], label_mode="binary")
        check(root, class_names=["c c", "A", "b"])
        assert check(root, class_names=["c c", "A"], label_mode="binary") == 14
    with folder(("x", "y")) as root:
        check(root, label_mode="binary")


def test_images():
    with folder() as root:
        check(root, color_mode="rgba")
        check(root, data_format="channels_first")
        check(root, image_size=20)
        check(root, interpolation="Area")
        for size in ((14, 18), (18, 14), (20, 20), (40, 7)):
            for options in ({"crop_to_aspect_ratio": True}, {"pad_to_aspect_ratio": True}):
                check(root, image_size=size, **options)
                check(root, image_size=size, data_format="channels_first", **options)
    with folder(bmp=False) as root:  # of which TensorFlow reads none as gray
        check(root, 2.1, color_mode="grayscale")  # gray is rounded as well, by both
    with folder(amplitude=40) as root:  # what overshoots would be cut off at 0 and 255
        for name in ("bicubic", "lanczos3", "lanczos5", "gaussian", "mitchellcubic"):
            check(root, 1.5, interpolation=name)
            check(root, 1.5, interpolation=name, image_size=(50, 60))
        check(root, 1.5, interpolation="bicubic", pad_to_aspect_ratio=True)


def test_nearest():
    """Where a position lies between two pixels, frameworks differ: sizes of which none does."""
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "a"))
        for i in range(4):
            smooth(33, 45, i, 100).save(os.path.join(root, "a", f"{i}.png"))
        check(root, 0, interpolation="nearest", image_size=(15, 11))


def test_links():
    with folder() as root:
        assert check(root, follow_links=True) == 22 and check(root, follow_links=False) == 21


def test_split():
    """The order of a split is that of NumPy's RandomState."""
    for count in (0, 1, 2, 7, 100, 1000):
        for seed in (0, 1, 123, 2**32 - 1):
            order = list(range(count))
            np.random.RandomState(seed).shuffle(order)
            assert order == shuffled(count, seed), (count, seed)
    with folder() as root:
        for options in ({"seed": 5}, {"seed": 77}, {"shuffle": False}, {"seed": 3, "labels": list(range(21))}):
            parts = []
            for subset in ("training", "validation"):
                theirs, ours = both(root, validation_split=0.3, subset=subset, **options)
                same_files(theirs, ours)
                parts.append(ours.file_paths)
            assert sorted(parts[0] + parts[1]) == sorted(both(root, **options)[1].file_paths) and len(parts[1]) == 6
            theirs, ours = both(root, validation_split=0.3, subset="both", **options)
            assert [ds.file_paths for ds in ours] == parts and isinstance(ours, list)
            for a, b in zip(theirs, ours):
                same_files(a, b)
            same_batches(theirs[1].take(9), ours[1], 1.01, options)  # of both, validation is not shuffled


def test_shuffled_pairs_stay_together():
    """Another order than Keras's, of the same pairs."""
    with folder() as root:
        theirs, ours = both(root, seed=5, image_size=(14, 18), batch_size=4)
        want = sorted((int(label), x.numpy().mean()) for images, labels in theirs for x, label in zip(images, labels))
        orders = []
        for _ in range(2):
            pairs = [(label, np.asarray(x).mean()) for images, labels in ours for x, label in zip(images, labels.tolist())]
            assert np.allclose(sorted(pairs), want, atol=0.6)
            orders.append(pairs)
        assert orders[0] != orders[1]


def test_what_is_said():
    with folder() as root:
        for options in ({}, {"labels": None}, {"validation_split": 0.3, "subset": "both", "seed": 1},
                        {"validation_split": 0.3, "subset": "training", "seed": 1}):
            printed = []
            for module in (keras.utils, ps):
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    module.image_dataset_from_directory(root, **options)
                printed.append(out.getvalue())
            assert printed[0] == printed[1] != "", printed
        with contextlib.redirect_stdout(io.StringIO()) as out:
            ps.image_dataset_from_directory(root, verbose=False)
        assert out.getvalue() == ""


def test_what_keras_refuses():
    with folder() as root:
        for wrong in ({"labels": "all"}, {"labels": [1, 2]}, {"labels": [0] * 21, "class_names": ["a"]}, {"label_mode": "x"},
                      {"class_names": ["d"]}, {"color_mode": "cmyk"}, {"interpolation": "x"}, {"label_mode": "binary"},
                      {"crop_to_aspect_ratio": True, "pad_to_aspect_ratio": True}, {"validation_split": 0.1},
                      {"subset": "training"}, {"validation_split": 0.1, "subset": "test", "seed": 1},
                      {"validation_split": 1.5, "subset": "training", "seed": 1}, {"validation_split": 0.1, "subset": "training"}):
            for module in (keras.utils, ps):
                try:
                    module.image_dataset_from_directory(root, verbose=False, **wrong)
                    raise AssertionError(f"{module.__name__} takes {wrong}")
                except ValueError:
                    pass


if __name__ == "__main__":
    tap.main(globals())
