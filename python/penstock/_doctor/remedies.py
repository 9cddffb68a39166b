"""Remedies: what other settings, other data and other pipelines bring; predicted, and measured where they can be tried at once."""

import os
import shlex
import tempfile

from .._core import Error
from . import equivalent, memory, transfer
from .answer import best_known, remedy, result
from .diagnose import MANY_FILES, SMALL_FILE, classify
from .loaders import OnDevice, Penstock, Variant
from .observe import Observation, cores, run


ENOUGH = 0.95  # of the fastest rate: the smallest value of a setting that reaches it is recommended


def gain_of(one):
    """The measured gain of a remedy, or the predicted one; None: neither is known."""
    known = best_known(one)
    return known["gain"] if known else None


# The remedies that fit a cause, best first; others follow by their gain.
FITTING = {
    "transfer": ("device-prefetch", "bytes-to-device", "pin-memory"),
    "serialization": ("native-op", "larger-batch"),
    "lock-contention": ("processes", "native-op", "more-workers"),
    "page-cache": ("faster-storage", "resize-offline", "pack", "cache-ram"),
    "no-prefetch": ("prefetch", "more-workers"),
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
        gain = gain_of(one)
        useful = gain is None or gain > 1.05
        if one.get("available") is False:
            return 3
        return 0 if (one["id"] in wanted or one.get("cause") == cause) and useful else 1 if useful and gain is not None else 2

    return sorted(remedies, key=key)


class Work:
    """Predicts and measures remedies."""

    def __init__(self, case, budget, together, alone, step_only, now, epoch_samples):
        self.case, self.budget, self.together, self.alone, self.step_only = case, budget, together, alone, step_only
        self.now, self.epoch_samples = now, epoch_samples
        self.equivalent = None  # the equivalent pipeline, or why there is none

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
        if self.share_of_copies() > transfer.LEAST and not found.once:
            variants = [*self.copying(), *variants]
        for variant in variants:
            rate = variant.rate if variant.rate is not None else self.predict(variant) if variant.batch is None else None
            measured = self.try_out(variant, step, len(variants)) if verify else None
            if rate is None and measured is None:
                continue
            made.append(
                remedy(variant.id, variant.title, variant.command, None, result(rate, self.now, self.epoch_samples, bool(variant.bound)),
                       result(measured, self.now, self.epoch_samples), effort=variant.effort, reason=variant.bound)
            )
        return made

    def try_settings(self, one, step, verify):
        """Measures a remedy of the engine's doctor that only sets options of the dataset."""
        settings = one.pop("settings")
        if settings and verify and one["available"]:
            dataset = self.case.loader.dataset.with_options(**settings)
            variant = Variant(one["id"], one["title"], one["command"], lambda: Penstock(dataset))
            rate = self.try_out(variant, step, 2)
            one["measured"] = result(rate, self.now, self.epoch_samples) or one["measured"]
            dataset.close()

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

        text, why = equivalent.written(data, kept, self.case.batch)
        self.equivalent = {"pipeline": text, "reason": why or None}
        if text is None:
            return self.packed(data)
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
        return made + self.packed(data) + self.resized(data, kept, step, verify)

    def packed(self, data):
        """Many small files: as shards."""
        files = self.case.files
        if not files or files[1] >= SMALL_FILE or files[0] < MANY_FILES:
            return []
        return [remedy("pack", "Pack the files into shards", f"penstock pack {shlex.quote(os.fspath(data))} shards/ --shards 16",
                       price={"disk_bytes": int(files[0] * files[1]), "ram_bytes": 0, "seconds": files[0] / 5000})]

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
            how = f"PyDataset(workers={cores()}, use_multiprocessing=True)" if case.loader.kind == "keras" else 'penstock: dataset.map(function, workers="process")'
            made.append(remedy("processes", f"Run the Python function in {cores()} processes", how, None,
                               result(rate, self.now, self.epoch_samples), effort="medium"))
        slow = max(("python", "convert"), key=lambda name: kinds.get(name, 0))
        if kinds.get(slow, 0) >= 0.5 and kind != "consumer-bound" and case.loader.kind != "penstock":
            place = next((one["where"] for one in case.places if one["kind"] == slow), "the function")
            function, _, called = place.partition(" calls ")
            if not called.endswith("sleep"):
                made.append(self.without(slow, "native-op", f"Vectorise {function}, or replace it by native code", effort="high"))
        if kinds.get("augment", 0) >= 0.4 and kind != "consumer-bound":
            rate = self.predict(case.loader, max(0.02, 1 - kinds["augment"]))
            made.append(remedy("offline-augment", "Compute the augmentation a few times per sample, once, and store the results", "", None,
                               result(rate, self.now, self.epoch_samples), effort="medium"))
        work = max(0.2, 1 - kinds.get("lock", 0))  # what is not waiting for others
        if kinds.get("serialize", 0) >= 0.4 * work:
            made.append(self.without("serialize", "native-op", "Prepare batches in threads that share memory (a penstock pipeline), or pass arrays in shared memory",
                                     "multiprocessing.shared_memory, or penstock: dataset.map(function)"))
        if kinds.get("read", 0) >= 0.4 * work and kind != "consumer-bound":
            made.append(self.without("read", "faster-storage", "Storage that delivers as fast as the samples are prepared", effort="high"))
        if kinds.get("contend", 0) >= 0.4 * work and case.loader.kind not in ("torch", "penstock"):
            made.append(remedy("processes", f"Prepare batches in {cores()} processes, or without the lock", "multiprocessing.Pool(…)", None,
                               result(self._processes(), self.now, self.epoch_samples), effort="medium"))
        if case.slowed and case.cold:
            made.append(remedy("faster-storage", "Storage that later epochs read as fast as the first one read from memory", "", None,
                               result(case.slowed[0], self.now, self.epoch_samples, True), effort="high", reason="the rate of the first epoch: an upper bound"))
        devices = case.gpu.get("count", 0)
        if devices and case.loader.kind != "iterator" and case.loader.ready < devices:
            made.append(remedy("prefetch", f"Keep at least {devices} batches ready, one per device", reason=f"{case.loader.ready} are kept ready"))
        copying = self.share_of_copies() > transfer.LEAST
        if devices and not copying and case.loader.kind == "torch" and not case.loader.loader.pin_memory:
            made.append(remedy("pin-memory", "Copy to the device from pinned memory", "DataLoader(…, pin_memory=True)"))
        return made

    def without(self, kind, id, title, command="", effort="medium"):
        """A remedy that does away with one kind of work of the loader: an upper bound."""
        rate = self.predict(self.case.loader, max(0.02, 1 - self.case.kinds[kind]))
        return remedy(id, title, command, None, result(rate, self.now, self.epoch_samples, True), effort=effort, reason="the loader without this work: an upper bound")

    def _processes(self):
        class Processes:
            workers, overlaps, batch = cores(), True, None

        return self.predict(Processes)

    def cached(self, kept):
        """The samples of tf.data in memory, as batches have them: its pipeline cannot be changed in the middle, so this is a bound."""
        case = self.case
        if case.loader.kind != "tf.data" or not self.epoch_samples or classify(case) in ("unknown", "consumer-bound"):
            return []
        ram = sum(map(transfer.bytes_of, equivalent.arrays(kept))) / max(1, case.batch) * self.epoch_samples
        if not 0 < ram < 0.5 * (memory.free() or 0):
            return []
        early = any(name.startswith("Cache") for name, _ in case.loader.chain)
        title = "Keep the samples in memory: cache() after the last operation that is the same in each epoch"
        return [remedy("cache-ram", title + (", not before the map that is slow" if early else ""), "dataset.map(…).cache().shuffle(…).batch(…)", None,
                       result(case.step_rate, self.now, self.epoch_samples, True), price={"disk_bytes": 0, "ram_bytes": int(ram), "seconds": 0},
                       reason="the step alone: an upper bound")]

    # Copies to a device

    def share_of_copies(self):
        total = sum(self.case.split)
        return self.case.split[1] / total if total > 0 and self.case.share is not None else 0.0

    def copying(self):
        """Settings of the loader that make copies to a device faster, or let them run beside the step."""
        found, (wait, copy, compute), batch, device = self.case.loader, self.case.split, self.case.batch, self.case.device
        load = batch / self.case.loader_rate if self.case.loader_rate else wait
        beside = max(load, copy) if found.overlaps else load + copy
        made = [
            Variant("device-prefetch", "Copy the next batch to the device while the step runs", "a thread, or a CUDA stream, that moves the next batch: "
                    "batch.to(device, non_blocking=True)", lambda: OnDevice(found, device), rate=batch / max(beside, compute))
        ]
        if found.kind == "torch" and not found.loader.pin_memory:
            made.append(Variant("pin-memory", "Copy to the device from pinned memory", "DataLoader(…, pin_memory=True), batch.to(device, non_blocking=True)",
                                lambda: found.rebuild(pin_memory=True), rate=batch / max(1e-12, wait + compute),
                                bound="the loop without the time of the copies: an upper bound"))
        return made

    def bytes_to_device(self, kept):
        """Floats that were bytes: copied as bytes, and converted on the device."""
        if self.share_of_copies() <= transfer.LEAST:
            return []
        arrays = equivalent.arrays(kept)
        try:
            floats = sum(transfer.bytes_of(array) for array in arrays if transfer.was_bytes(array))
        except (AttributeError, TypeError, RuntimeError):  # arrays that do not say what they hold
            return []
        total = sum(map(transfer.bytes_of, arrays))
        if not floats or not total:
            return []
        wait, copy, compute = self.case.split
        rate = self.case.batch / (wait + copy * (1 - 0.75 * floats / total) + compute)
        return [remedy("bytes-to-device", "Copy the images as bytes, and convert them to float32 on the device", "batch.to(device).float().div_(255)", None,
                       result(rate, self.now, self.epoch_samples), reason="a quarter of the bytes in a quarter of the time")]

    def sweeps(self):
        """The loader's rate alone for other settings, as long as the budget lasts."""
        made = []
        for name, values in self.case.loader.sweeps() if not self.case.loader.once else ():
            points = [point for value, make in values if (point := self.point(value, make)) is not None]
            if len(points) > 1:
                best = max(point["samples_per_s"] for point in points)
                chosen = next(point for point in points if point["samples_per_s"] >= ENOUGH * best)
                least = "" if chosen["samples_per_s"] == best else ", and needs the least"
                made.append({"by": name, "points": points, "recommended": chosen["value"],
                             "reason": f"{chosen['samples_per_s']:.3g} samples/s: within {100 - 100 * ENOUGH:.0f} % of the fastest{least}"})
        return made

    def point(self, value, make):
        if self.budget.left() < -self.budget.seconds:
            return None
        try:
            found = make()
            kept = []
            seen = run(found.passes, None, min(0.6, max(0.2, self.budget.left() / 8)), kept, least=2)
        except Exception:  # a setting that does not work here
            return None
        found.settings()  # those of a dataset are known when it has run
        found.close()
        if not len(seen):
            return None
        rate = seen.rate()
        return {"value": value, "samples_per_s": rate, "ram_bytes": (found.ready + 1) * sum(map(transfer.bytes_of, equivalent.arrays(kept[0]))) or None,
                "epoch_seconds": self.epoch_samples / rate if self.epoch_samples and rate else None}
