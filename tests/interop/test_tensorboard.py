"""Event files of ours, read by TensorBoard's own readers. The program that writes them is named by EVENTS_DUMP."""
import glob
import os
import struct
import subprocess
import tempfile
import zlib

import numpy as np
from tensorboard.backend.event_processing import event_accumulator, event_file_loader
from tensorboard.plugins.hparams import plugin_data_pb2

import tap


def png(width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes(range(3 * width)) for _ in range(height))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


FOLDER = tempfile.TemporaryDirectory()
PICTURE = png(5, 4)
with open(f"{FOLDER.name}/picture.png", "wb") as f:
    f.write(PICTURE)
os.mkdir(f"{FOLDER.name}/logs")
subprocess.run([os.environ["EVENTS_DUMP"], f"{FOLDER.name}/logs", f"{FOLDER.name}/picture.png", "5", "4"], check=True)
FILES = sorted(glob.glob(f"{FOLDER.name}/logs/*"))


def accumulate(path):
    everything = {kind: 0 for kind in event_accumulator.DEFAULT_SIZE_GUIDANCE}
    return event_accumulator.EventAccumulator(path, size_guidance=everything).Reload()


def values(accumulator, tag):
    """(step, value) of a scalar, whichever form the reader gives it."""
    if tag in accumulator.Tags()["scalars"]:
        return [(e.step, e.value) for e in accumulator.Scalars(tag)]
    return [(e.step, e.tensor_proto.float_val[0] if e.tensor_proto.float_val else np.frombuffer(e.tensor_proto.tensor_content, np.float32)[0])
            for e in accumulator.Tensors(tag)]


def test_names_of_files():
    assert [os.path.basename(f) for f in FILES] == ["events.out.tfevents.1700000000.host", "events.out.tfevents.1700000200.host"]


def test_every_record_loads():
    events = list(event_file_loader.EventFileLoader(FILES[0]).Load())
    assert len(events) == 1 + 100 + 1, len(events)
    assert events[0].file_version == "brain.Event:2"
    assert [e.step for e in events[1:101]] == list(range(100))
    assert events[5].wall_time == 1700000004


def test_scalars():
    found = values(accumulate(FILES[0]), "loss")
    assert found == [(i, float(np.float32(1 / (1 + i)))) for i in range(100)], found[:3]


def test_resumed_runs_replace_what_they_repeat():
    found = values(accumulate(f"{FOLDER.name}/logs"), "loss")
    assert [step for step, _ in found] == list(range(60)), [step for step, _ in found]
    assert found[50] == (50, -50.0)


def test_histograms():
    from tensorboard.util import tensor_util

    accumulator = accumulate(FILES[0])
    if accumulator.Tags()["histograms"]:
        h = accumulator.Histograms("weights/conv_1")[0].histogram_value
        total, least, most, buckets = h.num, h.min, h.max, h.bucket
    else:
        table = tensor_util.make_ndarray(accumulator.Tensors("weights/conv_1")[0].tensor_proto)
        total, least, most, buckets = table[:, 2].sum(), table[0, 0], table[-1, 1], table[:, 2]
    assert (total, least, most) == (999, 0, 999), (total, least, most)
    assert len(buckets) == 30 and sum(buckets) == 999 and max(buckets) - min(buckets) <= 3, buckets


def test_image_and_text():
    from tensorboard.util import tensor_util

    accumulator = accumulate(FILES[0])
    if "samples" in accumulator.Tags()["images"]:
        found = accumulator.Images("samples")[0]
        assert (found.width, found.height, found.encoded_image_string) == (5, 4, PICTURE)
    else:
        width, height, encoded = tensor_util.make_ndarray(accumulator.Tensors("samples")[0].tensor_proto)
        assert (int(width), int(height), encoded) == (5, 4, PICTURE)
    text = tensor_util.make_ndarray(accumulator.Tensors("model")[0].tensor_proto)
    assert text.tolist() == [b"`conv 8 3 | flatten`"], text
    assert "model" in accumulator.PluginTagToContent("text")


def test_settings():
    content = accumulate(FILES[0]).PluginTagToContent("hparams")["_hparams_/session_start_info"]
    data = plugin_data_pb2.HParamsPluginData.FromString(content)
    settings = data.session_start_info.hparams
    assert data.version == 0 and settings["lr"].number_value == 0.125 and settings["optimizer"].string_value == "adam"


def test_a_run():
    """What `penstock train` leaves: scalars, distributions, pictures, the graph and the settings."""
    tool = os.environ["PENSTOCK"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([tool, "generate", f"{folder}/photos", "--images", "40", "--classes", "2", "--size", "24", "-q"], check=True)
        text = f"folder {folder}/photos | shuffle | decode | resize 16 | normalize imagenet | batch 8"
        subprocess.run([tool, "train", text, "--val", text, "--model", "conv 4 3 relu | globalavgpool | dense 2", "--epochs", "2", "--out",
                        f"{folder}/run", "-q"], check=True)
        found = accumulate(glob.glob(f"{folder}/run/logs/events*")[0])
        tags = found.Tags()
        assert tags["graph"] and {n.name for n in found.Graph().node} >= {"input", "conv_1", "dense_1"}, tags
        assert len(values(found, "step/loss")) == 10 and len(values(found, "val/accuracy")) == 2
        everything = tags["histograms"] + tags["tensors"]
        assert "weights/conv_1/kernel" in everything and "gradients/dense_1/bias" in everything, tags
        assert "samples/0" in tags["images"] + tags["tensors"] and any("session_start_info" in t for t in tags["tensors"]), tags


tap.main(globals())
