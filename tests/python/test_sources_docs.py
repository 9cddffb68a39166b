"""Every example of docs/sources.md runs: the shell commands, the Python and the C program, on small files of the same names."""

import array
import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import penstock as ps
import tap

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
TOOL = os.environ["PENSTOCK"]
BUILD = os.path.join(os.path.dirname(TOOL), "..")


def blocks(language):
    with open(os.path.join(ROOT, "docs", "sources.md"), encoding="utf-8") as f:
        return re.findall(rf"^```{language}\n(.*?)^```$", f.read(), re.M | re.S)


def make(folder):
    """The files that the page names."""
    rows = "rooms,area,price\n" + "".join(f"{1 + i % 5},{40 + i}.5,{100 + i * 3}\n" for i in range(40))
    with open(f"{folder}/houses.csv", "w") as f:
        f.write(rows)
    with gzip.open(f"{folder}/houses.csv.gz", "wt") as f:
        f.write(rows)
    os.mkdir(f"{folder}/web")
    bmp = (b"BM" + (54 + 12 * 12 * 3).to_bytes(4, "little") + bytes(4) + (54).to_bytes(4, "little") + (40).to_bytes(4, "little")
           + (12).to_bytes(4, "little") * 2 + b"\x01\0\x18\0" + bytes(24) + bytes(12 * 12 * 3))
    for part in range(2):
        with tarfile.open(f"{folder}/web/web-{part:03d}.tar", "w") as tar:
            for i in range(4):
                for extension, data in (("png", bmp), ("cls", b"3"), ("txt", b"a photo")):
                    member = tarfile.TarInfo(f"s{part}{i}.{extension}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    with open(f"{folder}/train.bin", "wb") as f:
        array.array("H", range(100)).tofile(f)
    with open(f"{folder}/cifar.bin", "wb") as f:
        f.write(bytes(3073 * 5))
    with open(f"{folder}/book.txt", "w") as f:
        f.write("one\n\ntwo\nthree\n")


def inside(run):
    folder = tempfile.mkdtemp(prefix="penstock-docs-")
    before = os.getcwd()
    try:
        make(folder)
        os.chdir(folder)
        run()
    finally:
        os.chdir(before)
        shutil.rmtree(folder)


def test_shell():
    def run():
        commands = blocks("sh")
        assert len(commands) >= 5
        path = os.path.dirname(os.path.abspath(TOOL)) + os.pathsep + os.environ["PATH"]
        for block in commands:
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], capture_output=True, text=True, env={**os.environ, "PATH": path})
            assert done.returncode == 0 and done.stdout, f"{block}\n{done.stdout}\n{done.stderr}"
    inside(run)


def test_python():
    def run():
        examples = blocks("python")
        assert len(examples) >= 4
        for block in examples:
            lines = [line for line in block.splitlines() if "hdf5(" not in line]  # without h5py there is no such file to make
            scope = {"ps": ps}
            exec("\n".join(lines), scope)
            if "ds" in scope:
                assert len([batch for batch in scope["ds"]]) > 0, block
    inside(run)


def test_c():
    compiler = shutil.which("cc")
    if not compiler:
        raise tap.Skip("no C compiler")

    def run():
        (program,) = blocks("c")
        with open("example.c", "w") as f:
            f.write(program)
        library = os.path.abspath(os.path.join(BUILD, "src"))
        subprocess.run([compiler, "-std=c11", "-Wall", "-Werror", "example.c", "-o", "example", "-I" + os.path.join(ROOT, "include"),
                        "-I" + os.path.join(BUILD, "include"), "-L" + library, "-lpenstock", "-Wl,-rpath," + library], check=True)
        done = subprocess.run(["./example"], capture_output=True, text=True, check=True)
        assert done.stdout.count("4 elements, the first has") == 10, done.stdout
    inside(run)


if __name__ == "__main__":
    tap.main(globals())
