"""Watches loaders and steps of a running script: hooks that are set when PyTorch, TensorFlow, Keras or penstock is imported."""

import functools
import importlib.abc
import importlib.util
import json
import os
import sys
import threading
import time

from . import gpu, stacks
from .observe import Observation, size_of
from .transfer import Copies

ENOUGH_STEPS, ENOUGH_SECONDS = 60, 8.0


class Enough(BaseException):
    """Ends the script: raised in its main thread, so that its finally blocks run."""


class Meter:
    """Steps of one loader: a step is the wait for a batch and the time until the next one is asked for. copies: what copies to a device
    take of both."""

    def __init__(self, loader=None, kind="", copies=None):
        self.loader, self.kind, self.model, self.copies = loader, kind, None, copies
        self.seen = Observation()
        self._last, self._first = None, True

    def copied(self):
        return self.copies.seconds if self.copies is not None else 0.0

    def got(self, asked, ready, size, copied=0.0):
        """A batch was asked for at `asked`, when copies had taken `copied` seconds, and was there at `ready`."""
        self._close(asked, copied)
        self._last = (ready - asked, ready, size, self._first, copied, self.copied())
        self._first = False

    def _close(self, asked, copied):
        if self._last is not None:
            wait, ready, size, first, before, between = self._last
            loading, moving = between - before, max(0.0, copied - between)
            self.seen.add(wait - loading, asked - ready - moving, size, first, loading + moving)
        self._last = None

    def end(self):
        self._close(time.perf_counter(), self.copied())
        self._first = True


class Watcher:
    """All loaders of this process. `waiting` is true while the main thread waits for a batch."""

    def __init__(self):
        self.meters, self.waiting, self.ignored = [], False, threading.local()
        self.main = threading.main_thread().ident
        self.kept = {}  # a batch of each meter
        self.pids = set()
        self.copies, self.devices = Copies(self.main), gpu.Watch()
        self.changes = json.loads(os.environ.get("PENSTOCK_DOCTOR_TRY", "{}"))

    def meter(self, loader, kind):
        for one in self.meters:
            if one.loader is loader:
                return one
        self.meters.append(Meter(loader, kind, self.copies))
        return self.meters[-1]

    def timed(self, meter, take):
        """Calls take() for the next batch."""
        if getattr(self.ignored, "yes", False):
            return take()
        mine = threading.get_ident() == self.main
        asked, copied = time.perf_counter(), meter.copied()
        self.waiting = self.waiting or mine
        self.ignored.yes = True  # a loader inside a loader is part of its time
        try:
            batch = take()
        except StopIteration:
            meter.end()
            raise
        finally:
            self.ignored.yes = False
            if mine:
                self.waiting = False
        meter.got(asked, time.perf_counter(), size_of(batch), copied)
        self.kept.setdefault(id(meter), batch)
        return batch

    def best(self):
        """The loader with the most steps; the one of Keras fit if there is one."""
        found = sorted(self.meters, key=lambda m: (m.kind == "keras", len(m.seen)))
        return found[-1] if found and len(found[-1].seen) else None

    def enough(self):
        meter = self.best()
        return meter is not None and len(meter.seen) >= ENOUGH_STEPS and meter.seen.seconds() >= ENOUGH_SECONDS

    # ---- Hooks ----

    def hook(self):
        hooks = {
            "torch.utils.data.dataloader": self._torch,
            "tensorflow.python.data.ops.iterator_ops": self._tf,
            "keras.src.models.model": self._keras,
            "penstock._dataset": self._penstock,
            "jax": lambda module: self.copies.start(),
        }
        for name, function in hooks.items():
            if name in sys.modules:
                function(sys.modules[name])
        sys.meta_path.insert(0, Finder({name: f for name, f in hooks.items() if name not in sys.modules}))

    def _torch(self, module):
        self.copies.start()
        watcher, original, begin = self, module._BaseDataLoaderIter.__next__, module.DataLoader.__iter__
        init = module.DataLoader.__init__

        def __init__(loader, *args, **given):
            init(loader, *args, **{**given, **watcher.changes})

        def __iter__(loader):
            made = begin(loader)
            made._penstock_loader = loader
            return made

        def __next__(iterator):
            meter = watcher.meter(getattr(iterator, "_penstock_loader", iterator), "torch")
            watcher.pids.update(worker.pid for worker in getattr(iterator, "_workers", ()))
            return watcher.timed(meter, lambda: original(iterator))

        if watcher.changes:
            module.DataLoader.__init__ = functools.wraps(init)(__init__)
        module.DataLoader.__iter__ = __iter__
        module._BaseDataLoaderIter.__next__ = __next__

    def _tf(self, module):
        watcher, original, init = self, module.OwnedIterator.__next__, module.OwnedIterator.__init__

        def __init__(iterator, dataset=None, *args, **given):
            init(iterator, dataset, *args, **given)
            iterator._penstock_dataset = dataset

        def __next__(iterator):
            dataset = getattr(iterator, "_penstock_dataset", None)
            return watcher.timed(watcher.meter(dataset if dataset is not None else iterator, "tf.data"), lambda: original(iterator))

        module.OwnedIterator.__init__ = __init__
        module.OwnedIterator.__next__ = __next__

    def _keras(self, module):
        watcher, original = self, module.Model.fit

        @functools.wraps(original)
        def fit(model, x=None, *args, **given):
            from .keras_callback import callback

            made = callback()()
            meter = watcher.meter(x, "keras")
            meter.model = model
            made.record(meter, watcher)
            callbacks = given.pop("callbacks", None)
            if callbacks is not None and not isinstance(callbacks, (list, tuple)):
                callbacks = [callbacks]
            try:
                return original(model, x, *args, callbacks=[*(callbacks or ()), made], **given)
            finally:
                made.finish()

        module.Model.fit = fit

    def _penstock(self, module):
        watcher, original = self, module.Dataset.__iter__

        def __iter__(dataset):
            meter = watcher.meter(dataset, "penstock")
            batches = original(dataset)
            try:
                while True:
                    yield watcher.timed(meter, lambda: next(batches))
            except StopIteration:
                return

        module.Dataset.__iter__ = __iter__


class Finder(importlib.abc.MetaPathFinder):
    """Calls a function after a module was loaded."""

    def __init__(self, hooks):
        self.hooks, self.busy = hooks, set()

    def find_spec(self, name, path=None, target=None):
        if name not in self.hooks or name in self.busy:
            return None
        self.busy.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy.discard(name)
        if spec is None or spec.loader is None:
            return None
        run, hook = spec.loader.exec_module, self.hooks[name]

        def exec_module(module):
            run(module)
            try:
                hook(module)
            except AttributeError:  # another version of the framework: it is not watched
                pass

        spec.loader.exec_module = exec_module
        return spec


class Sampler(stacks.Sampler):
    """Stacks of the main thread, marked with whether it was waiting for a batch."""

    def __init__(self, watcher):
        super().__init__(watcher.main)
        self.watcher, self.waits, self.loops = watcher, [], []

    def _look(self):
        while not self._stop.wait(stacks.EVERY):
            waiting = self.watcher.waiting
            frame = sys._current_frames().get(self.thread)
            if frame is None or len(self.samples) >= self.most:
                continue
            sample = stacks._sample(frame)
            del frame
            if sample is None:
                continue
            self.samples.append(sample)
            if waiting:
                self.waits.append(sample)


def plain_share(samples):
    """For a loop without a known loader: returns the share of the samples that prepare data, and those samples. Work inside a
    generator of the user, and decoding, reading and augmenting, is preparation; work of a framework is the step."""
    data = [s for s in samples if s.generator or s.kind in ("decode", "read", "augment", "serialize")]
    step = [s for s in samples if not s.generator and (s.kind == "step" or s.packages & stacks.STEP)]
    data = [s for s in data if s not in step]
    total = len(data) + len(step)
    return (len(data) / total if total >= 20 else None), data
