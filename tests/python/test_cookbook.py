"""Every recipe of docs/cookbook.md, as text, in C and in Python: the same batches, byte by byte."""
import array
import gzip
import io
import os
import re
import shutil
import struct
import subprocess
import tarfile
import tempfile

import penstock as ps
import tap

HERE = os.path.dirname(os.path.abspath(__file__))
HOME = os.path.join(HERE, "..", "..")
TOOL = os.path.abspath(os.environ["PENSTOCK"])
LIBRARY = os.path.join(os.path.dirname(TOOL), "..", "src")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
BATCHES = 4
MOST = (1 << 64) - 1

PROGRAM = r"""
#include <inttypes.h>
#include <penstock/pipeline.h>
#include <stdio.h>

static uint64_t digest(uint64_t h, const void *data, size_t length)
{
    for (size_t i = 0; i < length; i++)
        h = (h ^ ((const uint8_t *)data)[i]) * UINT64_C(0x100000001b3);
    return h;
}

static uint64_t digest_batch(uint64_t h, const pst_batch *b)
{
    for (size_t f = 0; f < pst_batch_fields(b); f++) {
        const pst_tensor *t = pst_batch_at(b, f);
        size_t values = t->row_splits ? (size_t)t->row_splits[t->shape[0]] : 1; /* rows of all elements */
        for (uint32_t d = t->row_splits ? 2 : 0; d < t->rank; d++)
            values *= (size_t)t->shape[d];
        if (t->dtype != PST_DTYPE_BYTES)
            h = digest(h, t->data, values * pst_dtype_size(t->dtype));
        for (size_t i = 0; t->dtype == PST_DTYPE_BYTES && i < values; i++)
            h = digest(h, ((const pst_bytes *)t->data)[i].data, ((const pst_bytes *)t->data)[i].length);
    }
    return h;
}

static void finish(pst_pipeline *p, const pst_error *built)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    pst_batch *b;
    pst_error e = *built;
    for (int i = 0; i < %(batches)d; i++) {
        pst_status st = pst_pipeline_next(p, &b, &e);
        if (st == PST_END)
            break;
        if (st < 0) {
            printf("%%s: %%s\n", e.op, e.message);
            goto end;
        }
        h = digest_batch(h, b);
        pst_batch_unref(b);
    }
    printf("%%016" PRIx64 "\n", h);
end:
    pst_pipeline_destroy(p);
}

int main(void)
{
    pst_error e = {0};
%(recipes)s
    return 0;
}
"""


def recipes():
    """(title, {language: code}) of every recipe."""
    with open(os.path.join(HOME, "docs", "cookbook.md")) as f:
        page = f.read()
    for part in page.split("\n## ")[1:]:
        blocks = dict(FENCE.findall(part))
        if blocks:
            yield part.splitlines()[0], blocks


def fnv(digest, data):
    for byte in bytes(data):
        digest = (digest ^ byte) * 0x100000001B3 & MOST
    return digest


def digest_of(ds):
    h = 0xCBF29CE484222325
    for _, batch in zip(range(BATCHES), ds):
        for _, tensor in batch.items():
            if tensor.dtype == "bytes":
                for value in tensor.tolist():
                    h = fnv(h, value)
            else:
                h = fnv(h, memoryview(tensor if tensor.row_splits is None else tensor.values).cast("B"))
    return f"{h:016x}"


def npy(path, shape, data):
    head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (-(10 + len(head) + 1) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)


def make_data():
    def run(*arguments):
        subprocess.run([TOOL, *arguments], check=True, stdout=subprocess.DEVNULL)

    run("generate", "photos", "--images", "24", "--classes", "3", "--size", "40", "--format", "jpeg", "-q")
    run("generate", "others", "--images", "12", "--classes", "3", "--size", "40", "--format", "jpeg", "--seed", "1", "-q")
    run("pack", "photos", "shards", "--shards", "3", "-q")
    run("pack", "others", "more", "--shards", "1", "-q")
    run("pack", "photos", "zipped", "--shards", "2", "--compress", "gzip", "-q")
    npy("mask.npy", (24, 4, 4), bytes(array.array("B", (i % 251 for i in range(24 * 16)))))
    names = [os.path.join(folder, name) for folder, _, files in sorted(os.walk("photos")) for name in sorted(files)]
    with open("list.csv", "w") as f:
        f.write("path,label\n" + "".join(f"{name},{i % 3}\n" for i, name in enumerate(names)))
    npy("labels.npy", (24,), bytes(i % 3 for i in range(24)))
    make_records()
    make_tables()


def make_records():
    """Examples with raw bytes, and with sequences of different lengths."""
    for folder in ("raw", "sentences"):
        os.mkdir(folder)
    with ps.TFRecordWriter("raw/a.tfrecord") as writer:
        for i in range(24):
            pixels = bytes((7 * i + k) % 256 for k in range(48))
            writer.write(ps.Example(image=pixels, label=i % 3, data=struct.pack("<2f", i, 255 - i)))
    with ps.TFRecordWriter("sentences/a.tfrecord") as writer:
        for i in range(30):
            writer.write(ps.Example(words=list(range(1 + i * 7 % 11)), label=i % 3))


def make_tables():
    """A table, a tar, tokens, compressed text."""
    with open("houses.csv", "w") as f:
        f.write("rooms,area,price\n" + "".join(f"{i % 5 or ''},{40 + i}.5,{100 + i * 3}\n" for i in range(40)))
    os.mkdir("web")
    with tarfile.open("web/web-000.tar", "w") as tar:
        for i in range(10):
            for extension, data in (("txt", b"text %d" % i), ("cls", b"%d" % (i % 3))):
                member = tarfile.TarInfo(f"s{i}.{extension}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    with open("train.bin", "wb") as f:
        array.array("H", range(300)).tofile(f)
    with gzip.open("book.txt.gz", "wt") as f:
        f.write("".join(f"line {i}\n\n" for i in range(20)))


def in_c(codes):
    """The digests that the C recipes print."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if not compiler:
        return None
    body = "".join(
        "    {\n        pst_pipeline *p = NULL;\n        pst_pipeline_create(&p, NULL, &e);\n"
        + "".join(f"        {line}\n" for line in code.splitlines()) + "        finish(p, &e);\n    }\n" for code in codes)
    with open("recipes.c", "w") as f:
        f.write(PROGRAM % {"batches": BATCHES, "recipes": body})
    subprocess.run([compiler, "-std=c11", "-Wall", "-Werror", "-I", os.path.join(HOME, "include"), "recipes.c", "-o", "recipes",
                    "-L", LIBRARY, "-lpenstock", f"-Wl,-rpath,{LIBRARY}"], check=True)
    return subprocess.run([os.path.abspath("recipes")], check=True, capture_output=True, text=True).stdout.splitlines()


def test_recipes():
    found = list(recipes())
    assert len(found) >= 30, found
    folder = tempfile.mkdtemp()
    before = os.getcwd()
    os.chdir(folder)
    try:
        make_data()
        compiled = in_c([blocks["c"] for _, blocks in found if "c" in blocks])
        for title, blocks in found:
            assert set(blocks) == {"text", "c", "python"}, (title, set(blocks))
            want = digest_of(ps.pipeline(blocks["text"].strip()))
            scope = {"ps": ps}
            exec(blocks["python"], scope)
            assert digest_of(scope["ds"]) == want, f"{title}: Python differs from the text"
            if compiled is not None:
                got = compiled.pop(0)
                assert got == want, f"{title}: C gives {got}, the text {want}"
    finally:
        os.chdir(before)
        shutil.rmtree(folder)


if __name__ == "__main__":
    tap.main(globals())
