"""An installed wheel: the README's Python quick start runs as printed and prints what it says, importing is quick and needs no
other package, and every library that is not the system's is the wheel's own.

check_wheel.py README.md
"""

import os
import re
import subprocess
import sys
import tempfile

import penstock as ps

IMPORT_MS = 50  # of CPU time: waiting for a busy machine does not count
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


def check_quick_start(readme):
    """Each block is a program of its own, run by a fresh interpreter in a folder that holds photos. Where a line of it ends in a
    comment with what it prints, that is what it prints, up to a …"""
    blocks = quick_start(readme)
    assert blocks, f"{readme} has no quick start"
    for block in blocks:
        with open("quick_start.py", "w") as f:
            f.write(block)
        done = subprocess.run([sys.executable, "quick_start.py"], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        for promised in re.findall(r"^print\(.*\) +# ([{\[(].*)$", block, re.M):
            assert promised.split("…")[0] in done.stdout, f"{promised} is not in\n{done.stdout}"


TIMED = """
import sys, time
before, wall, cpu = set(sys.modules), time.perf_counter(), time.process_time()
import penstock
print(1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - cpu))
print(*({name.split(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))
"""


def check_import():
    """The best of 20 fresh processes: (wall, CPU) in ms."""
    best = [float("inf")] * 2
    for _ in range(20):
        times, modules = subprocess.run([sys.executable, "-c", TIMED], check=True, capture_output=True, text=True).stdout.splitlines()
        assert modules == "penstock", f"importing it imports {modules}"
        best = [min(a, float(b)) for a, b in zip(best, times.split())]
    assert best[1] <= IMPORT_MS, f"importing takes {best[1]:.1f} ms of CPU time"
    return best


def check_libraries(package):
    """How many are the wheel's own, once everything is loaded."""
    list(ps.folder("photos").decode().resize(8).batch(4))
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
    return len([path for path in libraries if path.startswith(package)])


def main():
    readme = os.path.abspath(sys.argv[1])
    package = os.path.dirname(os.path.dirname(os.path.abspath(ps.__file__)))
    assert package.startswith(sys.prefix), f"penstock comes from {package}, not from this environment"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        _images()
        check_quick_start(readme)
        libraries = check_libraries(package)
        os.chdir("/")
    wall, cpu = check_import()
    print(f"the quick start works as printed; imported in {wall:.1f} ms ({cpu:.1f} of CPU time); {libraries} libraries inside")


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
