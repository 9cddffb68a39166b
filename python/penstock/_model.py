"""Model: a model as text, trained by the engine: fit, evaluate, predict, or one step at a time in one's own loop.

The engine plans a step for a largest batch and a loss. Both are known when the first samples arrive; a larger batch later makes a new
plan, which takes over the weights and the optimiser's state.
"""

import array
import os
import tempfile
from collections.abc import Mapping

from . import _core
from ._layers import Layers

BATCH = 64  # samples of a plan that is made without samples
WHOLE = ("uint8", "int32", "int64")


def _numpy():
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def _result(tensor):
    """NumPy's array where NumPy is installed, otherwise the tensor; the same memory."""
    return tensor if _numpy() is None else tensor.numpy()


def _take(values, kind=None):
    """An object with a buffer in C order. `kind` "f": of float32."""
    numpy = _numpy()
    if numpy is not None and not (kind is None and isinstance(values, _core.Tensor)):
        made = numpy.asarray(values, dtype=numpy.float32 if kind == "f" else None, order="C")
        if made.dtype == bool or (made.dtype.kind in "iu" and made.dtype.name not in WHOLE):
            made = made.astype(numpy.int64)
        return made
    if isinstance(values, (list, tuple)):
        whole = kind is None and all(isinstance(value, int) for value in values)
        return array.array("q" if whole else "f", values)
    return values


def _shape(values):
    view = memoryview(values)
    return view.shape, view.format


class Weights(Mapping):
    """Parameters by name. Reading makes a copy; weights["dense_1/bias"] = array changes the model."""

    def __init__(self, model):
        self._model = model

    def __getitem__(self, name):
        return _result(self._model._made().values(self._model._number(name)))

    def __setitem__(self, name, values):
        number = self._model._number(name)
        self._model._made().set_values(number, _take(values, "f"))

    def __iter__(self):
        return iter(self._model._numbers)

    def __len__(self):
        return len(self._model._numbers)

    def update(self, values):
        """Sets several parameters by name."""
        for name, value in values.items():
            self[name] = value

    def __repr__(self):
        return f"penstock.Weights({', '.join(self)})"


class Model:
    """A model as text, with its weights and optimiser.

        text: layers ("conv 32 3 relu | maxpool 2 | flatten | dense 10"), "@FILE", a preset ("resnet20", "resnet20:100"), or Layers
        input: the shape of one sample: (height, width, channels) or (length,)
        loss: "sparse", "categorical", "binary", "mse"; "auto": chosen by the first targets and the last layer
        optimizer: "adam", "adamw", "sgd", "nesterov", "lion" (whose beta2 is 0.99 unless it is given)
        schedule: "constant", "step", "cosine", "one_cycle", "plateau"
        weight_decay: decoupled, of kernels only; None: 0.004 for "adamw", otherwise 0
        freeze: names of layers that are not trained; * and ? stand for parts of names
        accumulate: batches per update: their gradients are averaged
        temperature, alpha: of a teacher (fit, train_step): the loss is alpha times that by the labels plus (1 - alpha) times T² · KL(teacher ‖ model)
        mixed: "float16" or "bfloat16" stores values and gradients between layers in 16 bits
        recompute: keeps few values for the backward pass and computes the others again: less memory, the same result

    Example:

        model = ps.Model("conv 32 3 relu | maxpool 2 | flatten | dense 10", input=(32, 32, 3), seed=1)
        model.fit(ps.tfrecord("shards/").shuffle().example().decode().resize(32).batch(64), epochs=5, callbacks=[print])
    """

    def __init__(
        self,
        text,
        input,
        *,
        seed=0,
        threads=0,
        loss="auto",
        optimizer="adam",
        learning_rate=1e-3,
        schedule="constant",
        label_smoothing=0.0,
        momentum=0.0,
        beta1=0.9,
        beta2=0.999,
        epsilon=1e-7,
        weight_decay=None,
        clip_norm=0.0,
        clip_value=0.0,
        ema=0.0,
        warmup_steps=0,
        total_steps=0,
        schedule_every=1000,
        gamma=0.1,
        min_rate=0.0,
        plateau_patience=5,
        freeze=(),
        accumulate=1,
        temperature=3.0,
        alpha=0.5,
        mixed="none",
        recompute=False,
        portable=False,
    ):
        given = dict(locals())
        del given["self"], given["text"], given["input"]
        if not epsilon > 0:
            raise ValueError(f"epsilon={epsilon}; expected more than 0")
        if optimizer == "lion" and beta2 == 0.999:  # Adam's default
            given["beta2"] = 0.99
        given["freeze"] = (freeze,) if isinstance(freeze, str) else tuple(freeze)
        self._options = given
        self._graph = _core.Model(str(text) if isinstance(text, Layers) else text, tuple(input))
        self._numbers = {name: i for i, (name, _, _) in enumerate(self._graph.params())}
        self._trainer = self._batch = self._planned = None
        self.class_names = None
        self._serial = 0  # of the latest gradients
        self._pending = None  # samples whose gradients wait for apply
        self._options["total_steps"] = total_steps or int(schedule in ("cosine", "one_cycle"))
        self._open_end = not total_steps  # fit finds out how many steps there are
        _core.Trainer(self._graph, **{**given, "batch": 1, "loss": self._loss(None)})  # a wrong option is reported where it is written

    @classmethod
    def load(cls, path, *, checkpoint=None, **options):
        """Reads a model: `path` is a run folder of `penstock train`, a folder that save wrote, or an ONNX file.

            checkpoint: "best", "latest" or a number of steps, of a run folder; None: best if there is one
            options: those of Model; the optimiser's state is read where it fits them
        """
        record = _core.read_run(path, None if checkpoint is None else str(checkpoint))
        options.setdefault("loss", record["loss"])
        model = cls(record["model"], record["input"], **options)
        model.class_names = record["classes"] or None
        trainer = model._made()
        try:
            trainer.load(record["folder"])
        except _core.Error as error:
            if error.status not in ("PST_ETYPE", "PST_EUNSUPPORTED"):
                raise
            trainer.load_weights(record["folder"])  # of another optimiser, or without one: a compressed model, an ONNX file
        return model

    def load_weights(self, path):
        """Reads weights, and returns the model: from a run or checkpoint folder, an ONNX or safetensors file, or a .weights.h5 of Keras.

        Arrays with the names of our parameters are taken by name. Otherwise layers are taken in their order, as Keras and PyTorch
        number them, and PyTorch's layouts are converted. Every shape is compared; a last layer of another shape stays as it is.
        """
        self._made().load_weights(os.fspath(path))
        return self

    # What it is

    @property
    def text(self):
        """The layers; presets as their layers."""
        return self._graph.text

    @property
    def input(self):
        """The shape of one sample of the input."""
        return self._graph.input

    @property
    def output(self):
        """The shape of one sample of the result."""
        return self._graph.output

    @property
    def steps(self):
        """The number of updates so far."""
        return self._trainer.steps if self._trainer else 0

    @property
    def loss_scale(self):
        """The factor of the loss that gradients() are computed with: 1, except for mixed="float16", where it adapts as in Keras."""
        return self._trainer.loss_scale if self._trainer else 32768.0 if self._options["mixed"] == "float16" else 1.0

    @property
    def trainable_variables(self):
        """The parameters that are trained, for GradientTape."""
        from ._tape import Variable

        fixed = {name for name, _, fixed in self._graph.params() if fixed}
        return [Variable(self, name) for name in self._numbers if name not in fixed]

    def __call__(self, images):
        """The model's result for a loss of penstock.losses; as numbers, those of predict."""
        from ._tape import Predictions

        return Predictions(self, images)

    @property
    def weights(self):
        """Parameters by name: reading makes a copy, setting changes the model."""
        return Weights(self)

    def summary(self, batch=BATCH):
        """Layers, shapes, parameters and work as text; then the plan of a step of `batch` samples."""
        rows = [("layer", "result", "parameters", "MFLOP")]
        for name, _, shape, parameters, flops in self._graph.layers():
            rows.append((name, "×".join(map(str, shape)), f"{parameters:,}", f"{flops / 1e6:.3f}"))
        layers = rows[1:]
        wide = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = [f"{a:{wide[0]}}  {b:{wide[1]}}  {c:>{wide[2]}}  {d:>{wide[3]}}".rstrip() for a, b, c, d in rows]
        total = sum(parameters for *_, parameters, _ in self._graph.layers())
        size, plan = self._graph.describe(batch, self._options["threads"])
        lines += ["", f"{len(layers)} layers, {total:,} parameters; a step of {batch} samples takes {size / 1e6:.1f} MB", plan.rstrip()]
        return "\n".join(lines)

    def __repr__(self):
        return f"penstock.Model({self.text!r}, input={self.input})"

    # The trainer

    def _choose(self, **options):
        """Options of a loss or an optimiser that a loop of one's own brings; they take effect with the next step."""
        new = {name: value for name, value in options.items() if self._options[name] != value}
        if "loss" in new and self._trainer is not None and self._options["loss"] == "auto" and self._planned[0] == new["loss"]:
            self._options["loss"] = new.pop("loss")
        if set(new) == {"learning_rate"} and self._trainer is not None:
            self._trainer.set_rate(float(new["learning_rate"]))
            self._options.update(new)
        elif new:
            if self.steps:
                raise ValueError(f"the model has been trained with another {', '.join(new)}; make a new one")
            self._options.update(new)
            self._planned = None  # a new plan takes over the weights

    def _number(self, name):
        try:
            return self._numbers[name]
        except KeyError:
            raise KeyError(f"no parameter {name!r}; there are {', '.join(self._numbers)}") from None

    def _loss(self, target):
        """The loss for these targets; without targets, one that every model can have."""
        if self._options["loss"] != "auto":
            return self._options["loss"]
        if target is None:
            values = 1
            for size in self.output:
                values *= size
            return self._graph.loss(False, values)
        shape, form = _shape(target)
        values = 1
        for size in shape[1:]:
            values *= size
        return self._graph.loss(form[-1] in "bBhHiIlLqQ" and values == 1, values)

    def _made(self, batch=0, target=None):
        """The trainer, planned for at least this batch and for these targets."""
        old, steps = self._trainer, self.steps
        kept = self._planned[0] if self._planned else None
        loss = self._loss(target) if old is None or kept is None or (target is not None and steps == 0) else kept
        planned = (loss, self._options["total_steps"])
        if old is not None and batch <= self._batch and planned == self._planned:
            return old
        size = max(batch or BATCH, self._batch or 0)
        new = _core.Trainer(self._graph, **{**self._options, "batch": size, "loss": loss})
        if old is not None and steps == 0 and (self._planned is None or self._options["accumulate"] == 1):
            if self._pending is not None and self._options["accumulate"] > 1:
                new.compute(*self._pending)  # an accumulated gradient counts by its samples
            for number in self._numbers.values():
                new.set_values(number, old.values(number))
        elif old is not None:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "state")
                old.save(path)
                new.load(path)
        self._trainer, self._batch, self._planned = new, size, planned
        return new

    # Batches

    def _split(self, batch, fields, needs_target=True):
        """(input, target, weights) of a batch: a Batch or dict of fields, or a tuple."""
        if hasattr(batch, "keys"):
            names = [name for name in batch.keys() if getattr(batch[name], "dtype", None) != "bytes"]
            source, target = fields or (None, None)
            if target is None:
                target = "label" if "label" in names else names[1] if len(names) == 2 and source in (None, names[0]) else None
            others = [name for name in names if name != target]
            if source is None and len(others) == 1:
                source = others[0]
            if source is None or (needs_target and target is None):
                raise ValueError(f"the batch has the fields {', '.join(names)}; say which are meant: fields=(INPUT, TARGET)")
            return batch[source], batch[target] if target is not None and needs_target else None, None
        if isinstance(batch, (tuple, list)):
            parts = list(batch) + [None, None]
            if needs_target and parts[1] is None:
                raise ValueError("the batches have no targets; expected (input, target)")
            return parts[0], parts[1], parts[2]
        if needs_target:
            raise TypeError(f"a batch is a penstock.Batch, a dict or (input, target), not {type(batch).__name__}")
        return batch, None, None

    def _samples(self, images, labels, weights, teacher=None):
        images, labels = _take(images), _take(labels)
        arguments = (images, labels)
        if weights is not None or teacher is not None:
            arguments += (None if weights is None else _take(weights, "f"),)
        if teacher is not None:
            arguments += (_take(teacher, "f"),)
        return self._made(len(memoryview(images)), labels), arguments

    # One's own loop

    def train_step(self, images, labels, weights=None, *, teacher=None, apply=True):
        """Computes loss and gradients, updates the weights, and returns the loss. `apply=False` leaves the update to apply().

            weights: one weight per sample; None: 1
            teacher: a row of logits per sample, by another model; None: there is none
        """
        trainer, arguments = self._samples(images, labels, weights, teacher)
        self._serial += 1
        self._pending = None if apply else arguments
        return (trainer.step if apply else trainer.compute)(*arguments)["loss"]

    def gradients(self):
        """The gradients of the latest train_step by the names of their parameters; copies. With mixed="float16" they are those of the loss
        times loss_scale. They may be changed and handed to apply()."""
        trainer = self._made()
        fixed = {name for name, _, fixed in self._graph.params() if fixed}
        return {name: _result(trainer.gradients(i)) for name, i in self._numbers.items() if name not in fixed}

    def apply(self, gradients=None):
        """Updates the weights from the gradients of train_step(…, apply=False).

            gradients: others in their place, by the names of their parameters, not scaled; those that are not named stay
        """
        trainer = self._made()
        for name, values in (gradients or {}).items():
            trainer.set_gradients(self._number(name), _take(values, "f"))
        trainer.apply()
        self._pending = None

    # Whole passes

    @staticmethod
    def _weigh(labels, weights, factors):
        """Weights of samples from those of their classes."""
        values = memoryview(_take(labels)).tolist()
        given = [1.0] * len(values) if weights is None else memoryview(_take(weights, "f")).tolist()
        if values and not isinstance(values[0], int):
            raise ValueError("class_weight needs one integer label per sample")
        return array.array("f", [factors.get(value, 1.0) * weight for value, weight in zip(values, given)])

    def logits(self, samples):
        """The model's results before a softmax or sigmoid at its end, one row per sample."""
        return _result(self._made(len(memoryview(_take(samples)))).predict(_take(samples), 2))

    @staticmethod
    def _teacher(teacher):
        """A function from samples to logits: of a Model, of the path of one, or the function itself."""
        if teacher is None:
            return None
        if isinstance(teacher, (str, os.PathLike)):
            teacher = Model.load(os.fspath(teacher))
        return teacher.logits if isinstance(teacher, Model) else teacher

    def _pass(self, dataset, fields, train, on_batch=(), factors=None, teacher=None):
        """One pass. (samples, mean loss, share of right samples or None, other metrics of an evaluation)."""
        count = loss = right = 0
        metrics = None
        for batch in dataset:
            images, labels, weights = self._split(batch, fields)
            if factors:
                weights = self._weigh(labels, weights, factors)
            trainer, arguments = self._samples(images, labels, weights, teacher(images) if teacher else None)
            if not train and metrics is None:
                metrics = trainer.metrics()
            result = trainer.step(*arguments) if train else trainer.judge(metrics, *arguments)
            count += result["samples"]
            loss += result["loss"] * result["samples"]
            right += result["correct"]
            for call in on_batch:
                call(self.steps, {"loss": result["loss"], "learning_rate": result["learning_rate"]})
        if count == 0:
            raise ValueError("the dataset has no samples")
        return count, loss / count, None if self._planned[0] == "mse" else right / count, {} if train else _core.metrics_judgement(metrics)

    def fit(self, dataset, epochs=1, *, validation=None, callbacks=(), fields=None, class_weight=None, teacher=None):
        """Trains, and returns what evaluate would, per epoch: [{"epoch", "step", "loss", "accuracy", "val_loss", …}, …].

            dataset: batches: a Dataset, or anything that can be iterated over once per epoch; a batch has two fields, or one
                besides "label", or is (input, target)
            validation: a dataset that is evaluated after each epoch
            callbacks: functions that get the dict of an epoch after it, or objects with on_epoch_end(epoch, logs) or
                on_batch_end(step, logs); if one returns True after an epoch, training ends
            fields: names of the fields of input and target
            class_weight: {class: weight} of the loss of its samples; other classes weigh 1
            teacher: what the model learns from besides the labels: a Model, the path of a trained one, or a function from samples to logits;
                temperature and alpha of the model say how
        """
        teacher = self._teacher(teacher)
        if self.class_names is None:
            self.class_names = getattr(dataset, "class_names", None) or None
        self._plan_schedule(dataset, epochs)
        calls = [callback.on_epoch_end for callback in callbacks if hasattr(callback, "on_epoch_end")]
        on_batch = [callback.on_batch_end for callback in callbacks if hasattr(callback, "on_batch_end")]
        plain = [callback for callback in callbacks if not hasattr(callback, "on_epoch_end") and not hasattr(callback, "on_batch_end")]
        history = []
        for epoch in range(1, epochs + 1):
            _, loss, accuracy, _ = self._pass(dataset, fields, True, on_batch, class_weight, teacher)
            self._made().flush()
            logs = {"epoch": epoch, "step": self.steps, "loss": loss}
            if accuracy is not None:
                logs["accuracy"] = accuracy
            if validation is not None:
                logs.update((f"val_{name}", value) for name, value in self.evaluate(validation, fields=fields).items() if name != "samples")
            history.append(logs)
            self._made().end_epoch(logs.get("val_loss", loss))
            stop = [call(logs) for call in plain] + [call(epoch, logs) for call in calls]
            if any(answer is True for answer in stop):
                break
        return history

    def _plan_schedule(self, dataset, epochs):
        if self._options["schedule"] not in ("cosine", "one_cycle") or not self._open_end:
            return
        try:
            self._options["total_steps"] = self.steps + epochs * len(dataset)
        except TypeError:
            raise ValueError(f'schedule="{self._options["schedule"]}" needs total_steps=, as the dataset has no length') from None

    def evaluate(self, dataset, *, fields=None):
        """Loss and metrics over one pass: {"samples", "loss", …}; "accuracy" and "f1" for classes, also "auc" for binary targets, "mae" and "r2" for
        numbers."""
        count, loss, accuracy, metrics = self._pass(dataset, fields, False)
        return {"samples": count, "loss": loss, **({} if accuracy is None else {"accuracy": accuracy}), **metrics}

    def predict(self, samples, *, probabilities=False, fields=None):
        """The model's results, one row per sample.

            samples: an array whose first dimension is the batch, or a dataset
            probabilities: apply softmax (or sigmoid) where the model ends with logits
        """
        if not hasattr(samples, "__iter__") or hasattr(samples, "dtype") or isinstance(samples, (memoryview, array.array)):
            return _result(self._made().predict(_take(samples), int(probabilities)))
        parts = []
        for batch in samples:
            taken = _take(self._split(batch, fields, False)[0])
            parts.append(self._made(len(memoryview(taken))).predict(taken, int(probabilities)))
        numpy = _numpy()
        if numpy is not None:
            return numpy.concatenate([part.numpy() for part in parts]) if parts else numpy.zeros((0, *self.output), numpy.float32)
        rows = sum(len(part) for part in parts)
        return memoryview(b"".join(bytes(memoryview(part)) for part in parts)).cast("f", (rows, *self.output)) if rows else []

    def save(self, path):
        """Writes weights and the optimiser's state into the folder `path`, whole or not at all. An older checkpoint there is replaced."""
        path = os.fspath(path)
        if os.path.isdir(path) and os.listdir(path) and not os.path.exists(os.path.join(path, "state.json")):
            raise FileExistsError(f"{path} is a folder with other files; choose a path that does not exist")
        trainer = self._made()
        trainer.set_classes(tuple(self.class_names or ()))
        trainer.save(path)
