"""Image operations of pipelines against the frameworks whose behaviour they have: resize methods against Pillow and
TensorFlow, cropping rules against torchvision's (stated here in Python), normalize against NumPy, EXIF against Pillow. The
program under test is named by the environment variable OPS_DUMP; every chain runs operation by operation and in one pass.

What must be equal, and what may differ:
- antialias, bicubic and nearest: Pillow's bytes, one direction at a time (see test_image_pillow.py for the order of the two).
- TensorFlow computes in float32 and rounds nothing; we round to bytes after each direction, half a level twice. Measured
  largest differences from its unrounded values: bilinear 1.000, area 1.001, antialias 1.000 levels; TF_TOLERANCE is accepted.
- nearest: the same pixel as TensorFlow, but where an output falls exactly on the edge of two input pixels.
- normalize: float32 against float64, measured 3.4e-7; NORMALIZE_TOLERANCE is accepted.
"""
import io
import math
import os
import random
import struct
import subprocess

import numpy as np
from PIL import Image, ImageOps

import tap

TF_TOLERANCE = 1.01
NORMALIZE_TOLERANCE = 5e-7
TYPES = {"uint8": np.uint8, "float32": np.float32, "float16": np.float16}


def dump(data, chain):
    """The result of `chain` on `data`, which is the same operation by operation and in one pass."""
    results = []
    for options in ([], ["--fuse"]):
        done = subprocess.run([os.environ["OPS_DUMP"], *options, chain], input=data, capture_output=True)
        assert done.returncode == 0, f"{chain}: {done.stderr.decode()}"
        results.append(done.stdout)
    assert results[0] == results[1], f"{chain}: fused and one by one differ"
    head, body = results[0].split(b"\n", 1)
    kind, *shape = head.decode().split()
    return np.frombuffer(body, TYPES[kind]).reshape([int(n) for n in shape])


def saved(image, kind="PNG", **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def noise(width, height, seed, mode="RGB"):
    bands = len(Image.new(mode, (1, 1)).getbands())
    return Image.frombytes(mode, (width, height), random.Random(seed).randbytes(width * height * bands))


def smooth(width, height, seed):
    y, x = np.mgrid[0:height, 0:width]
    waves = [128 + 70 * np.sin(x / (5 + c) + seed) + 50 * np.cos(y / (7 + c)) for c in range(3)]
    return Image.fromarray(np.clip(np.stack(waves, -1), 0, 255).astype(np.uint8))


def sizes(count, seed):
    rng = random.Random(seed)
    fixed = [(500, 375, 224, 224), (64, 64, 200, 150), (20, 20, 60, 60), (60, 60, 20, 20), (1, 1, 7, 5), (7, 5, 1, 1), (33, 40, 33, 20)]
    return fixed + [tuple(rng.randrange(1, 150) for _ in range(4)) for _ in range(count)]


# ---- Resizing ----

def test_resize_pillow():
    kinds = {"antialias": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC, "nearest": Image.Resampling.NEAREST}
    for seed, (width, height, to_width, to_height) in enumerate(sizes(20, 1)):
        image = noise(width, height, seed, ("RGB", "L")[seed % 2])
        channels = 3 if seed % 2 == 0 else 1
        for name, kind in kinds.items():
            got = dump(saved(image), f"decode channels={channels} | resize {to_width}x{to_height} {name}")
            want = np.asarray(image.resize((to_width, height), kind).resize((to_width, to_height), kind))
            assert (got == want.reshape(to_height, to_width, channels)).all(), f"{name} {width}x{height} to {to_width}x{to_height}"
    print(f"# {len(sizes(20, 1))} sizes, 3 methods: every byte is Pillow's")


def tensorflow():
    import tensorflow as tf  # here: its import takes seconds
    return tf


def test_resize_tensorflow():
    tf = tensorflow()
    cases = {"bilinear": dict(method="bilinear"), "area": dict(method="area"),
             "antialias": dict(method="bilinear", antialias=True)}
    worst = dict.fromkeys(cases, 0.0)
    for seed, (width, height, to_width, to_height) in enumerate(sizes(20, 2)):
        image = noise(width, height, seed) if seed % 2 else smooth(width, height, seed)
        for name, options in cases.items():
            got = dump(saved(image), f"decode | resize {to_width}x{to_height} {name}").astype(float)
            want = tf.image.resize(np.asarray(image), (to_height, to_width), **options).numpy()
            difference = float(np.abs(got - want).max())
            assert difference <= TF_TOLERANCE, f"{name} {width}x{height} to {to_width}x{to_height}: {difference} levels off"
            worst[name] = max(worst[name], difference)
    print("# largest difference in levels: " + ", ".join(f"{name} {value:.3f}" for name, value in worst.items()))


def test_sharp_methods_tensorflow():
    """What overshoots is cut off at 0 and 255, in each direction: waves that stay away from both. Rounding between the directions
    weighs as much as the weights without their signs: half a level becomes one with lanczos5."""
    tf = tensorflow()
    worst = {}
    for name, method in (("keyscubic", "bicubic"), ("lanczos3",) * 2, ("lanczos5",) * 2, ("gaussian",) * 2, ("mitchellcubic",) * 2):
        for seed, (width, height, to_width, to_height) in enumerate(sizes(20, 2)):
            image = Image.fromarray((np.asarray(smooth(width, height, seed)) // 3 + 85).astype(np.uint8))
            got = dump(saved(image), f"decode | resize {to_width}x{to_height} {name}").astype(float)
            want = tf.image.resize(np.asarray(image), (to_height, to_width), method=method).numpy()
            difference = float(np.abs(got - want).max())
            assert difference <= 1.5, f"{name} {width}x{height} to {to_width}x{to_height}: {difference} levels off"
            worst[name] = max(worst.get(name, 0), difference)
    print("# largest difference in levels: " + ", ".join(f"{name} {value:.3f}" for name, value in worst.items()))


def test_fit():
    import keras

    tf = tensorflow()
    for seed, (width, height, to_width, to_height) in enumerate(sizes(60, 5)):
        image = smooth(width, height, seed)
        text = f"decode | resize {to_width}x{to_height} bilinear fit="
        tensor = tf.constant(np.asarray(image))
        want = keras.preprocessing.image.smart_resize(tensor, (to_height, to_width)).numpy()
        got = dump(saved(image), text + "crop").astype(float)
        assert np.abs(got - want).max() <= TF_TOLERANCE, f"crop {width}x{height} to {to_width}x{to_height}"
        if min(to_width * height / width, to_height * width / height) < 1:
            continue  # TensorFlow has no image of no pixels
        got = dump(saved(image), text + "pad").astype(float)
        want = tf.image.resize_with_pad(np.asarray(image), to_height, to_width).numpy()
        assert np.abs(got - want).max() <= TF_TOLERANCE, f"pad {width}x{height} to {to_width}x{to_height}"


def certain(size, to):
    """Which outputs fall inside an input pixel, not on the edge of two: there rounding decides, and frameworks differ."""
    return np.array([(2 * i + 1) * size % (2 * to) != 0 for i in range(to)])


def test_nearest_tensorflow():
    tf = tensorflow()
    edges = 0
    for seed, (width, height, to_width, to_height) in enumerate(sizes(60, 3)):
        image = noise(width, height, seed)
        got = dump(saved(image), f"decode | resize {to_width}x{to_height} nearest")
        want = tf.image.resize(np.asarray(image), (to_height, to_width), method="nearest").numpy()
        inside = np.outer(certain(height, to_height), certain(width, to_width))
        assert (got[inside] == want[inside]).all(), f"{width}x{height} to {to_width}x{to_height}"
        edges += int((got != want).any())
    print(f"# nearest: equal but for pixels on an edge, in {edges} of {len(sizes(60, 3))} sizes")


def test_resize_short():
    for width, height, short in ((500, 375, 256), (375, 500, 256), (333, 333, 100), (97, 31, 64), (31, 97, 7)):
        got = dump(saved(noise(width, height, 1)), f"decode | resize short={short}")
        want = (short, int(short * width / height)) if width > height else (int(short * height / width), short)
        assert got.shape[:2] == want, f"{width}x{height}: {got.shape}, torchvision has {want}"


# ---- Cropping ----

def draws(count, width, height, text):
    done = subprocess.run([os.environ["OPS_DUMP"], "--draws", str(count), str(width), str(height), text], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return np.array([line.split() for line in done.stdout.decode().splitlines()], int)


def torchvision_box(width, height, scale, ratio, rng):
    """RandomResizedCrop.get_params, with Python's own random numbers."""
    for _ in range(10):
        area = width * height * rng.uniform(*scale)
        aspect = math.exp(rng.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = int(round(math.sqrt(area * aspect))), int(round(math.sqrt(area / aspect)))
        if 0 < w <= width and 0 < h <= height:
            y, x = rng.randint(0, height - h), rng.randint(0, width - w)
            return x, y, w, h
    if width / height < min(ratio):
        w, h = width, int(round(width / min(ratio)))
    elif width / height > max(ratio):
        w, h = int(round(height * max(ratio))), height
    else:
        w, h = width, height
    return (width - w) // 2, (height - h) // 2, w, h


def kolmogorov_smirnov(a, b):
    """The largest distance between two empirical distributions, in units of what chance allows (1 is p = 0.001)."""
    both = np.sort(np.concatenate([a, b]))
    distance = np.abs(np.searchsorted(np.sort(a), both, "right") / len(a) - np.searchsorted(np.sort(b), both, "right") / len(b)).max()
    return distance / (1.95 * math.sqrt((len(a) + len(b)) / (len(a) * len(b))))


def test_random_resized_crop():
    rng, count, worst = random.Random(5), 20000, 0
    settings = [(500, 375, (0.08, 1), (3 / 4, 4 / 3)), (100, 400, (0.08, 1), (3 / 4, 4 / 3)), (64, 64, (0.5, 0.9), (0.5, 2))]
    for width, height, scale, ratio in settings:
        text = f"random_resized_crop 224 scale={scale[0]},{scale[1]} ratio={ratio[0]!r},{ratio[1]!r}"
        ours = draws(count, width, height, text)
        theirs = np.array([torchvision_box(width, height, scale, ratio, rng) for _ in range(count)])
        views = {"width": lambda b: b[:, 2], "height": lambda b: b[:, 3], "area": lambda b: b[:, 2] * b[:, 3],
                 "ratio": lambda b: b[:, 2] / b[:, 3], "x": lambda b: b[:, 0], "y": lambda b: b[:, 1],
                 "centre": lambda b: b[:, 0] + b[:, 2] / 2}
        for name, view in views.items():
            distance = kolmogorov_smirnov(view(ours), view(theirs))
            assert distance < 1, f"{width}x{height} {name}: {distance:.2f} of the critical distance (p = 0.001)"
            worst = max(worst, distance)
    print(f"# {len(settings)} settings, 7 views of {count} draws: at most {worst:.2f} of the critical distance")


def test_random_crop():
    ours = draws(20000, 40, 30, "random_crop 32x24 padding=4")
    for column, places, low in ((0, 40 + 8 - 32 + 1, -4), (1, 30 + 8 - 24 + 1, -4)):
        counts = np.bincount(ours[:, column] - low, minlength=places)
        assert len(counts) == places and counts.min() > 0
        chi = ((counts - len(ours) / places) ** 2 / (len(ours) / places)).sum()
        assert abs(chi - (places - 1)) < 4 * math.sqrt(2 * (places - 1)), f"column {column}: chi-square {chi:.1f}"


def test_center_crop():
    for size in range(1, 60):
        for crop in range(1, 60):
            pad = (crop - size) // 2 if crop > size else 0  # torchvision pads first, then crops what it has
            start = int(round((max(size, crop) - crop) / 2.0)) - pad
            if size % 7 == crop % 7:
                got = draws(1, size, 10, f"center_crop {crop}x10")[0]
                assert tuple(got) == (start, 0, crop, 10), f"{size} to {crop}: {got}, torchvision has {start}"


# ---- Values ----

def test_normalize():
    levels = np.arange(256, dtype=np.uint8)
    image = Image.fromarray(np.stack([levels.reshape(16, 16)] * 3, -1))
    cases = {"": (0, 1), "-1..1": (0.5, 0.5), "imagenet": ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
             "mean=0.1,0.2,0.3 std=0.5": ([0.1, 0.2, 0.3], 0.5)}
    worst = 0
    for text, (mean, std) in cases.items():
        got = dump(saved(image), f"decode | normalize {text}")
        want = (np.asarray(image) / 255 - np.array(mean)) / np.array(std)
        worst = max(worst, float(np.abs(got - want).max()))
        planes = dump(saved(image), f"decode | normalize {text} | layout nchw")
        assert (planes == got.transpose(2, 0, 1)).all(), text
        halves = dump(saved(image), f"decode | normalize {text} | cast f16")
        assert (halves == got.astype(np.float16)).all(), text
    assert worst <= NORMALIZE_TOLERANCE, worst
    print(f"# largest difference from float64: {worst:.2e}")


# ---- Decoding ----

def test_exif():
    image = smooth(40, 28, 1)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        for kind, options in (("JPEG", dict(subsampling=0, quality=95)), ("PNG", {}), ("WEBP", dict(lossless=True))):
            data = saved(image, kind, exif=exif, **options)
            want = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")).astype(int)
            got = dump(data, "decode exif=true").astype(int)
            assert got.shape == want.shape, f"{kind}, orientation {orientation}: {got.shape}, Pillow has {want.shape}"
            assert np.abs(got - want).max() <= 1, f"{kind}, orientation {orientation}"
            crop = dump(data, "decode exif=true | crop 3 5 20 15")
            assert (crop == got[5:20, 3:23]).all(), f"{kind}, orientation {orientation}: a part of it"


def converted(planes, box, size, every):
    """Pillow's resize of `box` of each plane, as RGB. Colours have every second sample where `every` is 2."""
    resized = []
    for i, plane in enumerate(planes):
        x0, y0, x1, y1 = (side / (every if i else 1) for side in box)
        whole = (math.floor(x0), math.floor(y0), min(plane.width, math.ceil(x1)), min(plane.height, math.ceil(y1)))
        part = plane.crop(whole)  # what lies outside of the cut takes no part
        inner = (x0 - whole[0], y0 - whole[1], min(x1 - whole[0], part.width), min(y1 - whole[1], part.height))
        resized.append(part.resize(size, Image.Resampling.BILINEAR, box=inner))
    return np.asarray(Image.merge("YCbCr", resized).convert("RGB")).astype(int)


def test_fast_pillow():
    """Fast decoding is Pillow's resize of the planes, but for weights of 7 bits: a level in a plane, more in colours made of three."""
    worst, mean, count = 0, 0.0, 0
    for seed, (box, size) in enumerate([((0, 0, 101, 67), (40, 30)), ((7, 5, 90, 66), (40, 30)), ((31, 11, 52, 24), (64, 50)),
                                        ((8, 8, 49, 49), (41, 41)), ((1, 1, 100, 66), (60, 64))]):
        image = smooth(101, 67, seed)
        x0, y0, x1, y1 = box
        chain = f"decode quality=fast | crop {x0} {y0} {x1 - x0} {y1 - y0} | resize {size[0]}x{size[1]}"
        jpeg = saved(image, "JPEG", subsampling=0, quality=95)
        stored = Image.open(io.BytesIO(jpeg))
        stored.draft("YCbCr", stored.size)
        full = image.convert("YCbCr").split()
        coarse = [full[0]] + [plane.resize((51, 34), Image.Resampling.BOX, box=(0, 0, 101, 67)) for plane in full[1:]]
        planes = b"PSTYUV\x01\x03" + struct.pack("<II", 101, 67) + b"".join(plane.tobytes() for plane in coarse)
        for data, parts, every in ((jpeg, stored.split(), 1), (planes, coarse, 2)):
            off = np.abs(dump(data, chain).astype(int) - converted(parts, box, size, every))
            worst, mean, count = max(worst, int(off.max())), mean + float(off.mean()), count + 1
    assert worst <= 5 and mean / count < 0.7, (worst, mean / count)
    print(f"# fast against Pillow's planes: at most {worst} levels, {mean / count:.2f} on average")


def test_decode_tensorflow():
    tf = tensorflow()
    worst = 0
    for seed, subsampling in enumerate((0, 1, 2)):
        data = saved(smooth(101, 67, seed), "JPEG", subsampling=subsampling, quality=90)
        want = tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE").numpy().astype(int)
        got = dump(data, "decode").astype(int)
        worst = max(worst, int(np.abs(got - want).max()))
    assert worst <= 1, worst
    print(f"# jpeg against tf.io.decode_jpeg (INTEGER_ACCURATE): {worst} levels")


def test_decode_quality_tensorflow():
    tf = tensorflow()
    worst = differing = values = 0
    for i, (width, height) in enumerate([(1, 1), (17, 9), (64, 48), (131, 97)]):
        for image in (noise(width, height, i), smooth(width, height, i)):
            for options in ({}, {"subsampling": 0}, {"subsampling": 1}, {"progressive": True}, {"quality": 20}):
                data = saved(image, "JPEG", **options)
                theirs = tf.io.decode_jpeg(data, channels=3).numpy()
                ours = dump(data, "decode quality=tensorflow")
                off = np.abs(ours.astype(int) - theirs)
                worst, differing, values = max(worst, int(off.max())), differing + int((off > 0).sum()), values + off.size
                if width > 16:
                    part = dump(data, "decode quality=tensorflow | crop 5 2 7 6")
                    assert np.array_equal(part, ours[2:8, 5:12]), (width, height, options)
    assert worst == 0, f"{differing} of {values} values differ, by up to {worst} levels"


if __name__ == "__main__":
    tap.main(globals())
