"""penstock.doctor(loader, step, data): measures a loader and a step, together and alone, and what other settings bring."""

import os
import shlex
import tempfile
import time

from .._core import Error
from . import equivalent, gpu, stacks
from .answer import Answer, machine, rank, remedy, result
from .diagnose import BOTTLENECKS, Case, cause_of, classify, sentence
from .loaders import adapt
from .machines import more_machines
from .observe import Observation, cores, run, run_step, size_of

DEFAULT_SECONDS = 12.0


class Budget:
    """The time that is left for measurements."""

    def __init__(self, seconds):
        self.seconds, self.end = seconds, time.perf_counter() + seconds

    def part(self, share, least=0.3):
        return max(least, share * self.seconds)

    def left(self):
        return self.end - time.perf_counter()


def doctor(loader, step=None, data=None, *, seconds=DEFAULT_SECONDS, epochs=None, samples=None, verify=True, wish=None, link=None):
    """Says why training is slow, and what each remedy would bring.

        loader: any iterable of batches: torch DataLoader, tf.data.Dataset, Keras PyDataset, Grain, a Dataset, a generator
        step: the training step, called with one batch; None: only the loader is measured
        data: the files that the loader reads; the equivalent penstock pipeline is then written and measured
        seconds: time for all measurements, about
        epochs, samples: the size of the real training, for its total time
        verify: measures remedies that can be tried at once; False: predicts only
        wish: samples per second that you wish for: the answer says how many machines they take
        link: bytes per second between machines, such as 1.25e9, for the exchange of gradients; None: 10 Gbit/s

    Example:

        answer = ps.doctor(loader, step=lambda batch: train_step(model, batch), data="photos/")
        print(answer); answer.save("report.html")
    """
    for name, value in (("wish", wish), ("link", link)):
        if value is not None and not 0 < value < float("inf"):
            raise ValueError(f"{name}={value}; expected a rate above 0")
    budget = Budget(seconds)
    found = adapt(loader)
    together, alone, step_only, kept, samples_seen = measure(found, step, budget)
    case = Case(loader=found)
    return build(case, budget, together, alone, step_only, kept, samples_seen, step, data, epochs, samples, verify, wish, link)


def measure(found, step, budget):
    """Returns observations of both together, of the loader alone and of the step alone, a batch, and stacks."""
    kept = []
    if found.once:  # one pass is all there is: the loader alone is known from the waits
        sampler = stacks.Sampler()
        with sampler:
            together = run(found.passes, step, budget.part(0.6), kept)
        _need(kept, together)
        step_only = run_step(step, kept[0], budget.part(0.15)) if step else None
        waiting = [s for s in sampler.samples if s.generator] or sampler.samples
        return together, None, step_only, kept[0], waiting
    together = run(found.passes, step, budget.part(0.3), kept) if step else None
    alone = run(found.passes, None, budget.part(0.15), kept)
    _need(kept, alone)
    step_only = run_step(step, kept[0], budget.part(0.1)) if step else None
    return together, alone, step_only, kept[0], look_at_stacks(found, budget.part(0.1))


def _need(kept, seen):
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
    return [sample for sample in sampler.samples if sample.kind != "lock"] or sampler.samples


def build(case, budget, together, alone, step_only, kept, samples_seen, step, data, epochs, samples, verify, wish=None, link=None):
    """Makes the answer from the observations."""
    found = case.loader
    seen = together if together is not None and len(together) else alone
    case.batch = seen.batch() if len(seen) else size_of(kept)
    case.kinds, case.places = stacks.summary(samples_seen)
    case.share = together.wait_share() if together is not None and len(together) else None
    case.loader_rate = _loader_rate(together, alone)
    if case.share is not None and step_only is not None and case.kinds.get("python", 0) >= 0.5:
        # A loader in Python holds the interpreter while the step computes: what the step loses by that counts as waiting.
        alone_seconds = step_only.mean(step_only.computes) / max(1e-12, together.mean(together.waits) + together.mean(together.computes))
        case.share = max(case.share, 1 - alone_seconds)
    case.step_rate = step_only.rate() if step_only is not None else _step_rate(together)
    case.gpu = gpu.look()
    if data is not None:
        case.files = equivalent.small_files(data)
        case.pixels = _quiet(lambda: equivalent.large_images(data, kept))
    now = (together if case.share is not None else alone).rate() if len(seen) else case.loader_rate
    epoch_samples = samples or found.samples() or (found.length() or 0) * case.batch or None
    work = Work(case, budget, together, alone, step_only, now, epoch_samples)
    remedies = work.remedies(step, verify)
    if data is not None:
        remedies += work.penstock(data, kept, step, verify)
    remedies += work.advice()
    case.larger_gain = next((_gain(r) for r in remedies if r["id"] == "larger-batch"), None)
    kind = classify(case)
    cause, stage = cause_of(case)
    remedies = fitting(rank(remedies), cause)
    more = more_machines(step, now, case.batch, epoch_samples, wish, link) if wish or link else None
    remedies += [more] if more else []
    values = {
        "schema": 1,
        "subject": found.settings()["loader"],
        "verdict": {
            "class": kind, "wait_share": case.share, "bottleneck": _bottleneck(kind, cause), "stage": stage, "cause": cause,
            "sentence": sentence(case, kind, cause, stage, remedies[0] if remedies else None, epoch_samples / now if epoch_samples and now else None),
        },
        "now": _now(seen, now, epoch_samples, epochs),
        "limits": {"cores": cores(), "step_samples_per_s": case.step_rate or None},
        "step": _step(together, case),
        "stages": _stages(found),
        "remedies": remedies,
        "alone": {"loader_samples_per_s": case.loader_rate or None, "step_samples_per_s": case.step_rate or None},
        "perfect": result(case.step_rate, now, epoch_samples) if case.share is not None else None,
        "stacks": case.places,
        "timeline": seen.timeline(),
        "sweeps": work.sweeps(),
        "gpu": case.gpu,
        "machine": machine(),
        "settings": {**found.settings(), "seconds": budget.seconds},
    }
    return Answer(values)


def _quiet(ask):
    """Data that cannot be read is no reason to give no answer."""
    try:
        return ask()
    except (Error, OSError, ValueError):
        return None


def _gain(one):
    known = one["measured"] or one["predicted"]
    return known["gain"] if known else None


def _bottleneck(kind, cause):
    if kind == "unknown":
        return "configuration" if cause in ("single-worker", "no-prefetch", "tiny-batch") else BOTTLENECKS.get(cause, "cpu")
    return BOTTLENECKS.get(cause, "cpu")


def _loader_rate(together, alone):
    if alone is not None and len(alone):
        return alone.rate()
    waits = together.mean(together.waits) if together is not None else 0
    return together.mean(together.sizes) / waits if waits > 0 else 0.0


def _step_rate(together):
    computes = together.mean(together.computes) if together is not None and len(together) else 0
    return together.mean(together.sizes) / computes if computes > 0 else 0.0


def _now(seen, now, epoch_samples, epochs):
    low, high = seen.bounds()
    epoch = epoch_samples / now if epoch_samples and now else None
    return {"samples_per_s": now, "low": low, "high": high, "epoch_seconds": epoch, "total_seconds": epoch * epochs if epoch and epochs else None}


def _step(together, case):
    if together is None or not len(together):
        return {"ms": None, "wait_ms": None, "transfer_ms": None, "compute_ms": None, "layers": []}
    wait, compute = 1e3 * together.mean(together.waits), 1e3 * together.mean(together.computes)
    return {"ms": wait + compute, "wait_ms": wait, "transfer_ms": None, "compute_ms": compute, "layers": []}


def _stages(found):
    if not hasattr(found, "stages"):
        return []
    stages = found.stages()
    total = sum(stage["seconds"] for stage in stages) or 1
    return [
        {"name": s["name"], "us_per_sample": 1e6 * s["seconds"] / s["calls"], "low": None, "high": None, "share": s["seconds"] / total, "cores": None}
        for s in stages
    ]


# The remedies that fit a cause, best first; others follow by their gain.
FITTING = {
    "python-function": ("native-op", "processes", "more-workers"),
    "heavy-augmentation": ("native-op", "offline-augment", "processes", "more-workers"),
    "large-images": ("resize-offline", "native-op", "more-workers"),
    "single-worker": ("more-workers", "native-op", "processes"),
    "worker-limit": ("native-op", "more-workers"),
    "many-small-files": ("pack", "native-op", "more-workers"),
    "slow-storage": ("faster-storage", "cache-ram", "pack"),
    "tiny-batch": ("larger-batch",),
    "gpu-unused": ("faster-step",),
    "consumer": ("mixed-precision", "faster-step", "smaller-model"),
}


def fitting(remedies, cause):
    """Sorts remedies that fit the cause and bring something to the front; the order by gain stays otherwise."""
    wanted = FITTING.get(cause, ())

    def key(one):
        gain = _gain(one)
        useful = gain is None or gain > 1.05
        return 0 if one["id"] in wanted and useful else 1 if useful and gain is not None else 2

    return sorted(remedies, key=key)


class Work:
    """Predicts and measures remedies."""

    def __init__(self, case, budget, together, alone, step_only, now, epoch_samples):
        self.case, self.budget, self.together, self.alone, self.step_only = case, budget, together, alone, step_only
        self.now, self.epoch_samples = now, epoch_samples

    def predict(self, variant, left=1.0):
        """The rate with a variant, of whose work a part is left: the slower of loader and step if they overlap, else their sum; never more than
        the cores give."""
        case = self.case
        loader = left / case.loader_rate if case.loader_rate else 0.0  # seconds per sample
        step = 1 / case.step_rate if case.step_rate and case.share is not None else 0.0
        own = max(1, case.loader.workers or 1)
        workers = max(own, min(variant.workers or own, cores()))
        work = loader * own  # of one core, if the loader was busy
        faster = work / workers
        cpu = self._step_cpu()
        overlaps = variant.overlaps if variant.overlaps is not None else case.loader.overlaps
        if not overlaps:
            return 1 / (faster + step) if faster + step else 0.0
        return 1 / max(faster, step, (work + cpu) / cores(), 1e-12)

    def _step_cpu(self):
        """CPU seconds of the step per sample."""
        one = self.step_only
        return min(one.cpu / max(1, sum(one.sizes)), cores() * one.seconds() / max(1, one.samples())) if one is not None and len(one) else 0.0

    def remedies(self, step, verify):
        made = []
        found = self.case.loader
        variants = [] if found.once else found.variants()
        for variant in variants:
            rate = self.predict(variant) if variant.batch is None else None
            measured = self.try_out(variant, step, len(variants)) if verify else None
            if rate is None and measured is None:
                continue
            made.append(
                remedy(variant.id, variant.title, variant.command, None, result(rate, self.now, self.epoch_samples),
                       result(measured, self.now, self.epoch_samples), effort=variant.effort)
            )
        return made

    def try_out(self, variant, step, count):
        """Measures a variant with the step, as long as the budget allows."""
        if self.budget.left() < -2 * self.budget.seconds:
            return None
        try:
            made = variant.make()
        except Exception:  # a set-up that does not work here has no measurement
            return None
        return self.beside(made.passes, step if self.case.share is not None else None, self.budget.part(0.35 / max(1, count)), step)

    def beside(self, passes, step, seconds, own_step):
        """Runs the loader as it is and a variant in turn, so that noise hits both. Returns the present rate times the ratio."""
        found, rounds = self.case.loader, 2
        both = [Observation(), Observation()]
        try:
            for _ in range(rounds):
                for which, (go, do) in enumerate(((found.passes, own_step if self.case.share is not None else None), (passes, step))):
                    seen = run(go, do, seconds / (2 * rounds))
                    for i in seen.steady():
                        both[which].add(seen.waits[i], seen.computes[i], seen.sizes[i])
        except Exception:  # a step that wants other batches: the prediction stands alone
            return None
        before, after = both[0].rate(), both[1].rate()
        return self.now * after / before if before and after and len(both[1]) >= 2 else None

    def penstock(self, data, kept, step, verify):
        """The same batches by a penstock pipeline."""
        from .._dataset import pipeline

        text = equivalent.text(data, kept, self.case.batch)
        if text is None:
            return []
        try:
            with pipeline(text) as dataset:
                alone = run(lambda: iter(dataset), None, self.budget.part(0.08))
                rate = alone.rate()
                step_rate = self.case.step_rate if self.case.share is not None else 0
                predicted = 1 / max(1 / rate, 1 / step_rate if step_rate else 0, (alone.cpu / max(1, sum(alone.sizes)) + self._step_cpu()) / cores())
                measured = rate if self.case.share is None else None
                if verify and self.case.share is not None:
                    measured = self._with_step(dataset, step, kept)
        except Exception as error:
            return [remedy("native-op", "Load with penstock", "", text, reason=f"could not be measured: {error}", effort="medium")]
        code = f"penstock.pipeline({text!r})"
        made = [
            remedy("native-op", "Load with a penstock pipeline", code, text, result(predicted, self.now, self.epoch_samples),
                   result(measured, self.now, self.epoch_samples), effort="medium")
        ]
        files = self.case.files
        if files and files[1] < 256 * 1024 and files[0] >= 500:
            made.append(remedy("pack", "Pack the files into shards", f"penstock pack {data} shards/ --shards 16",
                               price={"disk_bytes": int(files[0] * files[1]), "ram_bytes": 0, "seconds": files[0] / 5000}))
        return made + self.resized(data, kept, step, verify)

    def resized(self, data, kept, step, verify):
        """Images that are stored smaller: a sample of them is packed and measured."""
        from .._dataset import pipeline

        pixels, files = self.case.pixels, self.case.files
        if not pixels or pixels[0] < 4 * pixels[1] or not files:
            return []
        side = max(32, 32 * round(1.15 * pixels[1] ** 0.5 / 32))
        measured, price = None, None
        if verify:
            try:
                with tempfile.TemporaryDirectory() as folder:
                    size, seconds, _ = equivalent.resized(data, side, folder)
                    price = {"disk_bytes": int(size * files[0]), "ram_bytes": 0, "seconds": seconds * files[0]}
                    with pipeline(equivalent.text(os.path.join(folder, "shards"), kept, self.case.batch)) as dataset:
                        if self.case.share is None:
                            measured = self.beside(lambda: iter(dataset), None, self.budget.part(0.1), None)
                        else:
                            measured = self._with_step(dataset, step, kept)
            except (OSError, ValueError, Error):
                pass
        return [
            remedy("resize-offline", f"Store the images at {side} pixels", f"penstock pack {shlex.quote(os.fspath(data))} shards/ --resize {side}",
                   equivalent.text(data, kept, self.case.batch).replace(equivalent.source(data), "tfrecord shards/ | shuffle | example"), None,
                   result(measured, self.now, self.epoch_samples), price)
        ]

    def _with_step(self, dataset, step, kept):
        def convert_and_step(batch):
            return step(equivalent.convert(batch, kept))

        return self.beside(lambda: iter(dataset), convert_and_step, self.budget.part(0.15), step)

    def advice(self):
        """Remedies that cannot be tried out here."""
        case, kinds = self.case, self.case.kinds
        made = []
        kind = classify(case)
        if case.gpu.get("unused"):
            made.append(remedy("faster-step", "Use the GPU", reason="the framework does not use it: install its GPU build, or move model and batches to the device"))
        if kind == "consumer-bound":
            made.append(remedy("mixed-precision", "Compute in 16 bits where the hardware is faster at it", "torch.autocast, keras.mixed_precision.set_global_policy('mixed_float16')", effort="low"))
            made.append(remedy("faster-step", "Compile the step", "torch.compile(model), model.compile(jit_compile=True)", effort="medium"))
            made.append(remedy("smaller-model", "Use a smaller model, or separable convolutions", effort="high"))
        elif kinds.get("python", 0) >= 0.5 and case.loader.kind not in ("torch", "penstock"):
            rate = self._processes()
            made.append(remedy("processes", f"Run the Python function in {cores()} processes", 'penstock: dataset.map(function, workers="process")', None,
                               result(rate, self.now, self.epoch_samples), effort="medium"))
        if kinds.get("augment", 0) >= 0.4 and kind != "consumer-bound":
            rate = self.predict(case.loader, max(0.02, 1 - kinds["augment"]))
            made.append(remedy("offline-augment", "Store augmented copies", "penstock pack DATA shards/ --augment 4", None,
                               result(rate, self.now, self.epoch_samples), effort="medium"))
        devices = case.gpu.get("count", 0)
        if devices and case.loader.kind != "iterator" and case.loader.ready < devices:
            made.append(remedy("prefetch", f"Keep at least {devices} batches ready, one per device", reason=f"{case.loader.ready} are kept ready"))
        if devices and case.loader.kind == "torch" and not case.loader.loader.pin_memory:
            made.append(remedy("pin-memory", "Copy to the device from pinned memory", "DataLoader(…, pin_memory=True)"))
        return made

    def _processes(self):
        class Processes:
            workers, overlaps, batch = cores(), True, None

        return self.predict(Processes)

    def sweeps(self):
        """The loader's rate alone for other settings, as long as the budget lasts."""
        found = self.case.loader
        if not hasattr(found, "sweeps"):
            return []
        made = []
        for name, values in found.sweeps():
            points = []
            for value, make in values:
                if self.budget.left() < -self.budget.seconds:
                    break
                try:
                    seen = run(make().passes, None, min(0.6, max(0.2, self.budget.left() / 8)), least=2)
                except Exception:
                    continue
                if len(seen):
                    points.append({"value": value, "samples_per_s": seen.rate()})
            if len(points) > 1:
                made.append({"by": name, "points": points})
        return made
