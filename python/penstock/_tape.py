"""One's own training loop in the words of TensorFlow: GradientTape, losses, optimizers.

The engine computes loss and gradients in one pass, when the loss is called; the tape hands the gradients out.

    with ps.GradientTape() as tape:
        predictions = model(images)
        loss = loss_fn(labels, predictions)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""

import types

from ._model import _numpy


class Variable:
    """A parameter of a model: numpy() copies its values, assign() sets them."""

    def __init__(self, model, name):
        self.model, self.name = model, name

    def numpy(self):
        return self.model.weights[self.name]

    def assign(self, values):
        self.model.weights[self.name] = values

    @property
    def shape(self):
        return tuple(memoryview(self.model.weights[self.name]).shape)

    def __repr__(self):
        return f"penstock.Variable({self.name}, {self.shape})"


class Predictions:
    """What a model says about samples. A loss takes it; anything else sees the numbers, which are computed then."""

    def __init__(self, model, samples):
        self.model, self.samples = model, samples

    def numpy(self):
        return self.model.predict(self.samples)

    def __array__(self, dtype=None, copy=None):
        values = self.numpy()
        return values if dtype is None else values.astype(dtype)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.numpy(), name)


class Loss(float):
    """A loss whose gradients the model has; multiplying it scales them, too."""

    def __new__(cls, value, model=None, serial=0, factor=1.0):
        made = super().__new__(cls, value)
        made._model, made._serial, made._factor = model, serial, factor
        return made

    def numpy(self):
        return float(self)

    def __mul__(self, factor):
        return Loss(float(self) * factor, self._model, self._serial, self._factor * factor)

    __rmul__ = __mul__

    def __truediv__(self, factor):
        return self * (1 / factor)


class GradientTape:
    """Gradients of a loss, after it was computed: see the example of this module."""

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        return None

    def gradient(self, loss, variables):
        """The gradients of `loss` with respect to these variables of the model, in their order."""
        model = getattr(loss, "_model", None)
        if model is None:
            raise TypeError("the loss does not come from a loss of penstock.losses and a model")
        if model._serial != loss._serial:
            raise ValueError("the model has computed another loss since; take the gradients first")
        scale = loss._factor / model.loss_scale
        found = model.gradients()
        return [found[variable.name] if scale == 1 else _times(found[variable.name], scale) for variable in variables]


def _times(values, factor):
    numpy = _numpy()
    if numpy is None:
        raise TypeError("scaled gradients need NumPy")
    return values * numpy.float32(factor)


def function(step=None, **options):
    """The decorator of TensorFlow's loops: returns the step unchanged, as the engine compiles a model's step anyway. Options of TensorFlow are accepted.

    Example:

        @ps.function
        def train_step(images, labels): ...
    """
    return function if step is None else step


class _LossFunction:
    kind = ""

    def __init__(self, from_logits=None):
        self.from_logits = from_logits  # the model's last layer decides

    def __call__(self, labels, predictions):
        if not isinstance(predictions, Predictions):
            raise TypeError("a loss takes (labels, model(images))")
        model = predictions.model
        model._choose(loss=self.kind)
        value = model.train_step(predictions.samples, labels, apply=False)
        return Loss(value, model, model._serial)


def _make_losses():
    kinds = {"SparseCategoricalCrossentropy": "sparse", "CategoricalCrossentropy": "categorical", "BinaryCrossentropy": "binary",
             "MeanSquaredError": "mse"}
    made = {name: type(name, (_LossFunction,), {"kind": kind, "__doc__": f"The loss \"{kind}\" of Model, as a function of labels and model(images)."})
            for name, kind in kinds.items()}
    return types.SimpleNamespace(**made)


class _Optimizer:
    """Updates of a model's variables; the model keeps the state."""

    def __init__(self, learning_rate, **options):
        self.options = {"learning_rate": learning_rate, **options}
        self._scale = None

    def get_scaled_loss(self, loss):
        """The loss times the model's loss scale, which keeps gradients within float16; 1 without mixed precision."""
        self._scale = loss._model.loss_scale
        return loss * self._scale

    def get_unscaled_gradients(self, gradients):
        """Gradients of the loss that was scaled last, divided by its scale."""
        if self._scale is None:
            raise ValueError("no loss has been scaled")
        return [gradient if self._scale == 1 else _times(gradient, 1 / self._scale) for gradient in gradients]

    def apply_gradients(self, pairs):
        """Updates variables from (gradient, variable) pairs."""
        pairs = list(pairs)
        if not pairs:
            raise ValueError("there are no gradients")
        model = pairs[0][1].model
        model._choose(**self.options)
        model.apply({variable.name: gradient for gradient, variable in pairs})


def _make_optimizers():
    def adam(learning_rate=0.001, beta_1=0.9, beta_2=0.999, epsilon=1e-7):
        return _Optimizer(learning_rate, optimizer="adam", beta1=beta_1, beta2=beta_2, epsilon=epsilon)

    def adamw(learning_rate=0.001, weight_decay=0.004, beta_1=0.9, beta_2=0.999, epsilon=1e-7):
        return _Optimizer(learning_rate, optimizer="adamw", weight_decay=weight_decay, beta1=beta_1, beta2=beta_2, epsilon=epsilon)

    def sgd(learning_rate=0.01, momentum=0.0, nesterov=False):
        return _Optimizer(learning_rate, optimizer="nesterov" if nesterov else "sgd", momentum=momentum)

    return types.SimpleNamespace(Adam=adam, AdamW=adamw, SGD=sgd)


losses = _make_losses()
optimizers = _make_optimizers()
