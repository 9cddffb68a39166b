"""TFRecord files in both directions: TensorFlow's own reader and writer against ours, bytes equal."""
import glob
import os
import random
import subprocess
import sys

import tensorflow as tf

import tap
from tool import penstock, report, scratch

KINDS = {"none": "", "gzip": "GZIP", "zlib": "ZLIB"}


def payloads(seed):
    """Records of many sizes, the empty one too, and one larger than any read buffer."""
    rng = random.Random(seed)
    sizes = [0, 1, 2, 15, 16, 17, 255, 256, 4095, 4096, 65535, 65536, 65537, 3 << 20] + [rng.randrange(2000) for _ in range(300)]
    rng.shuffle(sizes)
    return [rng.randbytes(size) for size in sizes]


def write(path, records, kind=""):
    with tf.io.TFRecordWriter(path, kind) as writer:
        for record in records:
            writer.write(record)


def read(paths, kind=""):
    return [value.numpy() for value in tf.data.TFRecordDataset(sorted(paths), kind)]


def shards(folder):
    return [path for path in glob.glob(os.path.join(folder, "*.tfrecord-*")) if not path.endswith(".pidx")]


def test_every_compression_in_both_directions():
    """TensorFlow writes A, we re-pack A as B, TensorFlow reads B: the same bytes in the same order."""
    records = payloads(1)
    for source, tf_source in KINDS.items():
        for target, tf_target in KINDS.items():
            with scratch() as folder:
                path = os.path.join(folder, "source.tfrecord")
                write(path, records, tf_source)
                penstock("pack", path, os.path.join(folder, "out"), "--shards", 3, "--compress", target, "--quiet")
                assert read(shards(os.path.join(folder, "out")), tf_target) == records, (source, target)


def test_zstd_comes_back():
    records = payloads(2)
    with scratch() as folder:
        path = os.path.join(folder, "source.tfrecord")
        write(path, records)
        penstock("pack", path, os.path.join(folder, "zstd"), "--compress", "zstd", "--quiet")
        penstock("pack", *sorted(shards(os.path.join(folder, "zstd"))), os.path.join(folder, "plain"), "--quiet")
        assert read(shards(os.path.join(folder, "plain"))) == records


def test_inspect_counts_what_tensorflow_wrote():
    records = payloads(3)
    with scratch() as folder:
        for source, kind in KINDS.items():
            path = os.path.join(folder, f"{source}.tfrecord")
            write(path, records, kind)
            found = report("inspect", path, "--verify", status=0)
            assert found["records"] == len(records), (source, found["records"])
            assert found["shards"][0]["compression"] == source


def test_text_index_of_the_tfrecord_package():
    """`tfrecord2idx` writes the index that DALI reads too; with one beside the shard, none is written."""
    with scratch() as folder:
        path = os.path.join(folder, "a.tfrecord")
        write(path, payloads(4))
        subprocess.run([sys.executable, "-m", "tfrecord.tools.tfrecord2idx", path, path + ".idx"], check=True,
                       stdout=subprocess.DEVNULL)
        done = report("inspect", path)
        assert done["shards"][0]["index"] == "text", done["shards"]
        assert not os.path.exists(path + ".pidx")


def test_damage_is_seen_where_tensorflow_sees_it():
    """One flipped payload byte: TensorFlow stops there; we name the record, and a repaired copy has all the others."""
    records = payloads(5)
    with scratch() as folder:
        path, clean = os.path.join(folder, "a.tfrecord"), os.path.join(folder, "b.tfrecord")
        write(path, records)
        victim = 10
        offset = sum(len(r) + 16 for r in records[:victim]) + 12
        assert records[victim]
        data = bytearray(open(path, "rb").read())
        data[offset] ^= 1
        open(path, "wb").write(data)
        try:
            read([path])
            raise AssertionError("TensorFlow read a damaged record")
        except tf.errors.DataLossError:
            pass
        found = report("inspect", path, "--verify", status=3)
        assert found["damage"]["count"] == 1 and found["damage"]["places"][0]["record"] == victim, found["damage"]
        penstock("repair", path, clean, status=3)
        assert read([clean]) == records[:victim] + records[victim + 1:]


tap.main(globals())
