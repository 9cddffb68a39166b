"""Images against Pillow: every kind that it or this file can write decodes to the same pixels, and resizing, colour
adjustment and encoding agree with it. The program under test is named by the environment variable IMAGE_DUMP.

All of it must be equal, byte for byte, except JPEG: Pillow brings its own libjpeg-turbo, which may be another version
than ours. Versions 2.1.5 (ours) and 3.2.0 (Pillow 13) were measured to be equal; JPEG_TOLERANCE levels are accepted.

We resize rows first, then columns. So did Pillow up to version 12; later ones begin with the columns where that is less
work, which rounds differently. The exact comparison therefore asks Pillow for one direction at a time; for one call with
both, ORDER_TOLERANCE levels are accepted and the measured difference is printed.
"""
import io
import os
import random
import struct
import subprocess
import zlib

import numpy as np
from PIL import Image, ImageEnhance

import tap

JPEG_TOLERANCE = 1
ORDER_TOLERANCE = 1
SIZES = [(1, 1), (2, 3), (7, 5), (8, 8), (17, 16), (33, 40), (100, 75)]


def dump(data, *arguments):
    """Runs the program on `data`; returns its standard output, or fails showing its error."""
    done = subprocess.run([os.environ["IMAGE_DUMP"], *map(str, arguments)], input=data, capture_output=True)
    assert done.returncode == 0, f"{arguments}: {done.stderr.decode()}"
    return done.stdout


def pixels(data, *arguments):
    """The image that the program prints, as height × width × channels."""
    head, body = dump(data, *arguments).split(b"\n", 1)
    width, height, channels = map(int, head.split())
    return np.frombuffer(body, np.uint8).reshape(height, width, channels)


def array(image):
    """A Pillow image as height × width × channels."""
    got = np.asarray(image)
    return got.reshape(image.height, image.width, -1)


def picture(mode, size, seed):
    """Smooth shapes with some noise, as a photograph has them."""
    rng = np.random.default_rng(seed)
    width, height = size
    y, x = np.mgrid[0:height, 0:width]
    waves = [128 + 60 * np.sin(x / (3 + c) + seed) + 50 * np.cos(y / (4 + c)) for c in range(4)]
    full = np.clip(np.stack(waves, -1) + rng.normal(0, 8, (height, width, 4)), 0, 255).astype(np.uint8)
    if mode == "CMYK":
        return Image.frombytes("CMYK", size, full.tobytes())
    image = Image.frombytes("RGBA", size, full.tobytes())
    if mode == "P":
        return image.convert("RGB").quantize(64)
    return image if mode == "RGBA" else image.convert(mode)


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def check(data, what, tolerance=0, gray=None):
    """Decodes as stored, as RGB, RGBA and gray; compares with Pillow. Returns the largest difference."""
    image = Image.open(io.BytesIO(data))
    image.load()
    if image.mode == "I;16":  # our rule: the upper 8 bits, as Pillow itself has it for 16-bit RGB
        image = Image.fromarray((array(image)[..., 0] >> 8).astype(np.uint8))
    opaque = image.convert("RGB")
    wanted = {3: array(opaque), 1: array(opaque.convert("L")) if gray is None else gray}
    if "transparency" in image.info or image.mode in ("LA", "RGBA", "PA"):
        wanted[4] = array(image.convert("RGBA"))
    else:
        wanted[4] = array(opaque.convert("RGBA"))
    worst = 0
    stored = pixels(data, "decode", 0)
    form, width, height, channels = dump(data, "probe").split()
    assert (int(width), int(height)) == image.size, f"{what}: probed {width} × {height}, Pillow has {image.size}"
    assert stored.shape[2] == (1 if int(channels) < 3 else 3), f"{what}: probed {channels} channels, decoded {stored.shape[2]}"
    for channels, want in list(wanted.items()) + [(0, wanted[stored.shape[2]])]:
        got = stored if channels == 0 else pixels(data, "decode", channels)
        assert got.shape == want.shape, f"{what}, {channels} channels: {got.shape}, Pillow has {want.shape}"
        difference = int(np.abs(got.astype(int) - want.astype(int)).max())
        assert difference <= tolerance, f"{what}, {channels} channels: {difference} levels off, at most {tolerance}"
        worst = max(worst, difference)
    return worst


# ---- JPEG ----

def stored_luma(data):
    image = Image.open(io.BytesIO(data))
    image.draft("L", image.size)
    return array(image) if image.mode == "L" else None


def test_jpeg():
    kinds = {
        "4:4:4": dict(subsampling=0), "4:2:2": dict(subsampling=1), "4:2:0": dict(subsampling=2),
        "progressive": dict(progressive=True), "4:4:4 progressive": dict(subsampling=0, progressive=True),
        "restarts": dict(restart_marker_rows=1), "optimised": dict(optimize=True), "low quality": dict(quality=8),
        "quality 100": dict(quality=100, subsampling=0), "rgb inside": dict(keep_rgb=True, subsampling=0),
    }
    worst, count = 0, 0
    for name, options in kinds.items():
        for seed, size in enumerate(SIZES + [(301, 203)]):
            data = saved(picture("RGB", size, seed), "JPEG", **options)
            gray = None if "rgb" in name else stored_luma(data)
            if "rgb" in name:  # libjpeg's own weights: within a level of Pillow's
                difference = np.abs(pixels(data, "decode", 1).astype(int) - array(Image.open(io.BytesIO(data)).convert("L")))
                assert difference.max() <= 1, f"{name} as gray: {difference.max()} levels off"
                gray = pixels(data, "decode", 1)
            worst = max(worst, check(data, f"jpeg {name} {size}", JPEG_TOLERANCE, gray))
            count += 1
    print(f"# jpeg: {count} colour images, largest difference {worst}")


def test_jpeg_gray_and_cmyk():
    worst = 0
    for seed, size in enumerate(SIZES):
        for options in (dict(), dict(progressive=True)):
            for mode in ("L", "CMYK"):
                data = saved(picture(mode, size, seed), "JPEG", **options)
                worst = max(worst, check(data, f"jpeg {mode} {size}", JPEG_TOLERANCE))
    print(f"# jpeg gray and cmyk: largest difference {worst}")


# ---- PNG ----

ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png_rows(samples, bits):
    """Rows of samples (height × width × channels) packed to bits, each with a filter byte; filters take turns."""
    out, before = b"", None
    step = max(1, samples.shape[2] * bits // 8)
    for y, row in enumerate(samples.reshape(samples.shape[0], -1)):
        if bits == 16:
            raw = row.astype(">u2").tobytes()
        elif bits == 8:
            raw = row.astype(np.uint8).tobytes()
        else:
            text = "".join(format(v, f"0{bits}b") for v in row)
            raw = int(text.ljust(-(-len(text) // 8) * 8, "0"), 2).to_bytes(-(-len(text) // 8), "big")
        raw, up = np.frombuffer(raw, np.uint8).astype(int), before
        up = np.zeros_like(raw) if up is None else up
        left = np.concatenate([np.zeros(step, int), raw[:-step]]) if len(raw) > step else np.zeros_like(raw)
        kind = y % 4
        guess = [np.zeros_like(raw), left, up, (left + up) // 2][kind]
        out += bytes([kind]) + ((raw - guess) % 256).astype(np.uint8).tobytes()
        before = raw
    return out


def png(samples, bits, colour, interlaced=False, palette=None, transparency=None, level=6):
    height, width = samples.shape[:2]
    if interlaced:
        parts = [samples[y::dy, x::dx] for x, y, dx, dy in ADAM7]
        body = b"".join(png_rows(part, bits) for part in parts if part.size)
    else:
        body = png_rows(samples, bits)
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, interlaced))
    out += chunk(b"gAMA", struct.pack(">I", 45455)) + chunk(b"tEXt", b"Comment\0of no importance")
    if palette is not None:
        out += chunk(b"PLTE", palette)
    if transparency is not None:
        out += chunk(b"tRNS", transparency)
    packed = zlib.compress(body, level)
    half = len(packed) // 2
    return out + chunk(b"IDAT", packed[:half]) + chunk(b"IDAT", packed[half:]) + chunk(b"IEND", b"")


def test_png_every_type():
    rng, count = np.random.default_rng(7), 0
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
    for colour, depths in {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}.items():
        for bits in depths:
            for interlaced in (False, True):
                for width, height in SIZES[:6]:
                    palette = rng.integers(0, 256, 3 << bits, np.uint8).tobytes() if colour == 3 else None
                    samples = rng.integers(0, 1 << bits, (height, width, channels[colour]))
                    data = png(samples, bits, colour, interlaced, palette)
                    check(data, f"png colour type {colour}, {bits} bits, interlaced {interlaced}, {width} × {height}")
                    count += 1
    print(f"# png: {count} images equal")


def test_png_transparency():
    rng = np.random.default_rng(8)
    for interlaced in (False, True):
        gray = rng.integers(0, 256, (9, 11, 1))
        check(png(gray, 8, 0, interlaced, transparency=struct.pack(">H", int(gray[0, 0, 0]))), "png gray with tRNS")
        low = rng.integers(0, 4, (9, 11, 1))  # Pillow takes this key for an 8-bit level: compared with the samples instead
        got = pixels(png(low, 2, 0, interlaced, transparency=struct.pack(">H", 2)), "decode", 4)
        want = np.concatenate([low * 85] * 3 + [np.where(low == 2, 0, 255)], axis=-1)
        assert (got == want).all(), "png 2-bit gray with tRNS"
        colour = rng.integers(0, 2, (9, 11, 3)) * 255
        check(png(colour, 8, 2, interlaced, transparency=struct.pack(">HHH", 255, 0, 255)), "png colour with tRNS")
        index = rng.integers(0, 16, (9, 11, 1))
        palette = rng.integers(0, 256, 48, np.uint8).tobytes()
        check(png(index, 4, 3, interlaced, palette, transparency=bytes([0, 100, 200])), "png palette with tRNS")


def test_png_from_pillow():
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA"):
        for seed, size in enumerate(SIZES):
            check(saved(picture(mode, size, seed), "PNG"), f"png {mode} {size}")


# ---- WebP ----

def test_webp():
    for seed, size in enumerate(SIZES):
        for mode in ("RGB", "RGBA"):
            image = picture(mode, size, seed)
            for options in (dict(lossless=True), dict(lossless=True, exact=True), dict(quality=80), dict(quality=20, method=0)):
                check(saved(image, "WEBP", **options), f"webp {mode} {size} {options}")
        exif = b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0"
        check(saved(picture("RGB", size, seed), "WEBP", lossless=True, exif=exif), f"webp with EXIF {size}")


# ---- BMP ----

def bmp(width, height, bits, body, compression=0, palette=b"", masks=b"", header=40, top_down=False):
    info = struct.pack("<IiiHHIIiiII", header, width, -height if top_down else height, 1, bits, compression, len(body), 0, 0,
                       len(palette) // 4, 0)
    inside = masks if header > 40 else b""
    info += inside.ljust(header - 40, b"\0")
    tail = (b"" if header > 40 else masks) + palette
    start = 14 + len(info) + len(tail)
    return b"BM" + struct.pack("<IHHI", start + len(body), 0, 0, start) + info + tail + body


def bmp_rows(values, bits):
    out = b""
    for row in values:
        if bits == 4:
            raw = bytes((int(a) << 4) | int(b) for a, b in zip(row[::2], list(row[1::2]) + [0]))
        elif bits == 1:
            raw = np.packbits(np.asarray(row, np.uint8)).tobytes()
        else:
            raw = np.asarray(row).astype({8: np.uint8, 16: "<u2", 32: "<u4"}[bits]).tobytes()
        out += raw.ljust(-(-len(raw) // 4) * 4, b"\0")
    return out


def test_bmp():
    rng = np.random.default_rng(9)
    for mode in ("1", "L", "P", "RGB", "RGBA"):
        for seed, size in enumerate(SIZES):
            check(saved(picture(mode, size, seed), "BMP"), f"bmp {mode} {size}")
    for width, height in SIZES:
        for top_down in (False, True):
            for bits in (1, 4, 8):
                palette = rng.integers(0, 256, 4 << bits, np.uint8).tobytes()
                values = rng.integers(0, 1 << bits, (height, width))
                check(bmp(width, height, bits, bmp_rows(values, bits), palette=palette, top_down=top_down), f"bmp {bits} bits")
            wide = rng.integers(0, 1 << 16, (height, width))
            check(bmp(width, height, 16, bmp_rows(wide, 16), top_down=top_down), "bmp 16 bits")
            for masks in ((0xF800, 0x7E0, 0x1F), (0x7C00, 0x3E0, 0x1F)):
                data = bmp(width, height, 16, bmp_rows(wide, 16), 3, masks=struct.pack("<III", *masks))
                check(data, f"bmp 16 bits, masks {masks}")
            full = rng.integers(0, 1 << 32, (height, width), np.uint32)
            check(bmp(width, height, 32, bmp_rows(full, 32), top_down=top_down), "bmp 32 bits")
            for masks in ((0xFF0000, 0xFF00, 0xFF, 0), (0xFF000000, 0xFF0000, 0xFF00, 0), (0xFF, 0xFF00, 0xFF0000, 0xFF000000),
                          (0xFF0000, 0xFF00, 0xFF, 0xFF000000), (0xFF000000, 0xFF0000, 0xFF00, 0xFF)):
                for header in (56, 108, 124):
                    data = bmp(width, height, 32, bmp_rows(full, 32), 3, masks=struct.pack("<IIII", *masks), header=header)
                    check(data, f"bmp 32 bits, masks {masks}, header {header}")


def rle(values, bits, rng):
    """Rows as runs, absolute runs where they pay, and ends of line."""
    out = b""
    for row in values:
        x = 0
        while x < len(row):
            run = 1
            while x + run < len(row) and row[x + run] == row[x] and run < 255:
                run += 1
            literal = min(int(rng.integers(3, 12)), len(row) - x)
            if run < 3 and literal >= 3:
                part = [int(v) for v in row[x:x + literal]]
                raw = bytes(part) if bits == 8 else bytes((a << 4) | b for a, b in zip(part[::2], part[1::2] + [0]))
                out += bytes([0, literal]) + raw + b"\0" * (len(raw) % 2)
                x += literal
            else:
                out += bytes([run, int(row[x]) if bits == 8 else int(row[x]) * 17])
                x += run
        out += b"\0\0"
    return out + b"\0\1"


def test_bmp_runs():
    rng = np.random.default_rng(10)
    for width, height in SIZES:
        for bits in (4, 8):
            palette = rng.integers(0, 256, 4 << bits, np.uint8).tobytes()
            values = np.repeat(rng.integers(0, 1 << bits, (height, width)), 3, axis=1)[:, :width]
            data = bmp(width, height, bits, rle(values, bits, rng), 1 if bits == 8 else 2, palette)
            check(data, f"bmp rle{bits} {width} × {height}")


# ---- GIF ----

def test_gif():
    for seed, size in enumerate(SIZES + [(400, 300)]):
        for mode in ("1", "L", "P"):
            for interlace in (0, 1):
                check(saved(picture(mode, size, seed), "GIF", interlace=interlace), f"gif {mode} {size} interlaced {interlace}")
        check(saved(picture("P", size, seed), "GIF", transparency=5), f"gif with transparency {size}")
        noise = Image.frombytes("P", size, random.Random(seed).randbytes(size[0] * size[1]))
        noise.putpalette(random.Random(seed).randbytes(768))
        check(saved(noise, "GIF"), f"gif noise {size}")
    frames = [picture("P", (20, 15), seed) for seed in range(3)]
    check(saved(frames[0], "GIF", save_all=True, append_images=frames[1:]), "gif animation")


def test_gif_on_a_larger_screen():
    for transparency in (None, 3):
        options = {} if transparency is None else dict(transparency=transparency)
        data = bytearray(saved(picture("P", (9, 7), 1), "GIF", interlace=0, **options))
        data[6:10] = struct.pack("<HH", 20, 16)
        at = data.index(b"\x2c" + struct.pack("<HHHH", 0, 0, 9, 7))
        for x, y in ((0, 0), (5, 4), (11, 9), (15, 12)):  # the last leaves the screen
            data[at + 1:at + 5] = struct.pack("<HH", x, y)
            check(bytes(data), f"gif frame at {x}, {y}, transparency {transparency}")


# ---- Resizing, colours, encoding ----

def test_resize():
    rng = random.Random(11)
    cases = [(500, 375, 224, 224), (330, 330, 224, 224), (640, 480, 320, 240), (100, 100, 50, 50), (64, 64, 200, 200),
             (300, 200, 299, 201), (200, 200, 190, 190), (20, 20, 19, 19), (49, 49, 1, 7), (98, 98, 2, 2), (1, 1, 50, 40),
             (50, 40, 1, 1), (3000, 2, 1, 1), (2, 1, 1000, 3), (16384, 1, 2, 1), (2, 1, 16384, 1), (10000, 3, 1, 2)]
    cases += [tuple(rng.randrange(1, 260) for _ in range(4)) for _ in range(80)]
    other, worst, count = 0, 0, 0
    for seed, (width, height, to_width, to_height) in enumerate(cases):
        mode = ("RGB", "L")[seed // 2 % 2]
        image = picture(mode, (width, height), seed)
        if seed % 2:
            image = Image.frombytes(mode, image.size, rng.randbytes(width * height * len(image.getbands())))
        data = saved(image, "PNG", compress_level=1)
        for kind, name in ((Image.Resampling.BILINEAR, "triangle"), (Image.Resampling.NEAREST, "nearest")):
            what = f"{name} {width} × {height} to {to_width} × {to_height}"
            got = pixels(data, "resize", to_width, to_height, name).astype(int)
            want = array(image.resize((to_width, height), kind).resize((to_width, to_height), kind))
            assert got.shape == want.shape and (got == want).all(), what
            at_once = np.abs(got - array(image.resize((to_width, to_height), kind)))
            assert at_once.max() <= ORDER_TOLERANCE, f"{what} in one call: {at_once.max()} levels off"
            other, worst, count = other + int((at_once > 0).sum()), max(worst, int(at_once.max())), count + got.size
    print(f"# resize: {len(cases)} sizes, two filters, equal; in one call {other / count:.2%} of the values differ, by {worst}")


def test_adjust():
    rng = random.Random(12)
    for seed in range(30):
        image = picture(("RGB", "L")[seed % 2], (40, 30), seed)
        factors = [rng.choice([0, 0.25, 0.5, 0.8, 1, 1.1, 1.5, 2, 3.7]) for _ in range(3)]
        want = ImageEnhance.Brightness(image).enhance(factors[0])
        want = ImageEnhance.Contrast(want).enhance(factors[1])
        want = ImageEnhance.Color(want).enhance(factors[2]) if image.mode == "RGB" else want
        got = pixels(saved(image, "PNG"), "adjust", *factors)
        assert (got == array(want)).all(), f"{image.mode}, factors {factors}"


def test_encode():
    for seed, size in enumerate(SIZES):
        for mode in ("RGB", "L", "RGBA"):
            image = picture(mode, size, seed)
            opaque = image if mode != "RGBA" else image.convert("RGB")
            data = saved(image if mode != "RGBA" else opaque, "PNG")
            for kind in ("png", "lossless", "bmp"):
                back = Image.open(io.BytesIO(dump(data, "encode", kind, 0)))
                assert (array(back.convert("RGB")) == array(opaque.convert("RGB"))).all(), f"{kind} {mode} {size}"
            for kind in ("jpeg", "webp"):
                encoded = dump(data, "encode", kind, 85)
                check(encoded, f"our {kind} {mode} {size}", JPEG_TOLERANCE, stored_luma(encoded) if kind == "jpeg" else None)


if __name__ == "__main__":
    tap.main(globals())
