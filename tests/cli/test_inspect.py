"""`penstock inspect`: the report, its JSON, damage and exit codes, contact sheets, training logs, names that mean no good."""
import gzip
import os
import pty
import struct
import subprocess
import zlib

import tap
from tool import PENSTOCK, environment, example, field, frame, penstock, report, scratch, tree, unprivileged, varint


def png(width, height, shade):
    """A gray picture, from the standard library alone."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes([shade] * width)) * height
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def item(i, **extra):
    return example(image=[png(20 + i % 4, 10, i % 256)], label=[i % 3], key=[b"item-%03d" % i], score=[i / 4, -1.0], **extra)


def write(path, records, compressed=False):
    data = b"".join(map(frame, records))
    with gzip.open(path, "wb") if compressed else open(path, "wb") as f:
        f.write(data)
    return path


def dataset(folder, count=30, shards=2):
    items = [item(i) for i in range(count)]
    for s in range(shards):
        write(f"{folder}/set-train.tfrecord-{s:05}-of-{shards:05}", items[s::shards])
    with open(f"{folder}/labels.txt", "w") as f:
        f.write("cat\ndog\nbird\n")
    return folder


def feature(found, name):
    return next(f for f in found["features"] if f["name"] == name)


# ---- The report ----

def test_report():
    with scratch() as folder:
        text = penstock("inspect", dataset(folder)).out
        lines = text.splitlines()
        assert lines[0].startswith("30 records in 2 shards, ") and lines[0].endswith(", not compressed, tf.train.Example"), text
        for want in ("Shards       15 records each", "Index        2 beside the shards (2 made just now)", "Features     4",
                     'Images       30 in "image": png; gray', "width 20 to 23, mean 21; height 10; ",
                     'Classes      3 in "label", 10 records each', "  1  dog          10  ████", "Damage       none found; --verify",
                     '  score  float[2]     all  -1 to 7.25, mean 1.312', '  key    bytes        all  text, 8 bytes: "item-000"'):
            assert want in text, f"{want!r} is missing\n{text}"
        again = penstock("inspect", folder).out
        assert "Index        2 beside the shards\n" in again
        assert again.splitlines()[-1] == lines[-1], "the fingerprint is that of the data"
        assert penstock("inspect", folder, "--quiet").out == ""
        verbose = penstock("inspect", folder, "-v").out
        assert f"{folder}/set-train.tfrecord-00001-of-00002" in verbose
        assert "\x1b" not in text


def test_json():
    with scratch() as folder:
        found = report("inspect", dataset(folder))
        assert found["command"] == "inspect" and found["content"] == "examples"
        assert (found["records"], found["parsed"], found["verified"]) == (30, 30, False)
        assert found["schema"] == "image:bytes key:bytes label:int64 score:float[2]"
        assert found["image_feature"] == "image" and found["label_feature"] == "label"
        assert [c["name"] for c in found["classes"]] == ["cat", "dog", "bird"]
        assert [c["records"] for c in found["classes"]] == [10, 10, 10]
        assert found["images"]["formats"] == {"png": 30} and found["images"]["channels"] == {"1": 30}
        assert found["images"]["width"] == {"min": 20, "max": 23, "mean": sum(20 + i % 4 for i in range(30)) / 30}
        assert feature(found, "score")["min"] == -1 and feature(found, "score")["max"] == 7.25
        assert feature(found, "key")["text"] and not feature(found, "key")["image"]
        assert found["damage"] == {"count": 0, "causes": {}, "places": []}
        assert [s["records"] for s in found["shards"]] == [15, 15]
        assert found["shards"][0]["index"] == "sidecar" and found["shards"][0]["index_built"]
        assert len(found["fingerprint"]) == 16 and found["head"] == [] and found["sheet"] is None
        lone = report("inspect", f"{folder}/set-train.tfrecord-00000-of-00002", "--head", 1)
        assert lone["records"] == 15 and lone["head"][0].startswith("record 0 at byte 0, ")


def test_splits():
    with scratch() as folder:
        for name, count in (("train", 20), ("val", 5)):
            for s in range(2):
                write(f"{folder}/set-{name}.tfrecord-{s:05}-of-00002", [item(i) for i in range(count)])
        text = penstock("inspect", folder).out
        assert "             set-train: 40 records in 2 shards, " in text, text
        assert "             set-val: 10 records in 2 shards, " in text, text


def test_workers_do_not_show():
    with scratch() as folder:
        dataset(folder, 300, 7)
        penstock("inspect", folder)
        for options in ([], ["--verify"], ["--sample", 50]):
            texts = {penstock("inspect", folder, "--json", "--workers", n, *options).out for n in (1, 2, 3, 8)}
            assert len(texts) == 1, texts


def test_sampling_says_so():
    with scratch() as folder:
        write(f"{folder}/a.tfrecord", [example(x=[i]) for i in range(2500)])
        text = penstock("inspect", folder, "--sample", 100).out
        assert "(statistics from 100 of 2,500 records; --all reads every record)" in text
        assert "statistics from" not in penstock("inspect", folder, "--sample", 100, "--all", code=2).out
        assert "statistics from" not in penstock("inspect", folder, "--all").out
        assert report("inspect", folder, "--sample", 100)["parsed"] == 100
        assert report("inspect", folder, "--all")["parsed"] == 2500


def test_compressed():
    with scratch() as folder:
        write(f"{folder}/a.tfrecord.gz", [item(i) for i in range(20)], compressed=True)
        text = penstock("inspect", folder).out
        assert text.startswith("20 records in 1 shard, ") and ", gzip, tf.train.Example\n" in text and "Index        none" in text
        assert sorted(os.listdir(folder)) == ["a.tfrecord.gz"]


def test_a_terminal_gets_colour_and_no_escape_from_the_data():
    with scratch() as folder:
        write(f"{folder}/a.tfrecord", [example(**{"na\x1b[2Jme": [b"\x1b]0;x\x07"], "label": [i]}) for i in range(5)])
        with open(f"{folder}/labels.txt", "wb") as f:
            f.write(b"a\x1b[31m\nb\xe2\x80\xae\nc\xff\n")
        main, side = pty.openpty()
        child = subprocess.Popen([PENSTOCK, "inspect", folder, "--head", "3"], stdout=side, stderr=subprocess.DEVNULL,
                                 stdin=subprocess.DEVNULL, env=environment(TERM="xterm"))
        os.close(side)
        data = b""
        try:
            while chunk := os.read(main, 65536):
                data += chunk
        except OSError:
            pass
        os.close(main)
        assert child.wait(30) == 0
        assert b"\x1b[1m" in data, "headings are bold"
        for style in (b"\x1b[1m", b"\x1b[2m", b"\x1b[0m"):
            data = data.replace(style, b"")
        assert b"\x1b" not in data and b"\xe2\x80\xae" not in data and b"\xff" not in data, data
        assert b"na\\x1b[2Jme" in data and b"a\\x1b[31m" in data


# ---- Damage ----

def flip(path, at):
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 0x20]))


def test_verify_lists_damage():
    with scratch() as folder:
        items = [item(i) for i in range(20)]
        path = write(f"{folder}/a.tfrecord", items)
        assert "Damage       none: every record is sound" in penstock("inspect", "--verify", folder).out
        fourth = sum(len(r) + 16 for r in items[:4])
        flip(path, fourth + 30)
        text = penstock("inspect", "--verify", folder, code=3).out
        assert "Damage       1 place: 1 data crc" in text
        assert f"{path}: record 4 at byte {fourth}: data crc" in text.replace(",", ""), text
        found = report("inspect", "--verify", folder, code=3)
        assert found["records"] == 19 and found["verified"]
        assert found["damage"]["causes"] == {"data crc": 1}
        place, = found["damage"]["places"]
        assert (place["path"], place["record"], place["offset"]) == (path, 4, fourth)
        penstock("inspect", "--verify", "-q", folder, code=3)


def test_images_that_do_not_decode():
    with scratch() as folder:
        records = [item(i) for i in range(10)]
        whole = png(20, 10, 7)
        records[6] = example(image=[whole[:-25]], label=[0])
        records[8] = example(image=[b"nothing"], label=[0])
        write(f"{folder}/a.tfrecord", records)
        found = report("inspect", "--verify", folder, code=3)
        assert [(p["cause"], p["record"]) for p in found["damage"]["places"]] == [("image", 6), ("image", 8)]


def test_what_is_no_tfrecord():
    with scratch() as folder:
        with open(f"{folder}/a.tfrecord", "wb") as f:
            f.write(b"This is not a TFRecord file at all. " * 100)
        text = penstock("inspect", folder, code=3).out
        assert text.startswith("0 records in 1 shard") and "is this a TFRecord file?" in text
        write(f"{folder}/a.tfrecord", [b"\x99\x98\x97 opaque"] * 4)
        text = penstock("inspect", folder, "--head", 1).out
        assert "neither Examples nor events" in text and "<10 bytes: 99 98 97 20" in text
        write(f"{folder}/a.tfrecord", [])
        assert "0 records in 1 shard, 0 bytes, not compressed, empty" in penstock("inspect", folder).out


def animated_webp():
    """The containers of an animation of 16 x 16 pixels, its frame without a picture."""
    def chunk(name, data):
        return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)
    frame_head = bytes(6) + b"\x0f\0\0" + b"\x0f\0\0" + b"\x64\0\0" + b"\0"
    body = b"WEBP" + chunk(b"VP8X", b"\x02\0\0\0" + b"\x0f\0\0" + b"\x0f\0\0") + chunk(b"ANIM", bytes(6)) + \
        chunk(b"ANMF", frame_head + chunk(b"VP8L", b"\x2f\x0f\xc0\x03\0" + bytes(20)))
    return b"RIFF" + struct.pack("<I", len(body)) + body


def test_verify_refuses_what_decode_refuses():
    """An animation is not an image to a pipeline: verifying says so, instead of calling it sound."""
    with scratch() as folder:
        path = f"{folder}/a.tfrecord"
        with open(path, "wb") as f:
            f.write(frame(example(image=[animated_webp()], label=[1])))
        refusal = penstock("cat", f"tfrecord {path} | example | decode", code=None).err
        if "without libwebp" in refusal or "not built" in refusal:
            raise tap.Skip("built without WebP")
        assert "an animation" in refusal, refusal
        result = penstock("inspect", path, "--verify", code=3)
        assert "Damage       1 place: 1 image" in result.out, result


def test_errors():
    with scratch() as folder:
        result = penstock("inspect", folder, code=1)
        assert "no shards in this folder" in result.err and folder in result.err
        result = penstock("inspect", f"{folder}/nothing*", code=1)
        assert "nothing*" in result.err
        penstock("inspect", code=2)
        penstock("inspect", folder, "--tiles", 3, code=2)
        penstock("inspect", folder, "--tiles", 0, "--sheet", "x.png", code=2)
        dataset(folder)
        result = penstock("inspect", folder, "--label", "lable", code=2)
        assert 'no record has a feature "lable"' in result.err
        result = penstock("inspect", folder, "--image", "score", code=2)
        assert "float" in result.err
        error = report("inspect", f"{folder}/none", code=1)["error"]
        assert error["status"] == "PST_ENOTFOUND"


# ---- Sheets ----

def test_sheet():
    with scratch() as folder:
        dataset(folder)
        out = penstock("inspect", folder, "--sheet", f"{folder}/sheet.png", "--tiles", 6, "--tile-size", 64).out
        assert f"Sheet        {folder}/sheet.png" in out
        with open(f"{folder}/sheet.png", "rb") as f:
            data = f.read()
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        width, height = struct.unpack(">II", data[16:24])
        assert 3 * 64 < width < 5 * 64 and 2 * 64 < height < 5 * 64
        before = tree(folder)
        penstock("inspect", folder, "--sheet", f"{folder}/sheet.png", "--tiles", 6, "--tile-size", 64, "-q", "-j", 1)
        assert tree(folder) == before, "the same picture every time"


def test_sheet_of_what_has_no_images():
    with scratch() as folder:
        write(f"{folder}/a.tfrecord", [example(x=[1.0])])
        result = penstock("inspect", folder, "--sheet", f"{folder}/s.png", code=1)
        assert "images" in result.err and not os.path.exists(f"{folder}/s.png")
        dataset(folder)
        result = penstock("inspect", folder, "--sheet", f"{folder}/no/such/s.png", code=1)
        assert "s.png" in result.err


# ---- Training logs ----

def event(step, payload):
    return b"\x09" + struct.pack("<d", 1700000000.0 + step) + b"\x10" + varint(step) + payload


def scalar(tag, value):
    return field(5, field(1, field(1, tag) + b"\x15" + struct.pack("<f", value)))


def test_events():
    with scratch() as folder:
        os.mkdir(f"{folder}/run")
        events = [event(0, field(3, b"brain.Event:2"))] + [event(i, scalar(b"loss", 1 / i)) for i in range(1, 51)]
        write(f"{folder}/run/events.out.tfevents.1700000000.host", events)
        text = penstock("inspect", folder, "--head", 2).out
        assert text.startswith("51 records in 1 shard") and "TensorBoard events" in text
        assert "  loss          50 times  0.02 to 1, mean 0.08998" in text, text
        assert "record 1 at byte " in text and "step 1, 2023-11-14 22:13:21 UTC, summary\n  loss  scalar  1\n" in text
        assert os.listdir(f"{folder}/run") == ["events.out.tfevents.1700000000.host"], "no index beside a log that grows"
        found = report("inspect", folder)
        assert found["content"] == "events" and feature(found, "loss")["present"] == 50


# ---- Places ----

def test_read_only_folder():
    with scratch() as folder:
        prefix = unprivileged()
        os.mkdir(f"{folder}/data")
        os.mkdir(f"{folder}/cache")
        os.chmod(f"{folder}/cache", 0o777)
        dataset(f"{folder}/data")
        os.chmod(f"{folder}/data", 0o555)
        text = penstock("inspect", f"{folder}/data", "--cache", f"{folder}/cache", prefix=prefix).out
        assert "Index        2 in the cache folder (2 made just now)" in text
        assert "Index        2 in the cache folder\n" in penstock("inspect", f"{folder}/data", "--cache", f"{folder}/cache",
                                                                   prefix=prefix).out
        text = penstock("inspect", f"{folder}/data", "--cache", "/proc/nowhere", prefix=prefix).out
        assert "Index        2 in memory only" in text
        os.chmod(f"{folder}/data", 0o755)


def test_a_folder_of_folders():
    with scratch() as folder:
        os.makedirs(f"{folder}/name/1.0.0")
        dataset(f"{folder}/name/1.0.0")
        assert report("inspect", folder)["records"] == 30
        names = sorted(f"{folder}/name/1.0.0/{n}" for n in os.listdir(f"{folder}/name/1.0.0"))
        assert any(n.endswith(".pidx") for n in names)
        assert report("inspect", *names)["records"] == 30, "what a shell's * brings along is left out"


tap.main(globals())
