"""Records without a pipeline: writing, reading, Examples, packing."""

import array
import os
import signal
import threading

import penstock as ps
import tap
from data import images, raises, scratch


def test_writer_and_reader():
    with scratch() as folder:
        path = os.path.join(folder, "a.tfrecord")
        records = [bytes([i]) * i for i in range(50)]
        with ps.TFRecordWriter(path) as writer:
            for record in records:
                writer.write(record)
            assert not os.path.exists(path)
        reader = ps.TFRecordReader(path)
        assert len(reader) == 50 and reader[17] == records[17] and reader[-1] == records[-1] and reader[3:6] == records[3:6]
        assert list(reader) == records == list(reader)
        with raises(IndexError):
            reader[50]
        with raises(ps.Error, "already exists"):
            ps.TFRecordWriter(path)
        ps.TFRecordWriter(path, overwrite=True).close()
        assert len(ps.TFRecordReader(path)) == 0


def test_threads_share_a_reader():
    """Each record goes to one thread."""
    with scratch() as folder:
        records = [b"%06d" % i * 50 for i in range(20000)]
        with ps.TFRecordWriter(f"{folder}/a.tfrecord") as writer:
            for record in records:
                writer.write(record)
        shared, taken = iter(ps.TFRecordReader(f"{folder}/a.tfrecord")), [[], [], []]
        threads = [threading.Thread(target=to.extend, args=(shared,)) for to in taken]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(sum(taken, [])) == records and all(part == sorted(part) for part in taken)


def test_only_files_are_overwritten():
    with scratch() as folder:
        pipe, link, file = (os.path.join(folder, name) for name in ("pipe", "link", "file"))
        os.mkfifo(pipe)
        os.symlink("file", link)
        ps.TFRecordWriter(file).close()
        for path in (pipe, link):
            with raises(ps.Error, "not a regular file"):
                ps.TFRecordWriter(path, overwrite=True)
        assert os.path.islink(link) and os.path.exists(pipe) and not os.path.isfile(pipe)


def test_nothing_is_left_of_a_failure():
    with scratch() as folder:
        with raises(RuntimeError, "no"):
            with ps.TFRecordWriter(os.path.join(folder, "a")) as writer:
                writer.write(b"x")
                raise RuntimeError("no")
        assert os.listdir(folder) == []
        with raises(ps.Error, "closed"):
            writer.write(b"y")
        with raises(ps.Error):
            ps.TFRecordReader(os.path.join(folder, "a"))


def test_compressed():
    with scratch() as folder:
        for kind in ("gzip", "zlib", "zstd"):
            path = os.path.join(folder, kind)
            with ps.TFRecordWriter(path, kind) as writer:
                writer.write(b"x" * 1000)
            assert os.path.getsize(path) < 200 and list(ps.TFRecordReader(path)) == [b"x" * 1000]
            with raises(TypeError, "no random access"):
                len(ps.TFRecordReader(path))
        with raises(ps.Error, "lz5"):
            ps.TFRecordWriter(os.path.join(folder, "x"), "lz5")


def test_examples():
    example = ps.Example(
        image=b"\0jpeg",
        label=3,
        name="ü",
        boxes=[0.5, 1, 2.25],
        ids=array.array("q", [-1, 2**62]),
        floats=array.array("f", [1.5]),
        doubles=array.array("d", [2.5]),
        small=bytearray(b"b"),
        bytes_list=[b"a", "b"],
        shorts=array.array("h", [-3]),
        empty=[],
        yes=True,
    )
    parsed = ps.Example.parse(example.serialize())
    got = {name: value if isinstance(value, list) else value.tolist() for name, value in parsed.items()}
    assert got == {
        "image": [b"\0jpeg"],
        "label": [3],
        "name": ["ü".encode()],
        "boxes": [0.5, 1, 2.25],
        "ids": [-1, 2**62],
        "floats": [1.5],
        "doubles": [2.5],
        "small": [b"b"],
        "bytes_list": [b"a", b"b"],
        "shorts": [-3],
        "empty": [],
        "yes": [1],
    }
    assert parsed["label"].dtype == "int64" and parsed["boxes"].dtype == "float32"
    assert ps.Example.parse(parsed.serialize()).keys() == parsed.keys()
    with raises(ps.Error):
        ps.Example.parse(b"\xff\xff")
    with raises(Exception, "int too"):
        ps.Example(x=2**70).serialize()


def test_pack():
    with scratch() as folder:
        source, out, calls = images(folder, 40, 4), os.path.join(folder, "shards"), []
        report = ps.pack(
            source,
            out,
            shards=2,
            split={"train": 0.75, "val": 0.25},
            resize=16,
            format="png",
            progress=lambda *facts: calls.append(facts),
        )
        assert report["records"] == 40 and set(report["splits"]) == {"train", "val"} and report["classes"] == 4 and calls
        (image,) = next(
            iter(ps.tfrecord(out).example("image:bytes label:int64").decode().select("image").center_crop(16).batch(40))
        )
        assert image.shape == (40, 16, 16, 3)
        assert ps.pack(source, out, shards=2, split="train=0.75,val=0.25", resize=16, format="png")["up_to_date"]
        with raises(ps.Error):
            ps.pack(os.path.join(folder, "nothing"), os.path.join(folder, "x"))

        def stop(*facts):
            raise LookupError("enough")

        with raises(LookupError, "enough"):
            ps.pack(source, os.path.join(folder, "y"), progress=stop)


def test_pack_is_interrupted_by_ctrl_c():
    with scratch() as folder:
        source = images(folder, 40, 4)
        with raises(KeyboardInterrupt):
            ps.pack(source, os.path.join(folder, "x"), progress=lambda *facts: os.kill(os.getpid(), signal.SIGINT))


if __name__ == "__main__":
    tap.main(globals())
