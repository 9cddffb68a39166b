"""The Keras callback that splits each step into waiting and computing. Made when Keras is imported."""

import contextlib
import functools
import sys
import time

from .gpu import Watch
from .observe import Observation, size_of

UNSPLIT, EVERY = 3, 3  # steps before the first that is split; of the later ones, every third is


@functools.cache
def callback():
    """Returns the class of the callback."""
    import keras

    class Doctor(keras.callbacks.Callback):
        """Measures how long training waits for data during fit(), and says why afterwards.

            report: file for the page when training ends; None: none
            verbose: print the answer when training ends

        The steps, their order and their results do not change: on the TensorFlow backend every third batch is taken out of
        the iterator by itself, so that its waiting time is known, and then given to the same step.
        """

        def __init__(self, report=None, verbose=False):
            super().__init__()
            self.report, self.verbose = report, verbose
            self.seen = Observation()
            self._meter = self._watcher = self._loader = None
            self._devices = Watch()
            self._waits, self._computes, self._totals, self._sizes = [], [], [], []
            self._step = self._number = 0
            self._original = None
            self._ended = None

        # For the watcher of scripts.
        def record(self, meter, watcher):
            self._meter, self._watcher = meter, watcher
            self.seen = meter.seen

        def on_train_begin(self, logs=None):
            self._number = 0
            self._loader = passed_to_fit(self.model)
            self._devices.start()
            if keras.backend.backend() == "tensorflow" and getattr(self.model, "steps_per_execution", 1) == 1:
                self._original = self.model.train_function
                self.model.train_function = self._split

        def on_epoch_begin(self, epoch, logs=None):
            self._ended = None
            self.seen.epoch += 1

        def on_train_batch_begin(self, batch, logs=None):
            now = time.perf_counter()
            self._begun, self._waited = now, None if self._ended is None else now - self._ended

        def on_train_batch_end(self, batch, logs=None):
            self._ended = time.perf_counter()
            self._number += 1
            if self._original is None:  # other backends fetch the batch between the steps
                if self._waited is not None:
                    self.seen.add(self._waited, self._ended - self._begun, self._size())
            self._check()

        def _size(self):
            meter = self._meter
            if meter is not None and self._watcher is not None:
                kept = self._watcher.kept.get(id(meter))
                if kept is not None:
                    return size_of(kept)
            return (self.params or {}).get("batch_size") or 1

        def _check(self):
            if self._watcher is not None and getattr(self._watcher, "stop_now", False):
                from .watch import Enough

                raise Enough()

        def _split(self, iterator):
            """One step of the TensorFlow backend."""
            import tensorflow as tf

            if self._number < UNSPLIT or self._number % EVERY:
                begun = time.perf_counter()
                logs = self._original(iterator)
                if self._number >= UNSPLIT:
                    self._totals.append(time.perf_counter() - begun)
                    self._refresh()
                return logs
            asked = time.perf_counter()
            if self._watcher is not None:
                self._watcher.ignored.yes, self._watcher.waiting = True, True
            try:
                data = next(iterator)
            finally:
                if self._watcher is not None:
                    self._watcher.ignored.yes = self._watcher.waiting = False
            ready = time.perf_counter()
            again = iter(tf.data.Dataset.from_tensors(data))
            made = time.perf_counter()
            logs = self._original(again)
            done = time.perf_counter()
            if self._meter is not None:
                self._watcher.kept.setdefault(id(self._meter), data)
            self._waits.append(ready - asked)
            self._computes.append(done - made)
            self._sizes.append(size_of(data))
            return logs

        def _refresh(self):
            """The steps that were not split, with the share of waiting that the others have."""
            if len(self._waits) < 3:
                return
            waits, computes = self._waits[1:], self._computes[1:]  # the first traces the function once more
            share = sum(waits) / max(1e-12, sum(waits) + sum(computes))
            total = self._totals[-1]
            self.seen.add(share * total, (1 - share) * total, self._sizes[0])

        def finish(self):
            self._devices.stop()
            if self._original is not None:
                self.model.train_function = self._original
                self._original = None

        def on_train_end(self, logs=None):
            self.finish()
            if self.verbose or self.report:
                answer = self.answer()
                if self.verbose:
                    print(answer)
                if self.report:
                    answer.save(self.report)

        def answer(self, loader=None, data=None, **options):
            """Returns the answer for the steps so far. loader: what was passed to fit(), where the callback could not see it. It is measured
            alone, and remedies are tried with real steps; the model, its optimizer and its metrics have the same values afterwards."""
            from .main import answer_for, keras_step

            loader = loader if loader is not None else self._loader
            step = keras_step(self.model) if loader is not None and self.model is not None else None
            with unchanged(self.model):
                return answer_for(self.seen, loader, step, data, [], devices=self._devices, **options)

    return Doctor


def passed_to_fit(model):
    """The loader that fit() of the model got, from its frame; None: arrays, an iterator, or no frame of fit."""
    frame = sys._getframe(1)
    while frame is not None:
        given = frame.f_locals if frame.f_code.co_name == "fit" else {}
        if given.get("self") is model and "x" in given:
            x = given["x"]
            usable = hasattr(x, "__getitem__") or hasattr(x, "__iter__") and not hasattr(x, "__next__")
            return x if usable and not hasattr(x, "shape") and not isinstance(x, (list, tuple, dict)) else None
        frame = frame.f_back
    return None


@contextlib.contextmanager
def unchanged(model):
    """Restores the variables of a model, its optimizer and its metrics at the end."""
    variables = []
    for owner in (model, getattr(model, "optimizer", None)):
        variables += list(getattr(owner, "variables", ()))
    variables += list(getattr(model, "metrics_variables", ()))
    values = [variable.numpy().copy() for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, values):
            variable.assign(value)
