"""`python -m penstock.doctor [options] script.py arguments…`: runs a script unchanged, watches it, and says why it is slow."""

import argparse
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time

from . import stacks
from .answer import result
from .diagnose import Case, sentence
from .loaders import Loader, adapt
from .observe import Observation, run, run_step
from .run import Budget, Options, Seen, build, look_at_stacks
from .watch import Enough, Sampler, Watcher, plain_share

AFTER = 8.0  # seconds for measurements after the script, or as long as it was watched if that is less


class Nothing(Loader):
    """A loop whose loader is not known."""

    kind = "loop"

    def __init__(self):
        super().__init__(())

    def settings(self):
        return {**super().settings(), "loader": "a loop in Python"}

    def variants(self):
        return []

    def length(self):
        return None


def answer_for(seen, loader, step, data, samples_seen, seconds=AFTER, verify=True, copies=None, devices=None, **wanted):
    """The answer for steps that were watched. `loader` None: only the steps are known. wanted: as for penstock.doctor."""
    options = Options(data, verify=verify and step is not None, **wanted)
    budget = Budget(seconds)
    found = adapt(loader) if loader is not None and hasattr(loader, "__iter__") | hasattr(loader, "__getitem__") else Nothing()
    case = Case(loader=found, processes=len(stacks.processes()))
    alone, kept = None, []
    if not found.once and not isinstance(found, Nothing):
        alone = run(found.passes, None, budget.part(0.25), kept)
        if not samples_seen:
            samples_seen = look_at_stacks(found, budget.part(0.15))
    step_only = run_step(step, kept[0], budget.part(0.1)) if step is not None and kept else None
    return build(case, budget, Seen(seen, alone, step_only, kept[0] if kept else None, samples_seen), step, options, copies, devices)


def size(text):
    """Bytes from a text such as 64G: units of 1000, or of 1024 as in 64GiB, as in the tool."""
    units = "kmgt"
    word = text.strip().lower()
    binary = word.endswith("ib")
    word = word.removesuffix("ib") if binary else word.removesuffix("b")
    power = units.find(word[-1:]) + 1 if word[-1:] else 0
    try:
        value = float(word[:-1] if power else word) * (1024 if binary else 1000) ** power
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: expected bytes above 0, such as 64G")
    return value


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m penstock.doctor", description="Runs a training script unchanged, watches its loaders and steps, and says why it is slow.",
        epilog="examples: python -m penstock.doctor train.py --epochs 3;  python -m penstock.doctor --html report.html --seconds 30 train.py",
    )
    parser.add_argument("--json", metavar="OUT", help='write the answer as JSON to a file; "-": to standard output')
    parser.add_argument("--html", metavar="OUT", help="write the page")
    parser.add_argument("--seconds", type=float, default=60.0, help="end the script after this time of training (default: 60), earlier if enough was seen")
    parser.add_argument("--whole", action="store_true", help="let the script run to its end")
    parser.add_argument("--data", metavar="PATH", help="the files that the script reads: the equivalent penstock pipeline is measured")
    parser.add_argument("--wish", type=float, metavar="RATE", help="target rate in samples per second; the answer includes the number of machines that reach it")
    parser.add_argument("--link", type=float, metavar="BYTES", help="bytes per second between machines, such as 1.25e9")
    parser.add_argument("--memory", metavar="BYTES", type=size, help="memory that is free for the page cache, such as 64G, to tell whether --data fits")
    parser.add_argument("--verify", action="store_true", help="run the script again with the best setting of its DataLoader, and measure")
    parser.add_argument("script", help="the script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args(arguments)
    for name in ("wish", "link"):
        if getattr(options, name) is not None and not 0 < getattr(options, name) < float("inf"):
            parser.error(f"--{name}: expected a rate above 0")
    if not 0 < options.seconds < float("inf"):
        parser.error("--seconds: expected a time above 0")
    try:
        Options(options.data)
    except FileNotFoundError as error:
        parser.error(str(error).replace("data=", "--data ", 1))
    if not os.path.isfile(options.script):
        parser.error(f"{options.script}: no such file")
    watcher, sampler, code = watch(options)
    answer = conclude(watcher, sampler, options)
    if answer is None:
        print("penstock.doctor: the script ended before a step was seen; nothing can be said", file=sys.stderr)
        return code or 1
    if options.json == "-":
        print(json.dumps(answer.to_dict()))
    else:
        print(f"\n{answer}")
        if options.json:
            _save_json(answer, options.json)
    if options.html:
        answer.save(options.html)
    return code


def _save_json(answer, path):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(answer.to_dict(), f, indent=1)
        f.write("\n")


def watch(options):
    """Runs the script. Returns the watcher, the sampler and the exit code of the script."""
    watcher = Watcher()
    watcher.hook()
    sampler = Sampler(watcher)
    _install(watcher, sampler, options)
    sys.argv = [options.script, *options.arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(options.script))
    code = 0
    sampler.start()
    watcher.devices.start()
    try:
        runpy.run_path(options.script, run_name="__main__")
    except Enough:
        pass
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except KeyboardInterrupt:
        print("\npenstock.doctor: interrupted; the answer rests on what was seen", file=sys.stderr)
    finally:
        watcher.over = True
        sampler.stop()
        watcher.devices.stop()
        watcher.copies.stop()
        for meter in watcher.meters:
            meter._last = None
    return watcher, sampler, code


def _install(watcher, sampler, options):
    """Ends the script when enough was seen: a signal handler raises Enough in the main thread."""
    watcher.over = False
    if options.whole:
        return

    def stop(number, frame):
        if not watcher.over:
            watcher.over = True
            raise Enough()

    signal.signal(signal.SIGUSR2, stop)
    first = None  # when the first step was seen

    def wait():
        nonlocal first
        while not watcher.over:
            time.sleep(0.1)
            if first is None and watcher.best() is not None:
                first = time.monotonic()
            spent = time.monotonic() - first if first is not None else stacks.EVERY * len(sampler.samples)
            if spent > options.seconds or watcher.enough():
                if not watcher.over:
                    signal.pthread_kill(watcher.main, signal.SIGUSR2)
                return

    threading.Thread(target=wait, name="penstock-doctor-clock", daemon=True).start()


def conclude(watcher, sampler, options):
    """The answer; None if nothing was seen."""
    meter = watcher.best()
    watcher.ignored.yes = True  # measurements are not watched
    if meter is None or len(meter.seen) < 2:
        return _plain(sampler, options)
    places = stacks.workers(watcher.pids) if watcher.pids else []
    step = None
    if meter.model is not None and not options.whole:
        step = keras_step(meter.model)
    waits = [] if meter.kind in ("keras", "torch") else sampler.waits
    answer = answer_for(meter.seen, meter.loader, step, options.data, waits, min(AFTER, options.seconds), copies=watcher.copies, devices=watcher.devices,
                        wish=options.wish, link=options.link, memory=options.memory)
    values = answer._values
    values["subject"] = os.path.basename(options.script)
    if places:
        values["stacks"] = places + values["stacks"]
    if options.verify and meter.kind == "torch":
        _verify(values, options)
    return answer


def keras_step(model):
    """One training step of a Keras model for a batch."""
    def step(batch):
        if isinstance(batch, (tuple, list)):
            return model.train_on_batch(*batch[:3])
        return model.train_on_batch(batch)

    return step


def _plain(sampler, options):
    """A loop without a loader that is known: the stacks tell preparing from computing."""
    samples = sampler.samples
    share, data = plain_share(samples)
    if share is None:
        return None
    seen = Observation()
    for _ in range(20):  # shares only: one step of one second
        seen.add(share, 1 - share, 1)
    answer = build(Case(loader=Nothing()), Budget(0.1), Seen(seen, stacks=data), None, Options(options.data, verify=False, memory=options.memory))
    values = answer._values
    values["subject"] = os.path.basename(options.script)
    values["now"] = dict.fromkeys(values["now"])
    values["alone"] = dict.fromkeys(values["alone"])
    values["step"] = {**dict.fromkeys(values["step"]), "layers": []}
    values["perfect"], values["timeline"] = None, []
    values["verdict"]["limit_step_ms"] = None
    for remedy in values["remedies"]:
        for name in ("predicted", "measured"):
            if remedy[name]:
                remedy[name] = {**remedy[name], "samples_per_s": None, "epoch_seconds": None}
    return answer


def _verify(values, options):
    """Runs the script again with more workers, and notes the measured rate."""
    from .observe import cores

    for remedy in values["remedies"]:
        if remedy["id"] != "more-workers":
            continue
        changes = {"num_workers": cores(), "persistent_workers": True}
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "answer.json")
            command = [sys.executable, "-m", "penstock.doctor", "--json", out, "--seconds", str(options.seconds), options.script, *options.arguments]
            subprocess.run(command, env={**os.environ, "PENSTOCK_DOCTOR_TRY": json.dumps(changes)}, stdout=subprocess.DEVNULL, check=False)
            if not os.path.exists(out):
                return
            with open(out, encoding="utf-8") as f:
                rate = json.load(f)["now"]["samples_per_s"]
        now, epoch = values["now"]["samples_per_s"], values["now"]["epoch_seconds"]
        remedy["measured"] = result(rate, now, now * epoch if epoch else None)
