"""`penstock cat`: elements and batches in words and as JSON, the same for any number of workers, and as a picture."""
import gzip
import json
import os
import signal
import struct
import subprocess

import tap
from patience import HANG
from tool import PENSTOCK, environment, example, field, frame, penstock, scratch, shards as shard_paths

RANGE = """\
batch 0, 3 elements
  value  int64 [3]  0, 1, 2
batch 1, 3 elements
  value  int64 [3]  3, 4, 5
batch 2, 3 elements
  value  int64 [3]  6, 7, 8
batch 3, 1 element
  value  int64 [1]  9
"""


def lines(*arguments, code=0):
    return [json.loads(line) for line in penstock("cat", *arguments, "--json", code=code).out.splitlines()]


def write(path, *records):
    with open(path, "wb") as f:
        f.write(b"".join(frame(record) for record in records))
    return path


def images(folder, count=24):
    penstock("generate", f"{folder}/photos", "--images", count, "--classes", 3, "--size", 40, "-q")
    penstock("pack", f"{folder}/photos", f"{folder}/shards", "--shards", 2, "-q")
    return f"{folder}/photos", f"{folder}/shards"


# ---- SequenceExamples ----

def fields(text):
    return [element["fields"] for element in lines(text)]


def feature_lists(**lists):
    """The second half of a SequenceExample: a step is the list of its values."""
    entries = b""
    for name, steps in lists.items():
        features = b""
        for values in steps:
            one = example(x=values)                      # Features{entry{key "x", value Feature}}
            features += field(1, one[one.index(b"x") + 1:][2:])
        entries += field(1, field(1, name.encode()) + field(2, features))
    return field(2, entries)


def test_sequences():
    """The context and the feature lists become fields, a row per step, inferred or declared."""
    with scratch() as folder:
        path = write(f"{folder}/a.tfrecord",
                     example(id=[7]) + feature_lists(xy=[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], word=[[b"a"], [b"bc"]]),
                     example(id=[8]) + feature_lists(xy=[[0.5, 0.25]]))
        want = [{"id": 7, "xy": [[1, 2], [3, 4], [5, 6]], "word": ["a", "bc"]}, {"id": 8, "xy": [[0.5, 0.25]], "word": []}]
        for text in ("example", "example 'id:int64' lists='xy:float[2] word:bytes=[]'", "example lists='xy:float[2] word:bytes=[]'"):
            assert fields(f"tfrecord {path} | {text}") == want, text
        assert fields(f"tfrecord {path} | example | select xy | batch 2") == [{"xy": w["xy"]} for w in want]
        assert fields(f"tfrecord {path} | example id:int64") == [{"id": 7}, {"id": 8}]
        assert "id: int64, xy: float32 [?,2], word: bytes [?]" in penstock("plan", f"tfrecord {path} | example").out
        for text, says in (("example 'id:int64 xy:float[2]'", "xy is not a feature; it is a feature list: name it in lists="),
                           ("example id:int64 lists='xz:float[2]'", "did you mean xy?"),
                           ("example id:int64 lists='xy:float[*]'", "feature list xy: its steps have varying numbers")):
            assert says in penstock("cat", f"tfrecord {path} | {text}", code=2).err, text
        ragged = write(f"{folder}/b.tfrecord", example(id=[7]) + feature_lists(x=[[1.0], [3.0, 4.0]]))
        assert "feature list x: its steps have varying" in penstock("cat", f"tfrecord {ragged} | example", code=2).err


# ---- Words ----

def test_range():
    assert penstock("cat", "range 10 | batch 3", "--batches", 9).out == RANGE
    want = "".join(f"element {i}\n  value  int64  {i}\n" for i in range(10))
    assert penstock("cat", "range 10 | batch 3", "--head", 0).out == want
    assert penstock("cat", "range 1000 | batch 3").out == want, "ten are shown where nothing else is asked for"
    assert penstock("cat", "range 10 | batch 3", "-n", 1).out == "element 0\n  value  int64  0\n"
    assert penstock("cat", "range 0 | batch 3").out == ""
    for kind, name in (("u8", "uint8"), ("f16", "float16"), ("f32", "float32")):
        text = f"range 41 | skip 40 | cast {kind} field=value | batch 1"
        assert penstock("cat", text).out == f"element 0\n  value  {name}  40\n"
    assert penstock("cat", "range 4 | repeat", "-n", 9).out.count("value") == 9


def test_every_kind_of_value():
    with scratch() as folder:
        path = write(f"{folder}/a.tfrecord",
                     example(name=[b"h\xc3\xa9\n"], junk=[bytes(range(200, 240))], x=[0.1, -2.5, 1e30], y=[float(i) for i in range(20)],
                             tags=[b"a", b"b"], nan=[float("nan")]),
                     example(name=[b""], junk=[b"\xff"], x=[1.0, 2.0, 3.0], y=[0.5] * 20, tags=[b"c"], nan=[float("inf")]))
        schema = "name:bytes junk:bytes x:float[3] y:float[20] tags:bytes[*] nan:float"
        out = penstock("cat", f'tfrecord {path} | example "{schema}"').out
        first, second = out.split("element 1\n")
        assert first.startswith("element 0\n  name  bytes         \"hé\\n\"\n"), out
        assert "  junk  bytes         <40 bytes: c8 c9 ca cb cc cd ce cf d0 d1 d2 d3 …>, digest " in first, out
        assert "  x     float32 [3]   0.1, -2.5, 1e+30\n" in first, out
        assert "  y     float32 [20]  0, 1, 2, 3, 4, 5, 6, 7, …; 0 to 19, mean 9.5, digest " in first, out
        assert "  tags  bytes [2]     \"a\", \"b\"\n" in first and "  tags  bytes [1]     \"c\"\n" in second, out
        assert "  nan   float32       nan\n" in first and "  nan   float32       inf\n" in second, out
        assert "  name  bytes         \"\"\n" in second, out
        found = lines(f'tfrecord {path} | example "{schema}"', "--values", 100)
        assert found[0]["fields"]["x"] == [0.1, -2.5, 1e30] and found[0]["fields"]["name"] == "hé\n"
        assert found[0]["fields"]["y"] == list(range(20)) and found[0]["fields"]["nan"] is None
        assert found[0]["fields"]["junk"]["bytes"] == 40 and found[0]["fields"]["tags"] == ["a", "b"]
        batch, = lines(f'tfrecord {path} | example "{schema}" | batch 2', "--batches", 1)
        assert batch["size"] == 2 and batch["fields"]["tags"] == [["a", "b"], ["c"]]
        assert batch["fields"]["y"]["shape"] == [2, 20] and batch["fields"]["y"]["mean"] == 5
        small = penstock("cat", f"tfrecord {path} | example | select x | cast f16 x", "-n", 1).out
        assert "  x  float16 [3]  0.1, -2.5, inf\n" in small, small


def test_a_file_is_a_pipeline():
    """The name of a file stands for the source that reads it, for cat, plan and bench."""
    with scratch() as folder:
        with open(f"{folder}/it is.csv", "w") as f:
            f.write("a,b\n1,x\n2,y\n")
        with gzip.open(f"{folder}/z.txt.gz", "wb") as f:
            f.write(b"one\ntwo\n")
        assert [line["fields"] for line in lines(f"{folder}/it is.csv")] == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
        assert [line["fields"]["line"] for line in lines(f"{folder}/z.txt.gz")] == ["one", "two"]
        plan = penstock("plan", f"{folder}/z.txt.gz").out
        assert "cannot seek" in plan and "penstock pack" in plan, plan
        assert "no such file or folder" in penstock("cat", f"{folder}/missing.csv", code=1).err


# ---- The same for everybody ----

def test_workers_and_fusing_do_not_show():
    with scratch() as folder:
        photos, shards = images(folder)
        for text in (f"tfrecord {shards} | shuffle | example | decode | random_resized_crop 24 | flip | normalize imagenet | batch 5",
                     f"folder {photos} | shuffle seed=3 | decode | resize 30x20 | random_crop 16 | cast f16 | batch 7 | skip 1",
                     f"tfrecord {shards} | example | select label key | one_hot 3 | repeat 2 | shuffle | batch 4"):
            want = penstock("cat", text, "--head", 0, "--seed", 5, "--workers", 1).out
            assert want.count("element") > 15
            for options in (["--workers", 2], ["--workers", 8], ["--no-fuse"], ["--prefetch", 1], ["--no-verify"], []):
                assert penstock("cat", text, "--head", 0, "--seed", 5, *options).out == want, f"{text} {options}"
            assert penstock("cat", text, "--head", 0, "--seed", 6).out != want


def test_ranks_share_the_elements():
    values = []
    for rank in range(3):
        found = lines("range 100 | shuffle | batch 7", "--head", 0, "--world", 3, "--rank", rank, "--uneven", "allow")
        values += [line["fields"]["value"] for line in found]
    assert sorted(values) == list(range(100))


# ---- Trouble ----

def test_damage():
    with scratch() as folder:
        _, shards = images(folder)
        path = shard_paths(shards)[0]
        with open(path, "r+b") as f:
            f.seek(100)
            byte = f.read(1)
            f.seek(100)
            f.write(bytes([byte[0] ^ 1]))
        result = penstock("cat", f"tfrecord {shards} | example", "--head", 0, code=3)
        assert os.path.basename(path) in result.err and "crc" in result.err, result
        found = lines(f"tfrecord {shards} | example", "--head", 0, "--bad", "skip")
        assert len(found) == 23
        assert lines(f"tfrecord {shards} | example", "--head", 0, code=3)[-1]["error"]["status"] == "PST_ECORRUPT"


def test_errors_name_the_place():
    """Of whatever operation: file, record, byte, operation."""
    with scratch() as folder:
        records = [example(image=[b"no image"], label=[7])] * 3
        write(f"{folder}/a.tfrecord", *records)
        with gzip.open(f"{folder}/b.tfrecord.gz", "wb") as f:
            f.write(b"".join(frame(record) for record in records))
        at = f"record 2 at byte {2 * len(frame(records[0]))}"
        os.makedirs(f"{folder}/photos/one")
        with open(f"{folder}/photos/one/x.jpg", "wb") as f:
            f.write(b"no image")
        for place, source in ((f"a.tfrecord: {at}", "tfrecord {}/a.tfrecord | skip 2 | example"),
                              (f"b.tfrecord.gz: {at}", "tfrecord {}/b.tfrecord.gz | skip 2 | example"),
                              ("photos/one/x.jpg", "folder {}/photos")):
            text = source.format(folder)
            for command in "cat", "bench":
                assert f"{place}: decode: " in penstock(command, f"{text} | decode", code=3).err, (place, command)
            assert f"{place}: decode: " in penstock("cat", f"{text} | decode | resize 8x8 | flip | batch 2", code=3).err, place
        at = f"record 1 at byte {len(frame(records[0]))}"
        assert f"a.tfrecord: {at}: one_hot: " in penstock("cat", f"tfrecord {folder}/a.tfrecord | skip 1 | example | one_hot 5", code=3).err
        assert f"a.tfrecord: {at}: example: " in penstock("cat", f"tfrecord {folder}/a.tfrecord | skip 1 | example label:float", code=3).err
        assert "record 5: one_hot: " in penstock("cat", "range 10 | skip 5 | one_hot 5 value", code=3).err


def test_record_numbers_start_at_0():
    """Of one damaged record: inspect, cat, pack and repair give it the same number."""
    with scratch() as folder:
        records = [frame(example(label=[i])) for i in range(5)]
        records[2] = records[2][:15] + bytes([records[2][15] ^ 255]) + records[2][16:]
        with open(f"{folder}/x.tfrecord", "wb") as f:
            f.write(b"".join(records))
        for command in (["inspect", "--verify", f"{folder}/x.tfrecord"], ["cat", f"tfrecord {folder}/x.tfrecord"], ["pack", f"{folder}/x.tfrecord", f"{folder}/out", "-q"],
                        ["repair", f"{folder}/x.tfrecord", f"{folder}/mended"]):
            done = penstock(*command, code=None)
            assert "record 2 at byte" in done.out + done.err, (command, done.out, done.err)


def test_csv_lines():
    """Errors in tables name the line, as editors count it: with the header, empty lines and line breaks in quotes."""
    with scratch() as folder:
        with open(f"{folder}/x.csv", "w") as f:
            f.write('name,size\n\n"two\nlines",1\nlast\n')
        err = penstock("cat", f"csv {folder}/x.csv", code=3).err
        assert "record 1 at byte" in err and "line 5: 1 column, expected 2" in err, err


def test_places_in_joins():
    """An operation after a join that fails names the file and the record of the branch that the value comes from."""
    with scratch() as folder:
        for name, text in {"a": "v\n1\n2\n9\n", "b": "v\n3\n7\n", "c": "w\n3\n4\n5\n"}.items():
            with open(f"{folder}/{name}.csv", "w") as f:
                f.write(text)
        a, b, c = (f"csv {folder}/{name}.csv" for name in "abc")
        for text, said in ((f"concatenate ({a}) ({b}) | one_hot 5 v", "a.csv: record 2 at byte 6: one_hot: v is 9"),
                           (f"concatenate ({b} | take 1) ({a}) | one_hot 5 v", "a.csv: record 2 at byte 6: one_hot: v is 9"),
                           (f"concatenate ({b} | take 1) (concatenate ({b} | skip 1) ({a})) | one_hot 5 v", "b.csv: record 1 at byte 4: one_hot: v is 7"),
                           (f"zip ({a}) ({c}) | one_hot 5 w", "c.csv: record 2 at byte 6: one_hot: w is 5"),
                           (f"zip ({c}) ({a}) | one_hot 9 v", "a.csv: record 2 at byte 6: one_hot: v is 9"),
                           (f"zip (zip ({a}) ({c})) (range 3) | one_hot 4 w", "c.csv: record 1 at byte 4: one_hot: w is 4")):
            err = penstock("cat", text, "--head", 0, code=3).err
            assert said in err, (text, err)


def write_npy(path, descr, shape, data):
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)


def test_tokens_of_arrays():
    """Windows of tokens come from .npy files of every whole type; other arrays are refused by name."""
    with scratch() as folder:
        for descr, code, first in (("|u1", "B", 200), ("<u2", "H", 60000), ("<u4", "I", 70000), ("<i4", "i", -5), ("<i8", "q", 1 << 40)):
            write_npy(f"{folder}/{code}.npy", descr, "(10,)", struct.pack(f"<10{code}", *range(first, first + 10)))
            found = [line["fields"] for line in lines(f"tokens {folder}/{code}.npy n=4 next=later")]
            assert found == [{"tokens": [*range(i, i + 4)], "later": [*range(i + 1, i + 5)]} for i in (first, first + 4)], (descr, found)
        write_npy(f"{folder}/float.npy", "<f4", "(10,)", bytes(40))
        write_npy(f"{folder}/table.npy", "<u2", "(5, 2)", bytes(20))
        with open(f"{folder}/odd.bin", "wb") as f:
            f.write(b"12345")
        for text, code, said in ((f"{folder}/I.npy {folder}/H.npy n=4", 2, "H.npy: tokens: has tokens of type uint16, expected uint32"),
                                 (f"{folder}/H.npy dtype=int64", 2, "has tokens of type uint16, expected int64"),
                                 (f"{folder}/float.npy", 1, "float.npy: tokens: the array is not of tokens; expected uint8"),
                                 (f"{folder}/table.npy", 2, "the array has 2 dimensions; expected one"),
                                 (f"{folder}/odd.bin", 3, "at byte 4: tokens: 5 bytes are not a whole number of tokens of 2 bytes"),
                                 (f"{folder}/q.npy n=2 to=int32", 3, "q.npy: record 0 at byte 128: tokens: token 0 of the window is 1099511627776"),
                                 (f"{folder}/q.npy n=40", 2, "a window needs 40 tokens, and the longest file has 10")):
            err = penstock("cat", f"tokens {text}", code=code).err
            assert said in err, (text, err)


def test_caches_on_disk():
    """`penstock cache` lists what `cache path=` wrote, and removes it alone."""
    with scratch() as folder:
        assert penstock("cache", folder).out == "no caches\n"
        for n in (10, 20):
            penstock("cat", f"range {n} | cache path={folder}", "--head", 0)
        found = json.loads(penstock("cache", folder, "--json").out)["caches"]
        assert [cache["removed"] for cache in found] == [False, False] and all(cache["bytes"] > 80 and cache["parts"] >= 1 for cache in found), found
        assert sorted("start=20" in cache["about"] for cache in found) == [False, True] and len({cache["key"] for cache in found}) == 2
        key = found[0]["key"]
        assert penstock("cache", folder, "ffffffffffffffffffffffffffffffffff").out == "no cache has this key\n"
        said = penstock("cache", folder, key[:12]).out
        assert said.startswith(f"{key}  ") and "pipeline  range" in said and len(said.split("changed")) == 2, said
        with open(f"{folder}/{key}/mine.txt", "w") as f:
            f.write("not of a cache")
        err = penstock("cache", folder, key, "--clear", code=None).err
        assert "mine.txt" in err and "it was left alone" in err, err
        os.remove(f"{folder}/{key}/mine.txt")
        assert penstock("cache", folder, key, "--clear").out.startswith(f"removed {key}")
        assert os.listdir(folder) == [found[1]["key"]]
        assert "cannot read the folder" in penstock("cache", f"{folder}/none", code=1).err


def test_wrong_usage():
    assert "exclude each other" in penstock("cat", "range 3", "--head", 1, "--batches", 1, code=2).err
    assert "needs --sheet" in penstock("cat", "range 3", "--tile-size", 64, code=2).err
    assert "no operation cta" in penstock("cat", "range 3 | cta", code=2).err


def test_a_reader_that_stops():
    done = subprocess.run(["sh", "-c", '"$0" cat "range 100000000" --head 0 | head -n 1', PENSTOCK], env=environment(), capture_output=True,
                          text=True, timeout=HANG)
    assert done.stdout == "element 0\n" and done.stderr == "", done


def test_interrupt():
    child = subprocess.Popen([PENSTOCK, "cat", "range 1000000000000 | batch 10", "--head", "0"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=environment())
    child.stdout.readline()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=HANG)
    assert child.returncode == 130 and b"interrupted" in err, (child.returncode, err)
    assert out.endswith(b"\n")


# ---- Pictures ----

def png_size(path):
    with open(path, "rb") as f:
        data = f.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


def test_sheet():
    with scratch() as folder:
        photos, shards = images(folder)
        chain = f"tfrecord {shards} | shuffle | example | decode | resize 32x32"
        sizes = set()
        for number, rest in enumerate(("", " | cast f32", " | normalize 0..1", " | normalize imagenet", " | normalize imagenet | layout nchw",
                                       " | normalize -1..1 | cast f16", " | one_hot 3")):
            path = f"{folder}/{number}.png"
            out = penstock("cat", chain + rest + " | batch 6", "--sheet", path, "--tile-size", 64).out
            assert out == f"12 images on {path}\n", out # two batches: at least ten
            sizes.add(png_size(path))
        assert len(sizes) == 1
        path = f"{folder}/encoded.png"
        penstock("cat", f"folder {photos} | batch 24", "--sheet", path, "--tile-size", 64)
        assert png_size(path) > (6 * 64, 4 * 64)
        before = open(path, "rb").read()
        penstock("cat", f"folder {photos} | batch 24", "--sheet", path, "--tile-size", 64, "--workers", 1)
        assert open(path, "rb").read() == before, "the same picture every time"
        both = penstock("cat", f"folder {photos}", "--sheet", path, "-n", 2).out
        assert both.startswith("element 0\n") and both.endswith(f"2 images on {path}\n"), both


def test_sheet_of_what_has_no_images():
    with scratch() as folder:
        path = f"{folder}/s.png"
        assert "needs images" in penstock("cat", "range 10 | batch 3", "--sheet", path, code=1).err
        assert "no field nope" in penstock("cat", "range 10", "--sheet", path, "--image", "nope", code=2).err
        assert "is not an image" in penstock("cat", "range 10", "--sheet", path, "--image", "value", code=2).err
        assert "is empty" in penstock("cat", "range 0", "--sheet", path, code=1).err
        assert not os.path.exists(path)


tap.main(globals())
