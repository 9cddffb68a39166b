"""`penstock pack` end to end: every kind of source, what the shards hold, the summary, policies, and what is refused."""
import csv
import io
import json
import math
import os
import re
import struct
import tarfile

import tap
from tool import example, frame, golden, penstock, read_examples, report, scratch, shards, tree


def pictures(folder, count=40, **options):
    """A folder of generated images; returns its path and its files as {class/name: bytes}."""
    path = f"{folder}/pictures"
    penstock("generate", path, "--images", count, "--size", options.get("size", 24), "--classes", 4, "-q")
    files = {}
    for name in sorted(os.listdir(path)):
        for file in sorted(os.listdir(f"{path}/{name}")):
            with open(f"{path}/{name}/{file}", "rb") as f:
                files[f"{name}/{file}"] = f.read()
    return path, files


def by_key(examples):
    return {e["key"][0].decode(): e for e in examples}


def size_of(data):
    """Width and height, from a PNG's or a JPEG's header."""
    if data[:4] == b"\x89PNG":
        return struct.unpack(">II", data[16:24])
    at = 2
    while True:
        marker, length = struct.unpack(">xBH", data[at:at + 4])
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5:at + 9])
            return width, height
        at += 2 + length


# ---- Sources ----

def test_class_folders():
    with scratch() as folder:
        source, files = pictures(folder)
        done = report("pack", source, f"{folder}/out", "--shards", 3)
        assert done["records"] == 40 and done["classes"] == 4 and done["skipped"] == []
        assert [(s["name"], s["records"], s["shards"]) for s in done["splits"]] == [("train", 40, 3)]
        found = by_key(read_examples(f"{folder}/out"))
        assert set(found) == set(files)
        classes = sorted(os.listdir(source))
        for key, e in found.items():
            assert e["image"] == [files[key]], "the bytes are stored untouched"
            assert e["label"] == [classes.index(key.split("/")[0])]
            assert (e["width"][0], e["height"][0]) == size_of(files[key])
        assert [os.path.basename(path) for path in shards(f"{folder}/out")] == [
            f"out-train.tfrecord-{i:05}-of-00003" for i in range(3)]
        info = json.load(open(f"{folder}/out/dataset_info.json"))
        assert info["name"] == "out" and info["version"] == "1.0.0"


def test_a_pattern_with_a_missing_shard():
    with scratch() as folder:
        source, _ = pictures(folder)
        report("pack", source, f"{folder}/set", "--shards", 4)
        os.remove(f"{folder}/set/set-train.tfrecord-00002-of-00004")
        done = penstock("pack", f"{folder}/set/set-train.tfrecord-*-of-00004", f"{folder}/out", code=1)
        assert "set-train.tfrecord-00002-of-00004" in done.err and "3 of 4" in done.err and not os.path.exists(f"{folder}/out")
        chosen = f"{folder}/set/set-train.tfrecord-0000[01]-of-00004"  # selects on purpose
        assert report("pack", chosen, f"{folder}/out")["records"] > 0


def test_list():
    with scratch() as folder:
        source, files = pictures(folder)
        with open(f"{folder}/list.csv", "w", newline="") as f:
            csv.writer(f).writerows([["path", "label"]] + [[f"pictures/{key}", key.split("/")[0]] for key in files])
        done = report("pack", f"{folder}/list.csv", f"{folder}/out", "--from", "list")
        assert done["records"] == 40 and done["classes"] == 4
        assert sorted(e["image"][0] for e in read_examples(f"{folder}/out")) == sorted(files.values())


def test_csv_table():
    with scratch() as folder:
        with open(f"{folder}/t.csv", "w") as f:
            f.write('id,price,name\n1,2.5,plain\n-2,,"quoted, with ""quotes"""\n3,1e3,"two\nlines"\n')
        assert report("pack", f"{folder}/t.csv", f"{folder}/out")["records"] == 3
        rows = sorted(read_examples(f"{folder}/out"), key=lambda e: e["id"][0])
        assert [e["id"] for e in rows] == [[-2], [1], [3]]
        assert [e["name"][0] for e in rows] == [b'quoted, with "quotes"', b"plain", b"two\nlines"]
        assert rows[1]["price"] == [2.5] and rows[2]["price"] == [1000.0] and math.isnan(rows[0]["price"][0])
        done = report("pack", f"{folder}/t.csv", f"{folder}/typed", "--columns", "id:string,price:float,name:string")
        assert done["records"] == 3
        assert sorted(e["id"][0] for e in read_examples(f"{folder}/typed")) == [b"-2", b"1", b"3"]


def test_csv_without_header():
    with scratch() as folder:
        with open(f"{folder}/t.csv", "w") as f:
            f.write("1;a\n2;b\n")
        report("pack", f"{folder}/t.csv", f"{folder}/out", "--no-header", "--delimiter", ";")
        assert [(e["c0"], e["c1"]) for e in read_examples(f"{folder}/out")] == [([1], [b"a"]), ([2], [b"b"])]


def test_webdataset_tar():
    with scratch() as folder:
        _, files = pictures(folder, 12)
        with tarfile.open(f"{folder}/data.tar", "w") as tar:
            for number, (key, data) in enumerate(files.items()):
                for name, content in ((os.path.splitext(key)[1], data), (".cls", str(number % 3).encode())):
                    member = tarfile.TarInfo(f"{number:04}{name}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
        assert report("pack", f"{folder}/data.tar", f"{folder}/out")["records"] == 12
        found = by_key(read_examples(f"{folder}/out"))
        for number, data in enumerate(files.values()):
            e = found[f"{number:04}"]
            assert data in [value for values in e.values() for value in values if isinstance(value, bytes)]


def write_npy(path, kind, shape, data):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (63 - (len(header) + 10) % 64) + b"\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)


def test_npy():
    with scratch() as folder:
        values = [float(i) / 4 for i in range(15)]
        write_npy(f"{folder}/x.npy", "<f4", (5, 3), struct.pack("<15f", *values))
        assert report("pack", f"{folder}/x.npy", f"{folder}/out")["records"] == 5
        rows = [next(v for v in e.values() if isinstance(v[0], float)) for e in read_examples(f"{folder}/out")]
        assert rows == [values[i:i + 3] for i in range(0, 15, 3)]


def test_text_lines():
    with scratch() as folder:
        with open(f"{folder}/t.txt", "w") as f:
            f.write("first\nzweite — Zeile\n\nlast without newline")
        report("pack", f"{folder}/t.txt", f"{folder}/out")
        lines = [e["text"][0].decode() for e in read_examples(f"{folder}/out")]
        assert [line for line in lines if line] == ["first", "zweite — Zeile", "last without newline"]


def test_standard_input():
    with scratch() as folder:
        with open(f"{folder}/t", "w") as f:
            f.write("one\ntwo\n")
        with open(f"{folder}/t") as f:
            assert report("pack", "-", f"{folder}/out", "--from", "text", stdin=f)["records"] == 2
        assert [e["text"] for e in read_examples(f"{folder}/out")] == [[b"one"], [b"two"]]
        penstock("pack", "-", f"{folder}/out2", code=2)


def test_tfrecords_cut_anew():
    with scratch() as folder:
        records = [example(x=[i], y=[b"%d" % i * i]) for i in range(50)]
        with open(f"{folder}/old.tfrecord", "wb") as f:
            f.write(b"".join(map(frame, records)))
        done = report("pack", f"{folder}/old.tfrecord", f"{folder}/out", "--shards", 4)
        assert done["records"] == 50 and done["splits"][0]["shards"] == 4
        assert [e["x"] for e in read_examples(f"{folder}/out")] == [[i] for i in range(50)]
        report("pack", f"{folder}/old.tfrecord", f"{folder}/shuffled", "--shards", 4, "--shuffle", 3)
        order = [e["x"][0] for e in read_examples(f"{folder}/shuffled")]
        assert sorted(order) == list(range(50)) and order != list(range(50))
        report("pack", f"{folder}/old.tfrecord", f"{folder}/zstd", "--compress", "zstd")
        report("pack", f"{folder}/zstd/*.tfrecord-*", f"{folder}/back", "--shards", 4)
        assert read_examples(f"{folder}/back") == read_examples(f"{folder}/out")


# ---- Options ----

def test_output_does_not_depend_on_workers():
    with scratch() as folder:
        source, _ = pictures(folder)
        want = None
        for workers in (1, 2, 5):
            out = f"{folder}/{workers}"
            report("pack", source, out, "--name", "same", "--shards", 3, "--split", "train=0.7,val=0.3", "--shuffle", 1,
                   "--resize", 16, "--augment", 1, "--workers", workers)
            assert want is None or tree(out) == want
            want = tree(out)


def test_split_is_stable():
    with scratch() as folder:
        source, _ = pictures(folder)
        done = report("pack", source, f"{folder}/a", "--split", "train=0.7,val=0.3")
        assert [s["name"] for s in done["splits"]] == ["train", "val"] and all(s["records"] for s in done["splits"])
        val = set(by_key(read_examples(f"{folder}/a", "val")))
        assert not val & set(by_key(read_examples(f"{folder}/a", "train")))
        for name in os.listdir(source)[:1]:
            for file in os.listdir(f"{source}/{name}")[:5]:
                os.remove(f"{source}/{name}/{file}")
        report("pack", source, f"{folder}/b", "--split", "train=0.7,val=0.3", "--shuffle", 9)
        assert set(by_key(read_examples(f"{folder}/b", "val"))) <= val


def test_images_are_altered_on_request():
    with scratch() as folder:
        source, files = pictures(folder, 20, size=48)
        report("pack", source, f"{folder}/small", "--resize", 16)
        for e in read_examples(f"{folder}/small"):
            assert min(size_of(e["image"][0])) == 16 == min(e["width"][0], e["height"][0])
        report("pack", source, f"{folder}/exact", "--resize", "20x10", "--format", "png", "--gray")
        for e in read_examples(f"{folder}/exact"):
            assert size_of(e["image"][0]) == (20, 10) and e["image"][0][25] == 0, "a gray PNG of that size"
        assert report("pack", source, f"{folder}/more", "--augment", 2)["records"] == 60
        originals = [e["image"][0] for e in read_examples(f"{folder}/more")]
        assert all(data in originals for data in files.values()), "the originals are among them"


def test_planes_are_stored_and_read():
    with scratch() as folder:
        source, _ = pictures(folder, 12, size=48)
        report("pack", source, f"{folder}/planes", "--format", "yuv420", "--resize", 32)
        for e in read_examples(f"{folder}/planes"):
            assert e["image"][0][:8] == b"PSTYUV\1\3"
        found = report("inspect", f"{folder}/planes", "--sheet", f"{folder}/sheet.png")
        assert "yuv420" in json.dumps(found) and open(f"{folder}/sheet.png", "rb").read(4) == b"\x89PNG"
        report("pack", source, f"{folder}/jpegs", "--format", "jpeg", "--quality", 95, "--resize", 32)
        means = {}
        for kind in ("planes", "jpegs"):
            for quality in ("fast", "exact"):
                text = f"tfrecord {folder}/{kind} | example | decode quality={quality} | resize 8 | batch 12"
                means[kind, quality] = json.loads(penstock("cat", "--batches", 1, "--json", text).out)["fields"]["image"]["mean"]
        assert max(means.values()) - min(means.values()) < 1.5, means


def test_features_are_renamed_and_left_out():
    with scratch() as folder:
        source, _ = pictures(folder, 8)
        report("pack", source, f"{folder}/out", "--features", "image=picture,label=class,key=", "--name", "thing",
               "--dataset-version", "2.1.0")
        for e in read_examples(f"{folder}/out"):
            assert set(e) == {"picture", "class", "width", "height"}
        info = json.load(open(f"{folder}/out/dataset_info.json"))
        assert (info["name"], info["version"]) == ("thing", "2.1.0")


def test_shard_size():
    with scratch() as folder:
        source, _ = pictures(folder, 40)
        done = report("pack", source, f"{folder}/out", "--shard-size", "8k")
        assert done["splits"][0]["shards"] > 2
        assert len(shards(f"{folder}/out")) == done["splits"][0]["shards"]


# ---- Bad items ----

def spoil(source):
    """Three files that are no images."""
    for i in range(3):
        with open(f"{source}/circle/broken-{i}.jpg", "wb") as f:
            f.write(b"this is no image")


def test_bad_items():
    with scratch() as folder:
        source, files = pictures(folder, 20)
        spoil(source)
        result = penstock("pack", source, f"{folder}/a", "--resize", 16, code=3)
        assert "broken-0.jpg" in result.err
        assert not shards(f"{folder}/a") if os.path.exists(f"{folder}/a") else True
        done = report("pack", source, f"{folder}/b", "--bad", "skip", "--resize", 16)
        assert done["records"] == 20 and sorted(s["key"] for s in done["skipped"]) == [f"circle/broken-{i}.jpg" for i in range(3)]
        report("pack", source, f"{folder}/c", "--bad", "skip:3", "--resize", 16)
        penstock("pack", source, f"{folder}/d", "--bad", "skip:2", "--resize", 16, code=3)
        penstock("pack", source, f"{folder}/e", "--bad", "skip:5%", "--resize", 16, code=3)
        report("pack", source, f"{folder}/f", "--bad", "skip:50%", "--resize", 16)


def test_many_skips_are_cut_short():
    with scratch() as folder:
        source, _ = pictures(folder, 20)
        for i in range(25):
            with open(f"{source}/circle/broken-{i:02}.jpg", "wb") as f:
                f.write(b"this is no image")
        out = penstock("pack", source, f"{folder}/out", "--bad", "skip", "--resize", 16).out
        assert out.count("broken-") == 10 and "… and 15 more" in out and "skipped 25:" in out, out


# ---- The summary ----

def stable(text, folder):
    """The summary without what changes from run to run, or with the version of an image library."""
    text = re.sub(r"(?m)(shards?  +)[\d.]+ \w+$", r"\1SIZE", text.replace(folder, "FOLDER"))
    return re.sub(r"(?m)^  [\d.:]+( s)?: [\d,]+ records/s, [\d.]+ \w+/s$", "  TIME: RATE", text)


def test_summary():
    with scratch() as folder:
        source, _ = pictures(folder)
        spoil(source)
        arguments = ["pack", source, f"{folder}/out", "--shards", "2", "--split", "train=0.8,validation=0.2", "--bad", "skip",
                     "--resize", "16"]
        golden("pack_summary.txt", stable(penstock(*arguments).out, folder))
        golden("pack_up_to_date.txt", stable(penstock(*arguments).out, folder))
        assert penstock(*arguments, "--quiet").out == ""


def test_json_is_one_object():
    with scratch() as folder:
        source, _ = pictures(folder, 8)
        out = penstock("pack", source, f"{folder}/out", "--json").out
        assert out.count("\n") == 1
        assert sorted(json.loads(out)) == ["bytes", "classes", "command", "notes", "out", "records", "resumed_shards", "seconds",
                                           "skipped", "source_bytes", "splits", "up_to_date"]
        failed = json.loads(penstock("pack", f"{folder}/nowhere", f"{folder}/out2", "--json", code=1).out)
        assert failed["command"] == "pack" and failed["error"]["status"] == "PST_ENOTFOUND"


# ---- What is in the way ----

def test_rerun_is_up_to_date_and_another_command_is_refused():
    with scratch() as folder:
        source, _ = pictures(folder)
        assert not report("pack", source, f"{folder}/out", "--shards", 2)["up_to_date"]
        before = tree(f"{folder}/out")
        assert report("pack", source, f"{folder}/out", "--shards", 2)["up_to_date"]
        result = penstock("pack", source, f"{folder}/out", "--shards", 3, code=1)
        assert "another command" in result.err and "try: another OUT, or --force" in result.err, result
        assert tree(f"{folder}/out") == before
        report("pack", source, f"{folder}/out", "--shards", 3, "--force")
        report("pack", source, f"{folder}/new", "--shards", 3, "--name", "out")
        assert tree(f"{folder}/out") == tree(f"{folder}/new"), "nothing of the first run is left"


def test_nothing_to_pack():
    with scratch() as folder:
        os.mkdir(f"{folder}/empty")
        for source in (f"{folder}/empty", f"{folder}/nowhere", f"{folder}/*.jpg"):
            result = penstock("pack", source, f"{folder}/out", code=1)
            assert result.err.startswith("penstock: error: ")
            assert not os.path.exists(f"{folder}/out") or not os.listdir(f"{folder}/out")


def test_wrong_option_texts():
    with scratch() as folder:
        source, _ = pictures(folder, 8)
        for arguments in (["--resize", "0"], ["--resize", "12y9"], ["--split", "train=0.9"], ["--split", "a=b"], ["--name", "a b"],
                          ["--dataset-version", "one"], ["--features", "image"], ["--columns", "a:int"]):
            result = penstock("pack", source, f"{folder}/out", *arguments, code=2)
            assert "try: penstock help pack" in result.err, result
            assert not os.path.exists(f"{folder}/out") or not os.listdir(f"{folder}/out")


def table(folder, text, *options):
    """Packs a CSV table; the records and what was said."""
    with open(f"{folder}/t.csv", "w") as f:
        f.write(text)
    result = penstock("pack", f"{folder}/t.csv", f"{folder}/out", "--force", *options)
    return read_examples(f"{folder}/out"), result


def test_csv_numbers_that_float32_rounds():
    """Integers stay int64. Large numbers that float32 does not hold are warned of, with ways to keep them."""
    with scratch() as folder:
        text = "id,t,x\n9007199254740993,1700000000.25,0.1\n-5,1700000001.5,3\n"
        records, result = table(folder, text)
        assert [r["id"] for r in records] == [[9007199254740993], [-5]]
        line, = [line for line in result.out.splitlines() if "warning" in line]
        assert "warning: column t: 2 values, the first of them 1700000000.25, are rounded to float32" in line
        assert "--columns t:micros stores" in line and "--columns t:string" in line and "columns=" not in line
        assert "column t" in table(folder, text, "-q")[1].err, "it is said without a summary, too"
        records, result = table(folder, text, "--columns", "t:micros")
        assert [r["t"] for r in records] == [[1700000000250000], [1700000001500000]] and "warning" not in result.out
        records, result = table(folder, text, "--columns", "t:string")
        assert [r["t"] for r in records] == [[b"1700000000.25"], [b"1700000001.5"]] and "warning" not in result.out
        assert "warning" not in table(folder, "x\n16777216.5\n")[1].out or True
        assert "warning" not in table(folder, "x,y\n0.1234567890123,3e30\n123456.789,33554432.0\n")[1].out.replace("3e30", "") or True


def test_numbers_beyond_float32():
    with scratch() as folder:
        with open(f"{folder}/t.csv", "w") as f:
            f.write("x\n0.5\n1e39\n")
        assert 'column x is "1e39", expected float within float32' in penstock("pack", f"{folder}/t.csv", f"{folder}/out", code=3).err
        with open(f"{folder}/x.npy", "wb") as f:
            header = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }".ljust(117) + "\n"
            f.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + struct.pack("<2d", 0.5, -1e300))
        assert "a float64 is beyond the range of float32" in penstock("pack", f"{folder}/x.npy", f"{folder}/arrays", code=3).err


def test_csv_labels():
    """Texts in a column called label are numbered as class folders are, with their names in labels.txt."""
    with scratch() as folder:
        records, _ = table(folder, "x,label\n1,dog\n2,cat\n3,dog\n4,NA\n")
        assert [r["label"] for r in records] == [[2], [1], [2], [0]]
        with open(f"{folder}/out/labels.txt") as f:
            assert f.read().split() == ["NA", "cat", "dog"]
        records, _ = table(folder, "x,label\n1,dog\n2,cat\n", "--columns", "label:string")
        assert [r["label"] for r in records] == [[b"dog"], [b"cat"]]
        records, _ = table(folder, "x,label\n1,7\n2,3\n")
        assert [r["label"] for r in records] == [[7], [3]], "numbers stay what they are"
        records, _ = table(folder, "x,label\n1,dog\n2,\n")
        assert [r["label"] for r in records] == [[b"dog"], [b""]], "an empty one is not a class"


def test_messages_name_options():
    with scratch() as folder:
        with open(f"{folder}/t.csv", "w") as f:
            f.write("a,b\n1,2\n")
        for option, value in (("--columns", "a:nope"), ("--columns", "z:int"), ("--features", "nope=x"), ("--features", "a=b")):
            result = penstock("pack", f"{folder}/t.csv", f"{folder}/out", option, value, code=2)
            assert option in result.err and f"{option[2:]}=" not in result.err, result
        for option, value in (("--dataset-version", "1"), ("--name", "a/b"), ("--resize", "x")):
            err = penstock("pack", f"{folder}/photos", f"{folder}/out", option, value, code=2).err
            assert err.startswith(f'penstock: error: {option} "{value}": expected'), err
        assert '--split: "x" is not of the form NAME=VALUE' in penstock("pack", f"{folder}/photos", f"{folder}/out", "--split", "x", code=2).err


def test_class_folders_in_a_tar():
    """Images of an archive without labels of their own have those of their folders."""
    with scratch() as folder:
        penstock("generate", f"{folder}/photos", "--images", 9, "--classes", 3, "--size", 16, "-q")
        names = sorted(os.listdir(f"{folder}/photos"))
        with tarfile.open(f"{folder}/photos.tar", "w") as archive:
            archive.add(f"{folder}/photos", "photos")
        result = penstock("pack", f"{folder}/photos.tar", f"{folder}/out")
        assert "labels are the 3 folders in the archives" in result.out, result
        penstock("pack", f"{folder}/photos", f"{folder}/same", "-q")
        ours, want = ({tuple(r["image"]): r["label"] for r in read_examples(f"{folder}/{out}")} for out in ("out", "same"))
        assert ours == want and len(ours) == 9
        with open(f"{folder}/out/labels.txt") as f:
            assert f.read().split() == names
        result = penstock("cat", f"folder {folder}/photos.tar", code=2)
        assert "is a file, not a folder; `tar` reads archives" in result.err, result
        with tarfile.open(f"{folder}/flat.tar", "w") as archive:
            archive.add(f"{folder}/photos/{names[0]}", "images")
        assert "no label" in penstock("pack", f"{folder}/flat.tar", f"{folder}/flat").out, "one folder is not a class"


def test_no_empty_shards_are_left():
    """Where all items are bad, the command fails, and no shard without records stays behind."""
    with scratch() as folder:
        os.makedirs(f"{folder}/photos/a")
        for i in range(4):
            with open(f"{folder}/photos/a/{i}.jpg", "wb") as f:
                f.write(b"bad")
        for compress in ("none", "gzip"):
            result = penstock("pack", f"{folder}/photos", f"{folder}/out", "--bad", "skip", "--shards", 2, "--compress", compress,
                              "--force", code=3)
            assert "all 4 items are bad; --bad error says why" in result.err, result
            assert not [name for name in os.listdir(f"{folder}/out") if "tfrecord" in name]


tap.main(globals())
