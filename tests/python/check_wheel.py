"""An installed wheel: the README's Python quick start runs as printed, and every library that is not the system's is the
wheel's own.

check_wheel.py README.md
"""

import os
import re
import sys
import tempfile

import penstock as ps

SYSTEM = (
    "libc.so",
    "libm.so",
    "libpthread",
    "libdl.so",
    "librt.so",
    "libgcc_s",
    "libstdc++",
    "ld-linux",
    "libutil",
    "libz.so",
    "libbz2",
    "liblzma",
)  # the last are also Python's own


def quick_start(readme):
    with open(readme) as f:
        section = f.read().split("## From Python", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"```python\n(.*?)```", section, re.S)


def main():
    package = os.path.dirname(os.path.dirname(os.path.abspath(ps.__file__)))
    assert package.startswith(sys.prefix), f"penstock comes from {package}, not from this environment"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        _images()
        scope = {}
        for block in quick_start(sys.argv[1]):
            exec(compile(block, "README.md", "exec"), scope)
    with open("/proc/self/maps") as f:
        libraries = {line.split(maxsplit=5)[5].strip() for line in f if ".so" in line}
    python = os.path.realpath(sys.base_prefix)
    foreign = [
        path
        for path in libraries
        if not path.startswith((package, python))
        and "lib-dynload" not in path
        and not os.path.basename(path).startswith(SYSTEM)
    ]
    assert not foreign, f"from the system: {foreign}"
    print(
        f"the quick start works; {len([p for p in libraries if 'penstock' in os.path.basename(os.path.dirname(p))])} libraries inside"
    )


def _images():
    """photos/: class folders, as the quick start expects them."""
    for label, name in enumerate(("cat", "dog")):
        os.makedirs(os.path.join("photos", name))
        for i in range(40):
            pixels = bytes((x * (label + 1) + y * 3 + i * 7) % 256 for y in range(64) for x in range(80) for _ in range(3))
            with open(os.path.join("photos", name, f"{i}.png"), "wb") as f:
                f.write(ps._core.encode_png(pixels, 80, 64, 3))


if __name__ == "__main__":
    main()
