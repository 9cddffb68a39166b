"""penstock.doctor(loader, step, data): measures a loader and a step, together and alone, and what other settings bring."""

import glob
import math
import operator
import os
import time

from .._core import Error
from . import engine, equivalent, gpu, memory, stacks
from .answer import Answer, machine, rank, result
from .diagnose import BOTTLENECKS, Case, cause_of, classify, sentence
from .loaders import adapt
from .machines import more_machines
from .observe import cores, run, run_step, size_of
from .remedies import Work, fitting, gain_of
from .transfer import Copies

DEFAULT_SECONDS = 12.0
PROOF = 30.0  # seconds from which on the doctor of the engine measures its remedies, too


class Budget:
    """The time that is left for measurements."""

    def __init__(self, seconds):
        self.seconds, self.end = seconds, time.perf_counter() + seconds

    def part(self, share, least=0.3):
        return max(least, share * self.seconds)

    def left(self):
        return self.end - time.perf_counter()


class Options:
    """What the caller knows and wants; wrong values raise."""

    def __init__(self, data=None, epochs=None, samples=None, verify=True, wish=None, link=None, memory=None):
        self.data, self.verify = data, verify
        self.wish, self.link, self.memory = wish, link, memory
        for name in ("wish", "link", "memory"):
            _above(name, getattr(self, name), "a rate" if name != "memory" else "bytes")
        self.epochs, self.samples = _count("epochs", epochs), _count("samples", samples)
        if data is not None:
            _there(os.fspath(data))


def _above(name, value, what):
    if value is not None and not 0 < value < math.inf:
        raise ValueError(f"{name}={value!r}; expected {what} above 0")


def _count(name, value):
    """A whole number of any type as an int."""
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__") or operator.index(value) < 1:
        raise ValueError(f"{name}={value!r}; expected a whole number from 1 on")
    return operator.index(value)


def _there(data):
    if "://" not in data and not os.path.exists(data) and not glob.glob(data):
        raise FileNotFoundError(f"data={data!r}: no such file or folder; expected the files that the loader reads")


def doctor(loader, step=None, data=None, *, seconds=DEFAULT_SECONDS, epochs=None, samples=None, verify=True, wish=None, link=None, memory=None):
    """Says why training is slow, and what each remedy would bring.

        loader: any iterable of batches: torch DataLoader, tf.data.Dataset, Keras PyDataset, Grain, a Dataset, a generator
        step: the training step, called with one batch; None: only the loader is measured
        data: the files that the loader reads; the equivalent penstock pipeline is then written and measured
        seconds: time for all measurements, about
        epochs, samples: the size of the real training, for its total time
        verify: measures remedies that can be tried at once; False: predicts only
        wish: samples per second that you wish for: the answer says how many machines they take
        link: bytes per second between machines, such as 1.25e9, for the exchange of gradients; None: 10 Gbit/s
        memory: bytes that are free for the page cache, to tell whether the data fits; None: asked from the system

    Example:

        answer = ps.doctor(loader, step=lambda batch: train_step(model, batch), data="photos/")
        print(answer); answer.save("report.html")
    """
    _above("seconds", seconds, "a time")
    options = Options(data, epochs, samples, verify, wish, link, memory)
    budget = Budget(seconds)
    case = Case(loader=adapt(loader))
    with Copies() as copies, gpu.Watch() as devices:
        seen = measure(case, step, budget, copies, devices)
        return build(case, budget, seen, step, options, copies, devices)


class Seen:
    """What was observed: loader and step together, each alone, a batch, samples of stacks."""

    def __init__(self, together=None, alone=None, step_only=None, kept=None, stacks=()):
        self.together, self.alone, self.step_only, self.kept, self.stacks = (
            together if together is not None and len(together) else None, alone if alone is not None and len(alone) else None, step_only, kept, stacks)

    def best(self):
        return self.together or self.alone


def measure(case, step, budget, copies, devices):
    """Observes both together, the loader alone and the step alone, and the stacks."""
    found, kept = case.loader, []
    if found.once:  # one pass is all there is: the loader alone is known from the waits
        with stacks.Sampler() as sampler:
            together = run(found.passes, step, budget.part(0.6), kept, copies=copies)
        devices.stop()
        _need(kept)
        step_only = run_step(step, kept[0], budget.part(0.15), copies) if step else None
        return Seen(together, None, step_only, kept[0], [s for s in sampler.samples if s.generator] or sampler.samples)
    together = run(found.passes, step, budget.part(0.3), kept, copies=copies) if step else None
    devices.stop()
    case.processes = len(stacks.processes())
    alone = run(found.passes, None, budget.part(0.15), kept)
    _need(kept)
    step_only = run_step(step, kept[0], budget.part(0.1), copies) if step else None
    return Seen(together, alone, step_only, kept[0], look_at_stacks(found, budget.part(0.1)))


def _need(kept):
    if not kept:
        raise ValueError("the loader has no batches")


def look_at_stacks(found, seconds):
    """Samples of the stacks while the loader makes batches in this thread."""
    inside = found.in_process()
    if inside is None:
        return []
    with stacks.Sampler(every_thread=inside.threads) as sampler:
        run(inside.passes, None, seconds)
    for sample in sampler.samples:
        if sample.kind == "step":  # no step runs here: tensors are worked on to make the batch
            sample.kind = "augment"
    return ([sample for sample in sampler.samples if sample.kind != "lock"] if inside.threads else []) or sampler.samples


def build(case, budget, seen, step, options, copies=None, devices=None):
    """Makes the answer from the observations."""
    found, kept = case.loader, seen.kept
    whole = seen.together
    _compare_epochs(case, seen)
    steps = seen.best()
    judge(case, seen, steps, kept, options, copies, devices)
    now = steps.rate() if steps is not None else case.loader_rate
    here = found.samples() or (found.length() or 0) * case.batch or None
    epoch_samples = options.samples or here
    data = memory.fits(options.data, options.memory, here, options.samples)
    case.cold = bool(data["cold"])
    notes = _examine(case, budget, options)
    if case.engine is not None:
        epoch_samples = epoch_samples or case.engine["data"].get("samples")
        case.cold = case.cold or bool(case.engine["data"].get("cold"))
    work = Work(case, budget, seen.together, seen.alone, seen.step_only, now, epoch_samples)
    remedies = propose(work, case, step, kept, options)
    case.larger_gain = next((gain_of(r) for r in remedies if r["id"] == "larger-batch"), None)
    kind = classify(case)
    cause, stage = cause_of(case)
    remedies = fitting(rank(remedies), cause)
    more = more_machines(step, now, case.batch, epoch_samples, options.wish, options.link) if options.wish or options.link else None
    remedies += [more] if more else []
    limit = 1e3 * case.batch / case.loader_rate if case.loader_rate else None
    values = {
        "schema": 1,
        "subject": found.settings()["loader"],
        "pipeline": None,
        "pipeline_written": False,
        "verdict": {
            "class": kind, "wait_share": case.share, "bottleneck": _bottleneck(kind, cause), "stage": stage, "cause": cause,
            "sentence": sentence(case, kind, cause, stage, remedies[0] if remedies else None, epoch_samples / now if epoch_samples and now else None),
            "limit_step_ms": limit,
        },
        "now": _now(steps, now, epoch_samples, options.epochs),
        "limits": {"cores": cores(), "step_samples_per_s": case.step_rate or None},
        "data": data,
        "step": _step(case, seen),
        "stages": _stages(found),
        "remedies": remedies,
        "alone": {"loader_samples_per_s": case.loader_rate or None, "step_samples_per_s": case.step_rate or None},
        "perfect": result(case.step_rate, now, epoch_samples) if case.share is not None else None,
        "equivalent": work.equivalent,
        "epochs": {"first_samples_per_s": case.slowed[0], "later_samples_per_s": case.slowed[1]} if case.slowed else None,
        "stacks": case.places,
        "timeline": (whole or steps).timeline() if steps is not None else [],
        "sweeps": work.sweeps(),
        "gpu": case.gpu,
        "machine": machine(),
        "settings": {**found.settings(), "seconds": budget.seconds, **notes},
    }
    return Answer(engine.merge(values, case.engine) if case.engine is not None else values)


def _compare_epochs(case, seen):
    """Where epochs after the first are slower, they are what the rest of the training is like."""
    parts = memory.slowed(seen.together)
    if parts:
        first, seen.together = parts
        case.slowed = (first.rate(), seen.together.rate())


def judge(case, seen, steps, kept, options, copies, devices):
    """Notes shares, rates and what is known of the machine and the data."""
    together, step_only = seen.together, seen.step_only
    case.batch = steps.batch() if steps is not None else size_of(kept)
    case.kinds, case.places = stacks.summary(seen.stacks)
    case.share = together.wait_share() if together is not None else None
    case.loader_rate = max(_loader_rate(together, seen.alone), together.rate() if together is not None else 0.0)  # by itself it is not slower than in the loop
    if case.share is not None and step_only is not None and case.kinds.get("python", 0) >= 0.5:
        # A loader in Python holds the interpreter while the step computes: what the step loses by that counts as waiting.
        alone_seconds = step_only.seconds_each() / max(1e-12, together.seconds_each())
        case.share = max(case.share, 1 - alone_seconds)
    case.step_rate = max(step_only.rate() if step_only is not None else 0.0, _step_rate(together))  # by itself it is not slower than in the loop
    if together is not None:
        case.split = tuple(together.mean(values) for values in (together.waits, together.transfers, together.computes))
    case.device = copies.device if copies is not None else None
    case.gpu = gpu.look(devices)
    if options.data is not None:
        case.files = equivalent.small_files(options.data)
        case.pixels = _quiet(lambda: equivalent.large_images(options.data, kept))


def _examine(case, budget, options):
    """Has the engine's doctor examine a dataset of penstock, with the step that was measured. Returns notes for the settings."""
    if case.loader.kind != "penstock":
        return {}
    step_ms = 1e3 * case.batch / case.step_rate if case.step_rate else None
    case.engine, why = engine.examine(case.loader.dataset, step_ms, budget.part(0.5), options, options.verify and budget.seconds >= PROOF)
    return {"engine": why} if why else {}


def propose(work, case, step, kept, options):
    """All remedies, in no order."""
    made = work.remedies(step, options.verify) + work.bytes_to_device(kept)
    if options.data is not None and case.loader.kind != "penstock":
        made += work.penstock(options.data, kept, step, options.verify)
    made += work.advice() + work.cached(kept)
    if case.engine is None:
        return made
    theirs = engine.scaled(case.engine, work.now, case.step_rate if case.share is not None else None, work.epoch_samples, options.epochs)
    for one in theirs:
        work.try_settings(one, step, options.verify)
    known = {one["id"] for one in theirs}
    return theirs + [one for one in made if one["id"] not in known]


def _quiet(ask):
    """Data that cannot be read is no reason to give no answer."""
    try:
        return ask()
    except (Error, OSError, ValueError):
        return None


def _bottleneck(kind, cause):
    if kind == "unknown":
        return "configuration" if cause in ("single-worker", "no-prefetch", "tiny-batch") else BOTTLENECKS.get(cause, "cpu")
    return BOTTLENECKS.get(cause, "cpu")


def _loader_rate(together, alone):
    if alone is not None:
        return alone.rate()
    waits = together.mean(together.waits) if together is not None else 0
    return together.mean(together.sizes) / waits if waits > 0 else 0.0


def _step_rate(together):
    seconds = together.mean(together.computes) + together.mean(together.transfers) if together is not None else 0
    return together.mean(together.sizes) / seconds if seconds > 0 else 0.0


def _now(steps, now, epoch_samples, epochs):
    low, high = steps.bounds() if steps is not None else (now, now)
    epoch = epoch_samples / now if epoch_samples and now else None
    return {"samples_per_s": now, "low": low, "high": high, "epoch_seconds": epoch, "total_seconds": epoch * epochs if epoch and epochs else None}


def _step(case, seen):
    if seen.together is None:
        return {"ms": None, "wait_ms": None, "transfer_ms": None, "compute_ms": None, "layers": []}
    wait, transfer, compute = (1e3 * part for part in case.split)
    return {"ms": wait + transfer + compute, "wait_ms": wait, "transfer_ms": transfer, "compute_ms": compute, "layers": []}


def _stages(found):
    if not hasattr(found, "stages"):
        return []
    stages = found.stages()
    total = sum(stage["seconds"] for stage in stages) or 1
    return [
        {"name": s["name"], "us_per_sample": 1e6 * s["seconds"] / s["calls"], "low": None, "high": None, "share": s["seconds"] / total, "cores": None}
        for s in stages
    ]
