"""penstock.doctor on loaders without any framework, with one planted fault each: processes, locks, storage, files, copies to a device, epochs."""

import contextlib
import multiprocessing
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import tap
from data import scratch
from doctor_data import Loader, beside_a_gpu, check, in_a_process, pause, run_script, slow
from patience import examined

import penstock as ps
from penstock._doctor.answer import rank, remedy
from penstock._doctor.diagnose import Case, cause_of, classify, sentence
from penstock._doctor.loaders import adapt


def test_the_classes():
    for share, rate, kind, cause in ((0.03, 2, "consumer-bound", "none"), (0.03, 4, "consumer-bound", "consumer"), (0.05, 4, "balanced", "worker-limit"),
                                     (0.2, 4, "balanced", "worker-limit"), (0.21, 4, "input-bound", "worker-limit")):
        case = Case(share=share, loader_rate=rate, step_rate=1)
        assert (classify(case), cause_of(case)[0]) == (kind, cause), (share, rate, classify(case), cause_of(case))


def test_waiting_is_not_serialising():
    for kinds, processes, cause in (({"lock": 0.94, "serialize": 0.06}, 2, "worker-limit"), ({"lock": 0.3, "serialize": 0.7}, 2, "serialization"),
                                    ({"lock": 0.94, "serialize": 0.06}, 0, "single-worker"), ({"lock": 0.1, "contend": 0.6, "python": 0.3}, 0, "lock-contention")):
        case = Case(share=0.9, loader_rate=1, step_rate=9, kinds=kinds, processes=processes, loader=adapt([1]))
        assert cause_of(case)[0] == cause, (kinds, cause_of(case))


def test_functions_that_work_on_python_objects():
    kinds, where = {"convert": 0.8, "python": 0.1, "library": 0.1}, "Rows.__getitem__ (train.py:3) calls torch.tensor"
    case = Case(share=0.5, loader_rate=1, step_rate=2, kinds=kinds, places=[{"where": where, "kind": "convert", "share": 0.8}], loader=adapt([1]))
    assert cause_of(case) == ("python-function", where), cause_of(case)
    text = sentence(case, classify(case), *cause_of(case), None, None)
    assert "the Python function Rows.__getitem__ (train.py:3), calling torch.tensor, takes most" in text, text


def test_upper_bounds_come_after_what_was_measured():
    bound = remedy("native-op", "", predicted={"samples_per_s": 90, "gain": 30, "upper_bound": True}, effort="high")
    tried = remedy("more-workers", "", predicted={"samples_per_s": 9, "gain": 3}, measured={"samples_per_s": 6, "gain": 2})
    assert [one["id"] for one in rank([bound, tried])] == ["more-workers", "native-op"]


def test_refused():
    for error, wrong in ((FileNotFoundError, dict(data="nosuch")), (ValueError, dict(epochs=-1)), (ValueError, dict(epochs=1.5)), (ValueError, dict(samples=0)),
                         (ValueError, dict(seconds=0)), (ValueError, dict(seconds=-1)), (ValueError, dict(seconds=float("nan"))), (ValueError, dict(memory=0))):
        try:
            ps.doctor(Loader(slow), **wrong)
        except error as found:
            name, = wrong
            assert f"{name}=" in str(found) and "expected" in str(found), found
            continue
        raise AssertionError(f"accepted: {wrong}")

    class Whole:
        """A number of another type, as those of NumPy are."""

        def __index__(self):
            return 3

    values = check(ps.doctor([[1] * 8] * 5, step=pause(1), epochs=Whole(), samples=Whole(), seconds=0.5, verify=False))
    assert values["now"]["total_seconds"] == 3 * values["now"]["epoch_seconds"] > 0, values["now"]
    done, values = run_script("", "--memory", "many")
    assert done.returncode == 2 and "such as 64G" in done.stderr, done.stderr
    done, values = run_script("", "--data", "nosuch")
    assert done.returncode == 2 and "no such file or folder" in done.stderr, done.stderr


# ---- Processes and threads ----


class Pooled:
    """Batches of 8 that processes make by a function."""

    def __init__(self, pool, function):
        self.pool, self.function = pool, function

    def __iter__(self):
        for i in range(200):
            yield self.pool.map(self.function, range(8 * i, 8 * i + 8), chunksize=4)


@contextlib.contextmanager
def pooled(function):
    pool = multiprocessing.get_context("fork").Pool(2)
    try:
        yield Pooled(pool, function)
    finally:
        pool.close()
        pool.join()


def objects(value):
    return STORED


STORED = [{"name": f"sample {i}", "value": float(i)} for i in range(3000)]


@examined
def test_processes_that_compute(patience):
    with pooled(slow) as loader:
        values = check(ps.doctor(loader, step=pause(0.1), seconds=2 * patience, verify=False))
    assert values["verdict"]["class"] == "input-bound" and values["verdict"]["cause"] == "worker-limit", (values["verdict"], values["stacks"])


@examined
def test_processes_that_pass_objects(patience):
    with pooled(objects) as loader:
        values = check(ps.doctor(loader, step=pause(0.1), seconds=2 * patience, verify=False))
    assert values["verdict"]["cause"] == "serialization" and values["verdict"]["bottleneck"] == "python", (values["verdict"], values["stacks"])
    assert values["remedies"][0]["id"] == "native-op" and "shared memory" in values["remedies"][0]["title"], values["remedies"]


class Locked:
    """Batches of threads that take turns."""

    def __init__(self):
        self.lock = threading.Lock()

    def make(self, value):
        with self.lock:
            time.sleep(0.001)
        return value

    def __iter__(self):
        with ThreadPoolExecutor(4) as pool:
            for i in range(100):
                yield list(pool.map(self.make, range(8)))


@examined
def test_threads_that_wait_for_each_other(patience):
    values = check(ps.doctor(Locked(), step=pause(1), seconds=1.5 * patience, verify=False))
    assert values["verdict"]["cause"] == "lock-contention" and "make" in values["verdict"]["stage"], (values["verdict"], values["stacks"])
    assert values["remedies"][0]["id"] == "processes", values["remedies"]


# ---- Storage ----


class Piped:
    """Samples from a source that delivers slowly."""

    def __iter__(self):
        reading, writing = os.pipe()

        def feed():
            with open(writing, "wb", buffering=0) as out:
                for _ in range(200):
                    time.sleep(0.002)
                    try:
                        out.write(b"x" * 4096)
                    except BrokenPipeError:  # nobody reads any more
                        return

        thread = threading.Thread(target=feed)
        thread.start()
        with open(reading, "rb", buffering=0) as source:
            for _ in range(50):
                yield [source.read(4096) for _ in range(4)]
            thread.join()


@examined
def test_a_slow_source(patience):
    values = check(ps.doctor(Piped(), step=pause(0.5), seconds=1.5 * patience, verify=False))
    assert values["verdict"]["cause"] == "slow-storage" and values["verdict"]["bottleneck"] == "storage", (values["verdict"], values["stacks"])
    assert values["remedies"][0]["id"] == "faster-storage" and values["remedies"][0]["predicted"]["gain"] > 1, values["remedies"]


class Tiny:
    """Small files, one per sample."""

    def __init__(self, folder):
        self.paths = [os.path.join(folder, "a", f"{i}.png") for i in range(600)]
        os.makedirs(os.path.join(folder, "a"))
        for path in self.paths:
            with open(path, "wb") as f:
                f.write(b"y" * 100)

    def __iter__(self):
        for i in range(0, len(self.paths), 20):
            batch = []
            for path in self.paths[i : i + 20]:
                file = os.open(path, os.O_RDONLY)
                batch.append(os.read(file, 1000))
                os.close(file)
            yield batch


@examined
def test_many_small_files(patience):
    with scratch() as folder:
        values = check(ps.doctor(Tiny(folder), step=lambda batch: None, data=folder, seconds=1.5 * patience, verify=False))
    assert values["verdict"]["cause"] == "many-small-files", (values["verdict"], values["stacks"])
    assert values["remedies"][0]["id"] == "pack" and values["equivalent"]["pipeline"] is None, values["remedies"]
    assert "no arrays" in values["equivalent"]["reason"], values["equivalent"]


class Wearing:
    """Epochs that are slower from the second on, as those of data that left the page cache."""

    def __init__(self):
        self.passes = 0

    def __iter__(self):
        self.passes += 1
        for _ in range(20):
            time.sleep(0.002 if self.passes == 1 else 0.02)
            yield [0] * 8

    def __len__(self):
        return 20


@examined
def test_later_epochs_are_slower(patience):
    with scratch() as folder:
        data = os.path.join(folder, "data.tfrecord")
        with ps.TFRecordWriter(data) as writer:
            for _ in range(160):
                writer.write(b"z" * 1000)
        values = check(ps.doctor(Wearing(), step=pause(2), data=data, memory=10000, seconds=4 * patience, verify=False))
        assert values["verdict"]["cause"] == "page-cache" and values["data"]["cold"], (values["verdict"], values["data"])
        assert "in the first epoch" in values["verdict"]["sentence"] and values["epochs"]["first_samples_per_s"] > 2 * values["epochs"]["later_samples_per_s"]
        best = values["remedies"][0]
        assert best["id"] == "faster-storage" and best["predicted"]["gain"] > 2 and best["predicted"]["upper_bound"], values["remedies"]
        assert ": up to " in values["verdict"]["sentence"], values["verdict"]
        values = check(ps.doctor(Wearing(), step=pause(2), data=data, memory=1e9, seconds=4 * patience, verify=False))
        assert values["verdict"]["cause"] != "page-cache" and values["data"]["cold"] is False and values["epochs"], values["verdict"]


WEARING = """
    import time
    import penstock as ps
    for epoch in range(2):
        for batch in ps.pipeline("range 120 | batch 4"):
            time.sleep(0.005)
"""


@examined
def test_a_script_with_data(patience):
    with scratch() as folder:
        with open(os.path.join(folder, "x.npy"), "wb") as f:
            f.write(bytes(5000))
        done, values = run_script(WEARING, "--whole", "--seconds", str(patience), "--data", folder, "--memory", "1k")
    assert done.returncode == 0 and values["data"]["cold"] and values["data"]["memory_bytes"] == 1000, (done.stderr, values)
    assert "does not fit into memory" in done.stdout, done.stdout


# ---- Copies to a device ----

DEVICE = """
    import sys, time, types

    class Tensor:
        def __init__(self, values, shape, device="cpu"):
            self.values, self.shape, self.dtype, self.device = values, shape, "torch.float32", types.SimpleNamespace(type=device)
        nbytes = property(lambda self: 4 * len(self.values))
        def __getitem__(self, i):
            each = len(self.values) // self.shape[0]
            return Tensor(self.values[i * each : (i + 1) * each], self.shape[1:])
        def tolist(self):
            return list(self.values)
        def to(self, device, non_blocking=False):
            time.sleep(0.01)
            return Tensor(self.values, self.shape, device)

    torch = types.ModuleType("torch")
    torch.Tensor, plain = Tensor, Tensor.to
    sys.modules["torch"] = torch
    import penstock as ps
    values = [(i * 7 % 256) / 255 for i in range(8 * 3 * 16 * 16)]

    class Loader:
        def __iter__(self):
            for _ in range(50):
                yield Tensor(values, (8, 3, 16, 16))

    def step(batch):
        if batch.device.type == "cpu":
            batch = batch.to("fake")
        time.sleep(0.004)

    for patience in (1, 4, 16):
        answer = ps.doctor(Loader(), step=step, seconds=2 * patience)
        verdict, values = answer.verdict, answer.to_dict()
        ids = {remedy["id"]: remedy for remedy in answer.remedies}
        if verdict["cause"] == "transfer" and ids["device-prefetch"]["measured"]["gain"] > 1.1:
            break
    assert verdict["cause"] == verdict["bottleneck"] == "transfer" and "to the device" in verdict["sentence"], verdict
    assert values["step"]["transfer_ms"] >= 9 and values["step"]["transfer_ms"] > values["step"]["compute_ms"], values["step"]
    assert ids["device-prefetch"]["measured"]["gain"] > 1.1, ids
    assert ids["bytes-to-device"]["predicted"]["gain"] > 1.3 and "copies " in str(answer), ids
    assert torch.Tensor.to is plain
"""


def test_copies_to_a_device():
    in_a_process(DEVICE)


def test_where_jax_copies_to():
    """On a machine without an accelerator, device_put copies nothing to a device."""
    in_a_process("""
        import sys, types
        jax = types.ModuleType("jax")
        jax.device_put = lambda value, device=None, **given: value
        backend = "cpu"
        jax.default_backend = lambda: backend
        sys.modules["jax"] = jax
        from penstock._doctor.transfer import Copies
        cpu, gpu = (types.SimpleNamespace(platform=name) for name in ("cpu", "gpu"))
        rows = types.SimpleNamespace(nbytes=8)
        with Copies() as copies:
            for device in (None, cpu, types.SimpleNamespace(device_set=[cpu])):
                jax.device_put(rows, device)
            jax.device_put(rows)
            assert copies.count == 0, copies.device
            for device in (gpu, types.SimpleNamespace(device_set=[gpu])):
                jax.device_put(rows, device)
            jax.device_put(types.SimpleNamespace(nbytes=8, device=gpu), gpu)  # it is there already
            assert copies.count == 2, copies.count
            backend = "gpu"
            jax.device_put(rows)
            assert copies.count == 3 and copies.device == "default" and copies.bytes == 24, copies.count
    """)


def test_upper_bounds_are_marked():
    from penstock._doctor.answer import _remedy_lines, remedy, result
    from penstock._doctor.diagnose import _gain_of

    for upper in (False, True):
        one = remedy("pin-memory", "Pin it", predicted=result(200.0, 100.0, None, upper))
        assert ("up to 200 samples/s" in _remedy_lines(one)[0]) == upper and ("up to 2 times" in _gain_of(one, None)) == upper, (one, _gain_of(one, None))


def test_what_was_bytes():
    from array import array

    from penstock._doctor.transfer import was_bytes

    class Image:
        dtype, shape = "float32", (1, 4, 32, 32)

        def __init__(self, values):
            self.values = values

        def __getitem__(self, i):
            return self.values

    bytes_of_channels = array("d", [(k * 31 % 256 - 10 * (k // 1024)) / (k // 1024 + 50) for k in range(4096)])  # another scale for each channel
    assert was_bytes(Image(bytes_of_channels)) and not was_bytes(Image(array("d", [k / 7 for k in range(4096)])))


# ---- Graphics processors ----

UTILISED = """
    import os, sys, time, types
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(is_available=lambda: True, device_count=lambda: 2, memory_allocated=lambda: 1)
    sys.modules["torch"] = torch
    import penstock as ps

    def step(batch):
        open(os.environ["BUSY"], "w").close()
        time.sleep(0.05)
        os.unlink(os.environ["BUSY"])

    answer = ps.doctor([[1] * 8] * 50, step=step, seconds=2)
    share = answer.to_dict()["gpu"]["devices"][0]["utilisation_share"]
    assert share > 0.5, share
    assert f"Stand-in GPU: {100 * share:.0f} % busy while the steps ran" in str(answer), str(answer)
"""
FRAMEWORK = """
    import os, sys, time, types
    devices = [types.SimpleNamespace(platform=os.environ["PLATFORM"])]
    if os.environ["NAME"] == "jax":
        module = types.ModuleType("jax")
        module.devices = lambda: devices
    else:
        module = types.ModuleType("tensorflow")
        found = [device for device in devices if device.platform == "gpu"]
        module.config = types.SimpleNamespace(list_physical_devices=lambda kind: found if kind == "GPU" else [])
    sys.modules[os.environ["NAME"]] = module
    import penstock as ps
    answer = ps.doctor([[1] * 8] * 50, step=lambda batch: time.sleep(0.01), seconds=1)
    unused = os.environ["PLATFORM"] == "cpu"
    assert (answer.verdict["cause"] == "gpu-unused") == unused, answer.verdict
    assert answer.to_dict()["gpu"]["frameworks"] == {os.environ["NAME"]: 0 if unused else 1}, answer.to_dict()["gpu"]
"""


LOOKS = """
    import time
    from penstock._doctor import gpu
    opened, open_library = [], gpu.Library.open.__func__
    gpu.Library.open = classmethod(lambda cls: opened.append(1) or open_library(cls))
    gpu.EVERY = 0.001
    with gpu.Watch() as watch:
        time.sleep(0.5)
    assert len(opened) == 1 and watch.counts[0] > 10, (opened, watch.counts)
    assert len(watch.sums) == 2 and abs(watch.shares()[1] - 0.37) < 1e-9, watch.shares()
    assert gpu.Watch().shares() == []
"""


def test_many_looks():
    """The library starts once, and looks take no memory."""
    beside_a_gpu(LOOKS)


def test_utilisation_while_steps_run():
    beside_a_gpu(UTILISED)


def test_gpus_of_other_frameworks():
    for name in ("tensorflow", "jax"):
        for platform in ("cpu", "gpu"):
            beside_a_gpu(FRAMEWORK, NAME=name, PLATFORM=platform)


# ---- Kinds of loaders ----


def test_a_loader_like_those_of_grain():
    kind = type("DataLoader", (Loader,), {"__module__": "grain._src.python.data_loader"})
    values = check(ps.doctor(kind(slow), step=pause(1), seconds=1, verify=False))
    assert values["settings"]["kind"] == "grain" and values["verdict"]["wait_share"] > 0.05, values["settings"]


tap.main(globals())
