"""penstock.doctor without any framework: plain loaders with one planted fault each, scripts, pages, a stand-in for NVIDIA's library."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

import tap
from doctor_data import Loader, beside_a_gpu, check, pause, run_script, slow
from patience import HANG, examined

import penstock as ps


@examined
def test_a_slow_function(patience):
    answer = ps.doctor(Loader(slow), step=pause(2), seconds=2 * patience, epochs=10)
    values = check(answer)
    assert values["verdict"]["class"] == "input-bound" and values["verdict"]["cause"] == "python-function", values["verdict"]
    assert "slow" in values["verdict"]["stage"] and values["remedies"][0]["id"] in ("processes", "native-op"), values["remedies"]
    assert abs(values["now"]["total_seconds"] - 10 * values["now"]["epoch_seconds"]) < 1e-6
    assert values["perfect"]["gain"] > 1.2 and values["stacks"][0]["share"] > 0.3


def test_machines():
    """How many of them a wished rate takes: with the gradients that a step exchanges, they do not simply add up."""

    class Parameter:
        requires_grad = True

        def numel(self):
            return 250_000_000

        def element_size(self):
            return 4

    class Module:
        def __init__(self, owned=None):
            self.owned = owned or [Parameter()]

        def named_parameters(self):
            return []

        def parameters(self):
            return self.owned

    def machines(step, **options):
        values = check(ps.doctor(Loader(lambda i: i), step=step, seconds=1, verify=False, **options))
        assert values["remedies"][0]["id"] != "more-machines" or len(values["remedies"]) == 1, values["remedies"]
        return values["now"]["samples_per_s"], next((r for r in values["remedies"] if r["id"] == "more-machines"), None)

    assert machines(pause(5))[1] is None
    now, met = machines(pause(5), wish=1)
    assert met["machines"] == 1 and met["predicted"] is None and met["command"] == "" and "by itself" in met["title"], met
    now, many = machines(pause(5), wish=20000)
    assert many["machines"] == -(-20000 // now) and many["predicted"]["upper_bound"] and many["predicted"]["samples_per_s"] >= 20000, (now, many)
    now, far = machines(pause(5), wish=1e12)
    assert far["machines"] == 65536 and far["title"].startswith("more than 65536 machines") and "1e+12" in far["title"], far
    model = Module()
    compiled = Module(model.owned)  # as torch.compile makes it: the same parameters, which count once

    def step(batch):
        compiled.parameters(), model.parameters()
        time.sleep(5e-3)

    now, two = machines(step, link=1e11)  # 2 · 1/2 · 1 GB at 100 GB/s: 10 ms beside a step of 8 / now seconds
    seconds = 8 / now
    assert two["machines"] == 2 and abs(two["predicted"]["gain"] - 2 * seconds / (seconds + 0.0101)) < 0.01 and "1e+03 MB" in two["reason"], (now, two)
    for wrong in (dict(wish=0), dict(wish=-5), dict(link=float("inf"))):
        try:
            ps.doctor(Loader(slow), **wrong)
            raise SystemExit(f"accepted: {wrong}")
        except ValueError as error:
            assert "above 0" in str(error), error


class Prying:
    """Counts every look at its attributes by the thread that samples stacks."""

    def __init__(self):
        self.__dict__["strangers"] = 0

    def _count(self):
        self.__dict__["strangers"] += threading.current_thread().name == "penstock-doctor"

    @property
    def slow(self):
        self._count()
        return slow

    def __getattr__(self, name):
        self._count()
        raise AttributeError(name)


def test_looking_runs_no_code_of_the_program():
    prying = Prying()

    def work(value):
        return sum(prying.slow(value) for _ in range(2))

    ps.doctor(Loader(work), step=lambda batch: time.sleep(0.001), seconds=1)
    assert prying.strangers == 0, prying.strangers


def test_calls_are_resolved():
    from penstock._doctor import stacks

    def module(text, **names):
        class Frame:
            f_locals, f_globals = names, {}

        return stacks._resolve(Frame, text)[0]

    import pickle

    assert module("json.loads(x)", json=json) == "json" and module("pickle.dumps(x)", pickle=pickle) in ("pickle", "_pickle")
    assert module("time.sleep(1)", time=time) == "time" and module("f.read()", f=open(os.devnull)) == "_io"
    found = {}

    def multiply(a):
        found["sample"] = stacks._is_called(sys._getframe(), "a * a + 1", "a"), stacks._is_called(sys._getframe(), "np.sqrt(a * a + 1)", "np.sqrt")

    multiply(1)
    assert found["sample"] == (False, True), found
    assert module("len(x)") == "builtins" and module("prying.slow(3)", prying=Prying()) == __name__


@examined
def test_a_generator_that_can_be_read_once(patience):
    values = check(ps.doctor(iter(Loader(slow)), step=pause(2), seconds=1.5 * patience))
    assert values["verdict"]["cause"] == "python-function" and values["verdict"]["wait_share"] > 0.2, values["verdict"]


@examined
def test_a_healthy_loop(patience):
    values = check(ps.doctor(Loader(lambda i: i), step=pause(20), seconds=1.5 * patience))
    assert values["verdict"]["class"] == "consumer-bound" and values["verdict"]["cause"] == "consumer", values["verdict"]


def test_loader_alone():
    values = check(ps.doctor(Loader(slow), seconds=1))
    assert values["verdict"]["class"] == "unknown" and values["now"]["samples_per_s"] > 0
    assert "per batch of 8 would wait" in values["verdict"]["sentence"], values["verdict"]


def test_a_penstock_dataset():
    dataset = ps.pipeline("range 100000 | batch 64")
    values = check(ps.doctor(dataset, step=pause(3), seconds=1))
    assert values["settings"]["kind"] == "penstock" and values["stages"], values["settings"]


def test_nothing_to_read():
    for loader, error in (([], ValueError), (7, TypeError)):
        try:
            ps.doctor(loader, seconds=1)
        except error:
            continue
        raise AssertionError(f"{loader!r} was accepted")


def test_saved():
    answer = ps.doctor(Loader(lambda i: i), step=pause(1), seconds=1)
    with tempfile.TemporaryDirectory() as folder:
        page, values = os.path.join(folder, "a.html"), os.path.join(folder, "a.json")
        answer.save(page)
        answer.save(values)
        assert open(page, encoding="utf-8").read().startswith("<!doctype html>") and json.load(open(values))["schema"] == 1
        assert sorted(os.listdir(folder)) == ["a.html", "a.json"]
    assert answer._repr_html_().startswith("<iframe") and "<script" not in answer._repr_html_()


PLAIN = """
    import sys, types
    assert sys.argv[1:] == ["a", "--b"]
    torch = types.ModuleType("torch")  # stands for a framework
    exec("def step():\\n t = 0\\n for k in range(20000): t += k\\n", torch.__dict__)

    def batches():
        while True:
            total = 0
            for k in range(60000):
                total += k
            yield total

    try:
        for batch in batches():
            torch.step()
    finally:
        print("in good order")
"""


@examined
def test_a_plain_loop(patience):
    done, values = run_script(PLAIN, "--seconds", str(1.5 * patience))
    assert done.returncode == 0 and "in good order" in done.stdout, done.stderr
    assert values["verdict"]["class"] == "input-bound" and values["verdict"]["cause"] == "python-function", values["verdict"]
    assert 0.5 < values["verdict"]["wait_share"] < 0.95 and "batches" in values["verdict"]["stage"], values["verdict"]


def test_scripts_that_end_by_themselves():
    done, values = run_script("print('short')")
    assert done.returncode == 1 and "nothing can be said" in done.stderr and values is None
    done, values = run_script("raise SystemExit(3)")
    assert done.returncode == 3, done
    done = subprocess.run([sys.executable, "-m", "penstock.doctor", "missing.py"], capture_output=True, text=True)
    assert done.returncode == 2 and "no such file" in done.stderr


DATASET = """
    import time
    import penstock as ps
    for batch in ps.pipeline("range 400 | batch 4"):
        time.sleep(0.02)
    print("the whole script")
"""


@examined
def test_whole(patience):
    done, values = run_script(DATASET, "--whole", "--seconds", str(1.5 * patience))
    assert done.returncode == 0 and "the whole script" in done.stdout, done.stderr
    assert values["verdict"]["wait_share"] < 0.2 and values["settings"]["kind"] == "penstock", values["verdict"]


MONITORED = """
    import glob, os, sys
    import penstock as ps
    dataset = ps.pipeline("range 1000 | batch 10")
    folder = os.environ["PENSTOCK_MONITOR"]
    assert next(iter(dataset)).size == 10
    found = glob.glob(folder + "/*.sock")
    assert len(found) == 1 and found[0].startswith(f"{folder}/{os.getpid()}-"), found
    dataset.close()
    assert not glob.glob(folder + "/*.sock")
"""


def test_monitor_by_the_environment():
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "PENSTOCK_MONITOR": os.path.join(folder, "run")}
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(MONITORED)], capture_output=True, text=True, timeout=HANG, env=env)
        assert done.returncode == 0, done.stderr


UNUSED = """
    import sys, time, types
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(is_available=lambda: False, device_count=lambda: 0, memory_allocated=lambda: 0)
    sys.modules["torch"] = torch
    import penstock as ps
    from penstock._doctor import gpu
    assert gpu.look()["devices"] == [{"name": "Stand-in GPU", "utilisation_share": 0.37, "memory_bytes": 1 << 34}] * 2, gpu.look()
    answer = ps.doctor([[1] * 8] * 50, step=lambda batch: time.sleep(0.01), seconds=1.5)
    verdict = answer.verdict
    assert verdict["cause"] == "gpu-unused" and verdict["bottleneck"] == "configuration" and "Stand-in GPU" in verdict["sentence"], verdict
    assert answer.remedies[0]["id"] == "faster-step", answer.remedies
    assert any("one per device" in remedy["title"] for remedy in answer.remedies), answer.remedies
"""


def test_a_gpu_that_is_not_used():
    beside_a_gpu(UNUSED)


tap.main(globals())
