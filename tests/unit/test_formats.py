"""The archives that Python's tarfile, zipfile, gzip and zlib write are found to hold what was put into them."""
import gzip
import io
import os
import pathlib
import random
import subprocess
import tarfile
import tempfile
import zipfile
import zlib

import tap

DUMP = os.environ["DUMP_FORMATS"]


def dump(kind, data):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "file"
        path.write_bytes(data)
        return subprocess.run([DUMP, kind, path], capture_output=True, check=False)


def lines(kind, data):
    done = dump(kind, data)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.decode().splitlines()]
    return [(bytes.fromhex(row[0]), *map(int, row[1:])) for row in rows]


def refused(kind, data, status, words):
    done = dump(kind, data)
    assert done.returncode == 1 and status in done.stderr.decode() and words in done.stderr.decode(), done


def names_and_contents():
    rng = random.Random(5)
    names = ["a.jpg", "folder/b.cls", "x" * 99, "x" * 100, "deep/" * 18 + "file.json", "été/ünïcode.png"]
    names += ["..", "/absolute", "../up"]
    return [(name, rng.randbytes(rng.choice((0, 1, 511, 512, 513, 5000)))) for name in names]


def make_tar(kind, members, **extra):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind, **extra) as archive:
        for number, (name, data) in enumerate(members):
            folder = tarfile.TarInfo(f"folder{number}")
            folder.type = tarfile.DIRTYPE
            archive.addfile(folder)
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
            link = tarfile.TarInfo(f"link{number}")
            link.type, link.linkname = tarfile.SYMTYPE, name
            archive.addfile(link)
    return out.getvalue()


def check_tar(data, members):
    found = lines("tar", data)
    assert [name.decode() for name, _, _ in found] == [name for name, _ in members], found
    for (_, offset, size), (_, content) in zip(found, members):
        assert data[offset : offset + size] == content


def test_tar_ustar():
    members = names_and_contents()
    check_tar(make_tar(tarfile.USTAR_FORMAT, members), members)


def test_tar_gnu():
    members = names_and_contents() + [("g" * 300, b"long"), ("h/" * 2000 + "i", b"longer")]
    check_tar(make_tar(tarfile.GNU_FORMAT, members), members)


def test_tar_pax():
    members = names_and_contents() + [("p" * 300, b"long"), ("q/" * 2000 + "r", b"longer"), ("line\nbreak=x", b"odd")]
    check_tar(make_tar(tarfile.PAX_FORMAT, members), members)
    check_tar(make_tar(tarfile.PAX_FORMAT, members, pax_headers={"comment": "global"}), members)


def test_tar_every_cut_at_a_block():
    members = [("a", b"1" * 600), ("p" * 300, b"2")]
    data = make_tar(tarfile.PAX_FORMAT, members)
    for end in range(0, 8 * 512, 256):
        done = dump("tar", data[:end])
        assert done.returncode in (0, 1), done


def make_zip(members, method, comment=b"", wide=False, streamed=False):
    class Pipe(io.BytesIO):  # cannot seek: the writer must use data descriptors
        def seekable(self):
            return False

        def seek(self, *_):
            raise io.UnsupportedOperation

        def tell(self):
            raise io.UnsupportedOperation

    out = Pipe() if streamed else io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.mkdir("folder/")
        for name, data in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            with archive.open(info, "w", force_zip64=wide) as member:
                member.write(data)
        archive.comment = comment
    return out.getvalue()


def check_zip(data, members, method):
    found = lines("zip", data)
    assert [row[0].decode() for row in found] == [name for name, _ in members], found
    for (_, offset, size, stored, crc, deflated), (_, content) in zip(found, members):
        assert size == len(content) and crc == zlib.crc32(content) and deflated == (method == zipfile.ZIP_DEFLATED)
        raw = data[offset : offset + stored]
        assert (zlib.decompress(raw, wbits=-15) if deflated else raw) == content


def test_zip():
    members = names_and_contents()
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        for comment in (b"", b"c" * 1000, b"PK\5\6" * 5000):
            for wide in (False, True):
                for streamed in (False, True):
                    check_zip(make_zip(members, method, comment, wide, streamed), members, method)


def test_zip_wide_directory():
    """More entries than 16 bits count, so that the end record itself is Zip64."""
    members = [(f"m{i}", b"") for i in range(66000)]
    check_zip(make_zip(members, zipfile.ZIP_STORED), members, zipfile.ZIP_STORED)


def test_zip_other_methods():
    refused("zip", make_zip([("a", b"x" * 100)], zipfile.ZIP_BZIP2), "PST_EUNSUPPORTED", "a is compressed by method 12")
    refused("zip", b"text" * 100, "PST_ECORRUPT", "not a zip")


def test_streams():
    rng = random.Random(6)
    text = b"".join(rng.choice((b"penstock ", b"turbine ", rng.randbytes(50))) for _ in range(20000))
    members = b"".join(gzip.compress(text[at : at + 77777]) for at in range(0, len(text), 77777))
    packed = [("gzip", gzip.compress(text)), ("gzip", members), ("gzip", members + bytes(512)), ("zlib", zlib.compress(text))]
    for kind, data in packed:
        for named in (kind, "auto"):
            done = dump(named, data)
            assert done.returncode == 0 and done.stdout == text, done.stderr
        refused(kind, data[:-1] if data[-1] else data + b"x", "PST_ECORRUPT", "")
    refused("gzip", gzip.compress(text) + b"garbage", "PST_ECORRUPT", "gzip")


def test_gzip_with_name_and_comment():
    out = io.BytesIO()
    with gzip.GzipFile("a name.txt", "wb", fileobj=out, mtime=12345) as f:
        f.write(b"hello")
    assert dump("auto", out.getvalue()).stdout == b"hello"


if __name__ == "__main__":
    tap.main(globals())
