"""A small labelled image set for the examples, drawn with the standard library: class folders of PNG files."""

from __future__ import annotations

import os
import random
import struct
import tempfile
import zlib

CLASSES = ("disc", "stripes")


def png(width: int, height: int, rows: list[bytes]) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def draw(kind: str, size: int, dice: random.Random) -> bytes:
    ink, paper = (bytes(dice.randrange(low, low + 90) for _ in range(3)) for low in (150, 10))
    x0, y0, radius, period = (
        dice.randrange(size),
        dice.randrange(size),
        dice.randrange(size // 4, size // 2),
        dice.randrange(4, 9),
    )
    if kind == "disc":
        rows = [b"".join(ink if (x - x0) ** 2 + (y - y0) ** 2 < radius**2 else paper for x in range(size)) for y in range(size)]
    else:
        rows = [b"".join(ink if (x + y0) // period % 2 else paper for x in range(size)) for _ in range(size)]
    return png(size, size, rows)


def photos(count: int = 240, size: int = 48) -> str:
    """The path of a folder that holds a folder of images for each class."""
    folder = os.path.join(tempfile.gettempdir(), f"penstock-toy-{os.getuid()}-{count}-{size}")
    if not os.path.exists(folder):
        dice, work = random.Random(7), tempfile.mkdtemp()
        for kind in CLASSES:
            os.mkdir(os.path.join(work, kind))
            for i in range(count // len(CLASSES)):
                with open(os.path.join(work, kind, f"{i:04d}.png"), "wb") as f:
                    f.write(draw(kind, size, dice))
        os.chmod(work, 0o755)
        try:
            os.rename(work, folder)
        except OSError:  # another example was quicker
            pass
    return folder
