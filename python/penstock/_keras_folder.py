"""image_dataset_from_directory in terms of the operations: the same files, labels and split as Keras has for the same arguments,
in the same order where nothing is shuffled."""

import os
import random

CHANNELS = {"grayscale": 1, "rgb": 3, "rgba": 4}
METHODS = {
    "bilinear": "bilinear",
    "nearest": "nearest",
    "bicubic": "keyscubic",
    "area": "area",
    "lanczos3": "lanczos3",
    "lanczos5": "lanczos5",
    "gaussian": "gaussian",
    "mitchellcubic": "mitchellcubic",
    "antialias": "antialias",  # ours
}
EXTENSIONS = (".bmp", ".gif", ".jpeg", ".jpg", ".png")


def build(
    directory,
    labels,
    label_mode,
    class_names,
    color_mode,
    batch_size,
    image_size,
    shuffle,
    seed,
    validation_split,
    subset,
    interpolation,
    follow_links,
    crop_to_aspect_ratio,
    pad_to_aspect_ratio,
    data_format,
    verbose,
):
    _check_labels(labels, label_mode, class_names)
    _check_images(color_mode, interpolation, crop_to_aspect_ratio, pad_to_aspect_ratio, data_format)
    _check_split(validation_split, subset, shuffle, seed)
    if labels is None or label_mode is None:
        labels = label_mode = None
    paths, labels, names = _listed(os.fspath(directory), labels, class_names, follow_links)
    if verbose:
        print(f"Found {len(paths)} files{f' belonging to {len(names)} classes' if names is not None else ''}.")
    if shuffle and seed is not None:
        order = shuffled(len(paths), seed)
        paths, labels = [paths[i] for i in order], labels and [labels[i] for i in order]

    def images(part, shuffles):
        kept = _part(len(paths), validation_split, part, verbose)
        if not paths[kept]:
            raise ValueError(f"{directory} has no images{f' for {part}' if part else ''} that end in {', '.join(EXTENSIONS)}")
        ds = _files(paths[kept], labels and labels[kept], label_mode, names)
        if shuffles:
            ds = ds.shuffle(seed=-1 if seed is None else seed)
        fit = "crop" if crop_to_aspect_ratio else "pad" if pad_to_aspect_ratio else "stretch"
        size = (image_size, image_size) if isinstance(image_size, int) else tuple(image_size)
        ds = ds.decode(channels=CHANNELS[color_mode]).resize(size, method=METHODS[interpolation.lower()], fit=fit)
        if interpolation.lower() != "nearest":  # pixels that are only picked stay bytes, in Keras too
            ds = ds.cast("f32")
        if data_format == "channels_first":
            ds = ds.layout("nchw")
        ds = ds.batch(batch_size) if batch_size is not None else ds
        ds.class_names, ds.file_paths = names, paths[kept]
        return ds

    if subset == "both":
        return [images("training", shuffle), images("validation", False)]
    return images(subset, shuffle)


# ---- What is asked for ----


def _check_labels(labels, label_mode, class_names):
    if isinstance(labels, str) and labels != "inferred" or not isinstance(labels, (str, list, tuple, type(None))):
        raise ValueError(f'labels={labels!r}; expected "inferred", None, or a list with a number for each file')
    if class_names is not None and labels != "inferred":
        raise ValueError('class_names go with labels="inferred"')
    if label_mode not in ("int", "categorical", "binary", None):
        raise ValueError(f"label_mode={label_mode!r}; expected int, categorical, binary or None")


def _check_images(color_mode, interpolation, crop, pad, data_format):
    if color_mode not in CHANNELS:
        raise ValueError(f"color_mode={color_mode!r}; expected {', '.join(CHANNELS)}")
    if interpolation.lower() not in METHODS:
        raise ValueError(f"interpolation={interpolation!r}; expected {', '.join(METHODS)}")
    if crop and pad:
        raise ValueError("crop_to_aspect_ratio or pad_to_aspect_ratio, not both")
    if data_format not in ("channels_last", "channels_first", None):
        raise ValueError(f"data_format={data_format!r}; expected channels_last or channels_first")


def _check_split(validation_split, subset, shuffle, seed):
    if bool(validation_split) != bool(subset):
        raise ValueError("validation_split and subset go together")
    if subset not in (None, "training", "validation", "both"):
        raise ValueError(f"subset={subset!r}; expected training, validation or both")
    if validation_split and not 0 < validation_split < 1:
        raise ValueError(f"validation_split={validation_split}; expected a share between 0 and 1")
    if validation_split and shuffle and seed is None:
        raise ValueError("validation_split needs a seed, or training and validation would overlap")


# ---- Files ----


def _walked(folder, follow_links):
    """Files with images below a folder, folder by folder, in the order of their names."""
    for root, _, files in sorted(os.walk(folder, followlinks=follow_links), key=lambda entry: entry[0]):
        for name in sorted(files):
            if name.lower().endswith(EXTENSIONS):
                yield os.path.join(root, name)


def _listed(directory, labels, class_names, follow_links):
    """(Paths, a label each or None, names of the classes or None.)"""
    if labels != "inferred":
        paths = list(_walked(directory, follow_links))
        if labels is None:
            return paths, None, None
        if len(labels) != len(paths):
            raise ValueError(f"{len(labels)} labels, and {len(paths)} files with images in {directory}")
        return paths, [int(label) for label in labels], [str(label) for label in sorted(set(labels))]
    folders = sorted(
        name for name in os.listdir(directory) if os.path.isdir(os.path.join(directory, name)) and not name.startswith(".")
    )
    if class_names is not None and not set(class_names) <= set(folders):
        raise ValueError(f"class_names={list(class_names)}; expected names of folders in {directory}: {folders}")
    names = folders if class_names is None else list(class_names)
    paths, labels = [], []
    for label, name in enumerate(names):
        found = list(_walked(os.path.join(directory, name), follow_links))
        paths += found
        labels += [label] * len(found)
    return paths, labels, names


# ---- The split ----


def shuffled(count, seed):
    """The order in which numpy.random.RandomState(seed).shuffle puts things, which is Keras's. The generator is Python's own,
    begun as NumPy begins it."""
    if not 0 <= seed < 1 << 32:
        raise ValueError(f"seed={seed}; expected a whole number from 0 to 2**32 - 1")
    words = [seed]
    for i in range(1, 624):
        words.append((1812433253 * (words[-1] ^ (words[-1] >> 30)) + i) & 0xFFFFFFFF)
    dice, order = random.Random(), list(range(count))
    dice.setstate((3, (*words, 624), None))
    for i in range(count - 1, 0, -1):
        k = i + 1
        while k > i:
            k = dice.getrandbits(32) & ((1 << i.bit_length()) - 1)
        order[i], order[k] = order[k], order[i]
    return order


def _part(count, validation_split, part, verbose):
    if part is None:
        return slice(None)
    validation = int(validation_split * count)
    if verbose:
        print(f"Using {validation if part == 'validation' else count - validation} files for {part}.")
    return slice(count - validation) if part == "training" else slice(count - validation, None)


# ---- Labels ----


def _files(paths, labels, mode, names):
    from ._dataset import from_files

    ds = from_files(paths, labels)
    if labels is None:
        return ds.select("image")
    ds = ds.select("image", "label")
    if mode == "int":
        return ds.cast("i32", field="label")
    if mode == "categorical":
        return ds.one_hot(len(names))
    if len(names) != 2:
        raise ValueError(f"binary labels need 2 classes, not {len(names)}")
    return ds.cast("f32", field="label").decode_raw("float32", (1,), field="label")
