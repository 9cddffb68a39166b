"""image_dataset_from_directory in terms of the operations."""

import os

from ._fluent import SOURCES

CHANNELS = {"grayscale": 1, "rgb": 3, "rgba": 4}
METHODS = {"bilinear": "bilinear", "nearest": "nearest", "bicubic": "bicubic", "area": "area", "antialias": "antialias"}
EXTENSIONS = "jpeg,jpg,png,bmp,gif"


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
    _check(labels, label_mode, color_mode, interpolation, validation_split, subset, seed, shuffle)
    if follow_links or pad_to_aspect_ratio:
        raise NotImplementedError("follow_links and pad_to_aspect_ratio are not supported")
    labelled = labels is not None and label_mode is not None
    height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
    ds = SOURCES["folder"](
        directory,
        labels="inferred" if labelled else "none",
        extensions=EXTENSIONS,
        validation_split=validation_split or 0.0,
        subset=subset or "all",
        seed=seed or 0,
    )
    if shuffle:
        ds = ds.shuffle(seed=-1 if seed is None else seed)
    ds = ds.decode(channels=CHANNELS[color_mode])
    if crop_to_aspect_ratio:
        if height != width:
            raise NotImplementedError("crop_to_aspect_ratio is supported for square images only")
        ds = ds.resize(short=height, method=METHODS[interpolation]).center_crop(height)
    else:
        ds = ds.resize((height, width), method=METHODS[interpolation])
    ds = ds.cast("f32")
    if data_format == "channels_first":
        ds = ds.layout("nchw")
    names = _classes(directory) if labelled else None
    if class_names is not None and list(class_names) != names:
        raise ValueError(f"class_names must be the folders in their order: {names}")
    ds = _label(ds, label_mode, names) if labelled else ds.select("image")
    ds.class_names = names
    return ds.batch(batch_size) if batch_size is not None else ds


def _check(labels, label_mode, color_mode, interpolation, validation_split, subset, seed, shuffle):
    if labels not in ("inferred", None):
        raise NotImplementedError('labels is "inferred" or None; for a list of labels see from_files')
    if label_mode not in ("int", "categorical", "binary", None):
        raise ValueError(f"label_mode={label_mode!r}; expected int, categorical, binary or None")
    if color_mode not in CHANNELS:
        raise ValueError(f"color_mode={color_mode!r}; expected {', '.join(CHANNELS)}")
    if interpolation not in METHODS:
        raise ValueError(f"interpolation={interpolation!r}; expected {', '.join(METHODS)}")
    if (validation_split is None) != (subset is None):
        raise ValueError("validation_split and subset go together")
    if subset not in (None, "training", "validation"):
        raise ValueError(f"subset={subset!r}; expected training or validation")
    if validation_split and shuffle and seed is None:
        raise ValueError("validation_split needs a seed, or training and validation would overlap")


def _classes(directory):
    return sorted((entry.name for entry in os.scandir(directory) if entry.is_dir()), key=os.fsencode)


def _label(ds, mode, names):
    ds = ds.select("image", "label")
    if mode == "int":
        return ds.cast("i32", field="label")
    if mode == "categorical":
        return ds.one_hot(len(names))
    if len(names) != 2:
        raise ValueError(f"binary labels need 2 classes, not {len(names)}")
    return ds.cast("f32", field="label").decode_raw("float32", (1,), field="label")
