#!/usr/bin/env python3
"""The usual advice on slow training, ranked by what it brings on this machine: predicted from the costs of the parts, and measured.

    advice.py [--photos FOLDER] [--seconds S] [--rounds N] [--only NAME…] [--write docs/236-hours.md]

Needs TensorFlow, h5py, Pillow and the penstock module (make interop makes such an environment). Each row has a pipeline or a step as articles on
slow training show it, and the same after the advice. Both run in turn, so that noise hits both; the gain is the median of the ratios of neighbouring
turns. The prediction uses parts that are measured alone before: it never looks at the changed pipeline. With --write, the table between the markers
of the page is replaced. Without --photos, photos are drawn.
"""

import argparse
import functools
import json
import os
import platform
import re
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import h5py  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from PIL import Image  # noqa: E402

import penstock as ps  # noqa: E402

AUTO = tf.data.AUTOTUNE
CORES = len(os.sched_getaffinity(0))
SIDE, BATCH = 128, 16
BEGIN, END = "<!-- table of bench/advice.py -->", "<!-- end of the table -->"
ROWS = []


def row(name, advice):
    """Registers a function that returns (before, after, predicted gain, note). Both are functions that yield numbers of samples."""

    def register(function):
        ROWS.append((name, advice, function))
        return function

    return register


# ---- Measuring ----


def rate(run, seconds):
    """Samples per second of a function that yields numbers of samples, again and again; what precedes the first is not counted."""
    if hasattr(run, "rate"):
        return run.rate()
    samples, spent = 0, 0.0
    while spent < seconds:
        begun, count = None, 0
        for n in run():
            now = time.perf_counter()
            if begun is None:
                begun = now
                continue
            count += n
            if now - begun + spent >= seconds:
                break
        if begun is None:
            return 0.0
        spent += max(1e-9, time.perf_counter() - begun)
        samples += count
        if not count:
            break
    return samples / spent if spent else 0.0


def cost(run):
    """Seconds per sample of a part by itself: the best of three."""
    return 1 / max(1e-9, max(rate(run, OPTIONS.seconds / 2) for _ in range(3)))


def over(dataset, batch=BATCH, step=None):
    """A function that iterates over a dataset without end: short epochs would measure how iterators begin."""

    def run():
        for element in dataset.repeat():
            if step is not None:
                step(element)
            yield batch

    return run


def each(dataset):
    """A function that iterates over single elements, 64 per turn of the loop in Python, which would otherwise be the largest part."""
    return over(dataset.batch(64), 64)


def calls(function, samples=1):
    """A function that calls another again and again."""

    def run():
        for _ in range(2000):
            function()
            yield samples

    return run


def accelerator(milliseconds):
    """A step that leaves the CPU to others."""
    return lambda element: time.sleep(milliseconds / 1e3)


# ---- Data ----


class Data:
    """Photos as files, as TFRecords at full size and small, rows of numbers in several formats; made once."""

    def __init__(self, folder, photos=None):
        self.folder = folder
        self.photos = photos or self._draw()
        self.paths = sorted(os.path.join(base, name) for base, _, names in os.walk(self.photos) for name in names if name.lower().endswith((".jpg", ".jpeg")))
        self.paths = self.paths[:256]
        self.large, self.small, self.stored = (self._pack(name, **given) for name, given in
                                               (("large", {}), ("small", {"resize": SIDE}), ("stored", {"resize": SIDE, "augment": 1})))
        self._rows()

    def _draw(self):
        folder, random = os.path.join(self.folder, "photos"), np.random.default_rng(7)
        for i in range(160):
            where = os.path.join(folder, f"class{i % 2}")
            os.makedirs(where, exist_ok=True)
            small = random.integers(0, 255, (48, 64, 3), np.uint8)
            Image.fromarray(small).resize((640, 480)).save(os.path.join(where, f"{i:04}.jpg"), quality=88)
        return folder

    def _pack(self, name, **given):
        out = os.path.join(self.folder, name)
        ps.pack(self.photos, out, shards=4, sync=False, **given)
        return sorted(os.path.join(base, file) for base, _, files in os.walk(out) for file in files if re.search(r"\.tfrecord-\d+-of-\d+$", file))

    def _rows(self):
        self.values = np.random.default_rng(3).normal(size=(8192, 32)).astype("f4")
        self.csv, self.h5, self.npy, self.records = (os.path.join(self.folder, name) for name in ("rows.csv", "rows.h5", "rows.npy", "rows.tfrecord"))
        np.savetxt(self.csv, self.values, delimiter=",", fmt="%.6g")
        np.save(self.npy, self.values)
        with h5py.File(self.h5, "w") as f:
            f["x"] = self.values
        with tf.io.TFRecordWriter(self.records) as writer:
            for values in self.values:
                feature = tf.train.Feature(float_list=tf.train.FloatList(value=values))
                writer.write(tf.train.Example(features=tf.train.Features(feature={"x": feature})).SerializeToString())


def decode(data, side=SIDE):
    return tf.image.resize(tf.io.decode_jpeg(data, channels=3), (side, side))


def decode_file(path):
    return decode(tf.io.read_file(path))


def example_image(record):
    return tf.io.parse_single_example(record, {"image": tf.io.FixedLenFeature([], tf.string)})["image"]


def augment(image):
    image = tf.image.random_hue(tf.image.random_saturation(tf.image.random_contrast(tf.image.random_flip_left_right(image) / 255, 0.8, 1.2), 0.8, 1.2), 0.1)
    return tf.image.random_crop(tf.image.resize(image, (SIDE + 16, SIDE + 16)), (SIDE, SIDE, 3))


def as_written(dataset):
    """The dataset as it is written: TensorFlow by itself makes maps parallel and adds a prefetch, which would hide what these bring."""
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    return dataset.with_options(options)


BY_ITSELF = "TensorFlow does this by default; it was turned off for the first measurement"


def files(d):
    return tf.data.Dataset.from_tensor_slices(d.paths)


def bytes_in_memory(d):
    return tf.data.Dataset.from_tensor_slices([open(path, "rb").read() for path in d.paths[:64]])


def records_in_memory(paths):
    return tf.data.Dataset.from_tensor_slices([bytes(r.numpy()) for r in tf.data.TFRecordDataset(paths).take(64)])


# ---- Formats ----


@row("TFRecord against files", "Store the photos in a few TFRecord shards instead of one file each.")
def records_against_files(d):
    before = over(files(d).map(decode_file).batch(BATCH))
    after = over(tf.data.TFRecordDataset(d.large).map(lambda r: decode(example_image(r))).batch(BATCH))
    work = cost(over(bytes_in_memory(d).map(decode).batch(BATCH)))
    open_file, record = cost(each(files(d).map(tf.io.read_file))), cost(each(tf.data.TFRecordDataset(d.large).map(example_image)))
    return before, after, (open_file + work) / (record + work), f"files in the page cache: {1e6 * open_file:.0f} µs to read one, {1e6 * record:.0f} µs per record"


def _parse_rows(records):
    return tf.io.parse_example(records, {"x": tf.io.FixedLenFeature([32], tf.float32)})["x"]


def _rows_by_records(d):
    return over(tf.data.TFRecordDataset(d.records).batch(BATCH).map(_parse_rows))


def _rows_cost(d):
    return cost(over(tf.data.TFRecordDataset(d.records).batch(BATCH))) + cost(over(
        tf.data.Dataset.from_tensors(next(iter(tf.data.TFRecordDataset(d.records).batch(BATCH)))).repeat(4096).map(_parse_rows)))


@row("TFRecord against CSV", "Store numbers in binary form instead of as text.")
def records_against_csv(d):
    split = [[0.0]] * 32

    def parse(line):
        return tf.stack(tf.io.decode_csv(line, split))

    before = over(tf.data.TextLineDataset(d.csv).map(parse).batch(BATCH))
    line = next(iter(tf.data.TextLineDataset(d.csv)))
    text = cost(each(tf.data.TextLineDataset(d.csv))) + cost(each(tf.data.Dataset.from_tensors(line).repeat(4096).map(parse)))
    return before, _rows_by_records(d), text / _rows_cost(d), "32 numbers per row"


@row("TFRecord against HDF5", "Read shards natively instead of HDF5 through a Python generator.")
def records_against_hdf5(d):
    def generate():
        with h5py.File(d.h5, "r") as f:
            x = f["x"]
            for i in range(len(x)):
                yield x[i]

    before = over(tf.data.Dataset.from_generator(generate, output_signature=tf.TensorSpec((32,), tf.float32)).batch(BATCH))

    def one_by_one():
        for _ in generate():
            yield 1

    ready = d.values[0]
    handing = cost(each(tf.data.Dataset.from_generator(lambda: (ready for _ in range(8192)), output_signature=tf.TensorSpec((32,), tf.float32))))
    return before, _rows_by_records(d), (cost(one_by_one) + handing) / _rows_cost(d), "one row per read"


@row("mmap", "Map an array into memory instead of loading the file for every part of it.")
def mapped(d):
    part = 512

    def load():
        for i in range(0, 8192, part):
            np.load(d.npy)[i : i + part].sum()
            yield part

    def view():
        whole = np.load(d.npy, mmap_mode="r")
        for i in range(0, 8192, part):
            whole[i : i + part].sum()
            yield part

    loading = cost(calls(lambda: np.load(d.npy), part))
    summing = cost(calls(lambda: d.values[:part].sum(), part))
    opening = cost(calls(lambda: np.load(d.npy, mmap_mode="r"), 8192))
    return load, view, (loading + summing) / (summing + opening), "an array of 1 MB, read in 16 parts"


# ---- Work that moves elsewhere ----


@row("Offline resize", "Store the photos at the size that the model sees.")
def offline_resize(d):
    before = over(tf.data.TFRecordDataset(d.large).map(lambda r: decode(example_image(r))).batch(BATCH))
    after = over(tf.data.TFRecordDataset(d.small).map(lambda r: decode(example_image(r))).batch(BATCH))
    large = cost(over(records_in_memory(d.large).map(lambda r: decode(example_image(r))).batch(BATCH)))
    small = cost(over(records_in_memory(d.small).map(lambda r: decode(example_image(r))).batch(BATCH)))
    read = cost(each(tf.data.TFRecordDataset(d.large)))
    return before, after, (large + read) / (small + read), "pack --resize"


@row("Offline augmentation", "Store augmented copies instead of computing them anew for every batch.")
def offline_augmentation(d):
    before = over(tf.data.TFRecordDataset(d.small).map(lambda r: augment(decode(example_image(r)))).batch(BATCH))
    after = over(tf.data.TFRecordDataset(d.stored).map(lambda r: decode(example_image(r))).batch(BATCH))
    plain = cost(over(records_in_memory(d.small).map(lambda r: decode(example_image(r))).batch(BATCH)))
    image = tf.ones((SIDE, SIDE, 3)) * 100
    more = cost(over(tf.data.Dataset.from_tensors(image).repeat(512).map(augment).batch(BATCH)))
    return before, after, (plain + more) / plain, "pack --augment; fewer different samples per epoch"


@row("Cache", "Keep decoded samples in memory after the first epoch.")
def cached(d):
    plain = tf.data.TFRecordDataset(d.small).map(lambda r: decode(example_image(r)))
    kept = plain.cache()
    for _ in kept:
        pass
    work = cost(over(records_in_memory(d.small).map(lambda r: decode(example_image(r))).batch(BATCH)))
    copy = cost(over(tf.data.Dataset.from_tensors(tf.ones((SIDE, SIDE, 3))).repeat(2048).batch(BATCH)))
    return over(plain.batch(BATCH)), over(kept.batch(BATCH)), work / copy, f"{SIDE * SIDE * 12 / 1e3:.0f} kB of RAM per sample"


@row("Vectorised work", "Map batches instead of single elements.")
def vectorised(d):
    source = tf.data.Dataset.from_tensor_slices(d.values)

    def scale(x):
        return (x - 0.5) * 2.0

    before = over(source.map(scale).batch(64), 64)
    after = over(source.batch(64).map(scale), 64)
    one, many = cost(each(source.map(scale))), cost(over(tf.data.Dataset.from_tensors(d.values[:64]).repeat(4096).map(scale), 64))
    pack = cost(over(source.batch(64), 64))
    return before, after, one / (many + pack), "32 numbers per element"


# ---- Overlap ----


@row("Parallel map", "num_parallel_calls=AUTOTUNE instead of one thread.")
def parallel_map(d):
    def chain(calls):
        return tf.data.TFRecordDataset(d.large).map(lambda r: decode(example_image(r)), num_parallel_calls=calls).batch(BATCH)

    return over(as_written(chain(None))), over(chain(AUTO)), float(CORES), f"{CORES} cores; {BY_ITSELF}"


@row("Interleave", "Read several shards at once instead of one after the other.")
def interleaved(d):
    def parse(record):
        return tf.io.parse_single_example(record, {"x": tf.io.FixedLenFeature([32], tf.float32)})["x"]

    paths = tf.data.Dataset.from_tensor_slices([d.records] * 4)
    before = over(paths.flat_map(lambda p: tf.data.TFRecordDataset(p).map(parse)).batch(64), 64)
    after = over(paths.interleave(lambda p: tf.data.TFRecordDataset(p).map(parse), cycle_length=4, num_parallel_calls=AUTO).batch(64), 64)
    read = cost(each(tf.data.TFRecordDataset(d.records).map(parse)))
    single = cost(each(paths.interleave(lambda p: tf.data.Dataset.range(8192), cycle_length=4, num_parallel_calls=AUTO)))
    return before, after, read / max(read / CORES, single), "shards in the page cache: only parsing overlaps"


@row("Prefetch", "Prepare the next batch while the step runs.")
def prefetched(d):
    chain = tf.data.TFRecordDataset(d.small).map(lambda r: decode(example_image(r))).batch(BATCH)
    loading = cost(over(as_written(chain)))
    step = accelerator(1e3 * BATCH * loading)
    return (over(as_written(chain), step=step), over(as_written(chain.prefetch(AUTO)), step=step), 2.0,
            f"a step on an accelerator that takes as long as a batch; {BY_ITSELF}")


@row("Shuffle buffer", "Shuffle records before they are decoded, not decoded images.")
def shuffle_buffer(d):
    records = tf.data.TFRecordDataset(d.small)
    before = over(records.map(lambda r: decode(example_image(r))).shuffle(128).batch(BATCH))
    after = over(records.shuffle(128).map(lambda r: decode(example_image(r))).batch(BATCH))
    work = cost(over(records_in_memory(d.small).map(lambda r: decode(example_image(r))).batch(BATCH)))
    images = tf.data.Dataset.from_tensors(tf.ones((SIDE, SIDE, 3))).repeat(1024)
    images = max(0.0, cost(each(images.shuffle(128))) - cost(each(images)))
    small = max(0.0, cost(each(records.shuffle(128))) - cost(each(records)))
    return before, after, (work + images) / (work + small), f"the buffer takes {SIDE * SIDE * 12 / 5e3:.0f} times less memory"


# ---- The step ----


def network(separable=False, dtype=None):
    conv = keras.layers.SeparableConv2D if separable else keras.layers.Conv2D
    layers = [keras.layers.Input((32, 32, 3)), keras.layers.Conv2D(32, 3, padding="same", activation="relu", dtype=dtype)]
    for width in (64, 64, 128):
        layers += [conv(width, 3, padding="same", activation="relu", dtype=dtype), keras.layers.MaxPooling2D(dtype=dtype)]
    layers += [keras.layers.Flatten(dtype=dtype), keras.layers.Dense(10, dtype=dtype), keras.layers.Activation("linear", dtype="float32")]
    return keras.Sequential(layers)


def train_step(model, compiled=True):
    optimizer, loss = keras.optimizers.SGD(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(x, y):
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True))
        optimizer.apply_gradients(zip(tape.gradient(value, model.trainable_variables), model.trainable_variables))
        return value

    return tf.function(step) if compiled else step


def batch_of(n):
    return tf.ones((n, 32, 32, 3)), tf.zeros((n,), tf.int32)


def stepping(step, n):
    x, y = batch_of(n)
    step(x, y)
    return calls(lambda: step(x, y), n)


@row("Batch size", "Batches of 64 instead of 1: fixed costs of a step are shared.")
def batch_size(d):
    step = train_step(network())
    one, eight = 1 * cost(stepping(step, 1)), 8 * cost(stepping(step, 8))
    each = max(1e-9, (eight - one) / 7)
    fixed = max(0.0, one - each)
    return stepping(step, 1), stepping(step, 64), one / ((fixed + 64 * each) / 64), "extrapolated from batches of 1 and 8"


@row("Compiled step", "tf.function instead of eager execution.")
def compiled_step(d):
    model = network()
    eager, graph = train_step(model, False), train_step(model)
    x, y = batch_of(8)
    eager(x, y)
    operations = len(graph.get_concrete_function(x, y).graph.get_operations())
    small = tf.ones(())
    dispatch = cost(calls(lambda: small + small))
    work = 8 * cost(stepping(graph, 8))
    return stepping(eager, 8), stepping(graph, 8), (work + operations * dispatch) / work, f"{operations} operations, {1e6 * dispatch:.1f} µs to dispatch one"


@row("Mixed precision", "float16 where the hardware is faster at it.")
def mixed_precision(d):
    full, half = train_step(network()), train_step(network(dtype="mixed_float16"))
    images, kernel = tf.ones((32, 32, 32, 64)), tf.ones((3, 3, 64, 64))
    convolve = tf.function(lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"))

    def alone(dtype):
        x, k = tf.cast(images, dtype), tf.cast(kernel, dtype)
        return cost(calls(lambda: convolve(x, k), 32))

    return stepping(full, 32), stepping(half, 32), alone(tf.float32) / alone(tf.float16), "on this CPU; predicted from one convolution alone"


@row("Separable convolutions", "SeparableConv2D instead of Conv2D.")
def separable(d):
    def alone(layer):
        run = tf.function(layer)
        x = tf.ones((32, 16, 16, 64))
        run(x)
        return cost(calls(lambda: run(x), 32))

    ratio = alone(keras.layers.Conv2D(64, 3, padding="same")) / alone(keras.layers.SeparableConv2D(64, 3, padding="same"))
    return stepping(train_step(network()), 32), stepping(train_step(network(separable=True)), 32), ratio, "another model: its accuracy must be checked; predicted from one layer alone"


# ---- The model ----


class Job:
    """Work of the command-line tool, which measures itself."""

    def __init__(self, rate):
        self.rate = rate


def tool(*arguments, prefix=()):
    done = subprocess.run([*prefix, OPTIONS.tool, *map(str, arguments)], text=True, capture_output=True,
                          env={**os.environ, "OMPI_MCA_oob_tcp_if_include": "lo", "OMPI_MCA_btl_tcp_if_include": "lo", "HYDRA_IFACE": "lo",
                               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
                               "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    if done.returncode != 0:
        raise RuntimeError(f"penstock {arguments[0]} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


IMAGES = 512


class Trained:
    """A trained network, smaller ones made from it, and what the doctor predicts of them; each is made when it is first needed."""

    def __init__(self, folder):
        self.folder = folder
        random = np.random.default_rng(5)
        labels = random.integers(0, 10, IMAGES)
        images = random.normal(size=(IMAGES, 32, 32, 3)).astype("f4") + labels[:, None, None, None] / 5
        np.save(os.path.join(folder, "image.npy"), images.astype("f4"))
        np.save(os.path.join(folder, "label.npy"), labels)
        self.source = f"npy '{folder}/image.npy' '{folder}/label.npy'"
        self.run = os.path.join(folder, "run")
        tool("train", self.train, "--val", f"{self.source} | batch 32", "--model", "resnet20", "--epochs", 1, "--steps", 4, "--out", self.run, "-q")

    @property
    def train(self):
        return f"{self.source} | shuffle | batch 32"

    @functools.cached_property
    def doctor(self):
        found = json.loads(tool("doctor", self.train, "--model", "resnet20", "--json", "-q"))
        return {remedy["id"]: remedy for remedy in found["remedies"]}

    def smaller(self, name, *options):
        out = os.path.join(self.folder, name)
        if not os.path.exists(out):
            tool("compress", self.run, *options, "--epochs", 1, "--steps-per-epoch", 2, "--out", out, "-q")
        return os.path.join(out, "model")

    def predicting(self, model):
        """Predictions per second: a long evaluation less a short one, so that starting does not count."""

        def rate():
            seconds = []
            for times in (1, 1 + max(1, round(4 * OPTIONS.seconds))):
                begun = time.perf_counter()
                tool("eval", model, f"{self.source} | repeat {times} | batch 64", "--json")
                seconds.append(time.perf_counter() - begun)
            return IMAGES * (times - 1) / max(1e-6, seconds[1] - seconds[0])

        return Job(rate)

    def training(self, *options, prefix=()):
        """Samples per second of the second epoch."""

        def rate():
            with tempfile.TemporaryDirectory() as out:
                lines = tool("train", self.train, *options, "--epochs", 2, "--steps-per-epoch", max(2, round(30 * OPTIONS.seconds)), "--out", f"{out}/run", "--json",
                             prefix=prefix)
            return [json.loads(line)["images_per_s"] for line in lines.splitlines() if '"images_per_s"' in line][-1]

        return Job(rate)


@functools.lru_cache(None)
def trained(d):
    folder = os.path.join(d.folder, "model")
    os.makedirs(folder)
    return Trained(folder)


@row("Prune", "Remove channels until half of the operations are left; the result is an ordinary smaller model.")
def prune(d):
    t = trained(d)
    inference = t.doctor["compress"]["inference"]
    return (t.predicting(t.run), t.predicting(t.smaller("half", "--flops", 0.5)), inference["small_samples_per_s"] / inference["now_samples_per_s"],
            "predictions of ResNet-20; accuracy needs some epochs of training afterwards")


@row("Quantise", "Compute predictions in 8-bit integers, where that is faster.")
def quantise(d):
    t = trained(d)
    inference = t.doctor["compress"]["inference"]
    return (t.predicting(t.run), t.predicting(t.smaller("int8", "--quantize", "int8")), inference["int8_samples_per_s"] / inference["now_samples_per_s"],
            "predictions of ResNet-20; a quarter of the bytes")


@row("Distil", "Train a student with a quarter of the operations, taught by the large model.")
def distil(d):
    t = trained(d)
    student = re.search(r'--model "([^"]*)"', t.doctor["smaller-model"]["command"]).group(1)
    return (t.training("--model", "resnet20"), t.training("--model", student, "--teacher", t.run), t.doctor["smaller-model"]["predicted"]["gain"],
            "training steps; the teacher's results are computed once and stored")


@row("Ranks", "Train with two processes that add up their gradients while the backward pass runs.")
def ranks(d):
    t = trained(d)
    one = ("--model", "resnet20", "--threads", 1)
    return (t.training(*one), t.training(*one, prefix=("mpirun", "-n", "2")), t.doctor["more-machines"]["predicted"]["gain"],
            "one thread each, on one machine; predicted for two machines")


# ---- The table ----


def measure(function, data):
    before, after, predicted, note = function(data)
    ratios, rates = [], []
    for i in range(OPTIONS.rounds):
        order = (before, after) if i % 2 == 0 else (after, before)
        both = {run: rate(run, OPTIONS.seconds) for run in order}
        rates.append((both[before], both[after]))
        ratios.append(both[after] / max(1e-9, both[before]))
    return predicted, statistics.median(ratios), min(ratios), max(ratios), statistics.median(r[0] for r in rates), statistics.median(r[1] for r in rates), note


def machine_seconds():
    """CPU time of all programs and of other virtual machines (stolen), and of this one with its children."""
    with open("/proc/stat") as stat:
        user, nice, system, _idle, _wait, _irq, _softirq, stolen = map(int, stat.readline().split()[1:9])
    own = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return (user + nice + system + stolen) / os.sysconf("SC_CLK_TCK"), sum(use.ru_utime + use.ru_stime for use in own)


def three(value):
    text = f"{value:.3g}"
    return f"{value:,.0f}" if "e" in text or value >= 1000 else text


def table(results):
    lines = ["| | advice | before [samples/s] | after [samples/s] | gain, predicted | gain, measured (range) | notes |", "|---|---|---|---|---|---|---|"]
    ranked = sorted(results.items(), key=lambda item: -item[1][2][1])
    for place, (name, (name_advice, _, (predicted, gain, low, high, before, after, note))) in enumerate(ranked, 1):
        lines.append(f"| {place} | **{name}**: {name_advice} | {three(before)} | {three(after)} | {three(predicted)} | {three(gain)} ({three(low)}–{three(high)}) | {note} |")
    return "\n".join(lines)


def write(path, text):
    with open(path, encoding="utf-8") as f:
        page = f.read()
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"{page[:begin]}\n{text}\n{page[end:]}")


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", help="class folders of JPEG files; absent: drawn")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one turn")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="rows whose names contain one of these words")
    parser.add_argument("--write", metavar="PAGE", help="replace the table of this page")
    parser.add_argument("--tool", default=shutil.which("penstock") or os.path.join(os.path.dirname(ps.__file__), "..", "..", "cli", "penstock"), help="the command-line tool")
    OPTIONS = parser.parse_args()
    results, begun, before = {}, time.monotonic(), machine_seconds()
    with tempfile.TemporaryDirectory() as folder:
        data = Data(folder, OPTIONS.photos)
        for name, advice, function in ROWS:
            if OPTIONS.only and not any(word.lower() in name.lower() for word in OPTIONS.only):
                continue
            results[name] = (advice, function, measure(function, data))
            predicted, gain = results[name][2][:2]
            print(f"{name}: predicted {three(predicted)}, measured {three(gain)}", flush=True)
    after, seconds = machine_seconds(), time.monotonic() - begun
    others = (after[0] - before[0] - (after[1] - before[1])) / seconds / os.cpu_count()
    text = (f"Measured on {platform.processor() or platform.machine()} with {CORES} cores, TensorFlow {tf.__version__}, {OPTIONS.rounds} turns of "
            f"{OPTIONS.seconds:g} s each; other programs and virtual machines used {max(0, 100 * others):.0f} % of the machine.\n\n{table(results)}")
    print("\n" + text)
    if OPTIONS.write:
        write(OPTIONS.write, text)


if __name__ == "__main__":
    main()
