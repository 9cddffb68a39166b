"""The layers of models as Python functions: real signatures, defaults and docstrings, made from the engine's declarations."""

from . import _core
from ._fluent import arguments, default_of, docstring


def _arguments(params, values):
    """Padding is a word or a number."""
    return arguments(params, [str(value) if param[1] == "string" and type(value) is int else value for param, value in zip(params, values)])


def _text(chain):
    if isinstance(chain, (str, Layers)):
        return str(chain)
    raise TypeError(f"a chain of layers is a penstock.Layers or a text, not {type(chain).__name__}")


class Layers:
    """A chain of layers. Every layer of `penstock model --layers` is a method, which returns a longer chain.

        text: layers ("conv 32 3 relu | maxpool 2"), "@FILE" or a preset ("resnet20"), to begin with

    Example:

        branch = ps.layers.conv(16, 3, pad="same", bias=False).batchnorm()
        ps.Model(ps.layers.conv(16, 3, "relu", pad="same").residual(branch, activation="relu").globalavgpool().dense(10), input=(32, 32, 3))
    """

    __slots__ = ("_chain",)

    def __init__(self, text=""):
        chain = _text(text)
        self._chain = _core.layers_add("", None, chain, ()) if chain else ""

    def _add(self, kind, text, chains=()):
        longer = object.__new__(Layers)
        longer._chain = _core.layers_add(self._chain, kind, text, tuple(map(_text, chains)))
        return longer

    def __str__(self):
        return self._chain

    def __repr__(self):
        return f"penstock.Layers({self._chain!r})"

    def __bool__(self):
        return bool(self._chain)

    def __eq__(self, other):
        return self._chain == other._chain if isinstance(other, Layers) else NotImplemented

    def __hash__(self):
        return hash(self._chain)


def signature(params, positional, chains):
    """The parameters of a def. Chains in parentheses come before everything that has a default."""
    heads = [name if default is None else f"{name}={default_of(kind, default)!r}" for name, kind, default, _, _ in params]
    required = sum(default is None for _, _, default, _, _ in params)
    if chains:
        return ["self"] + heads[:required] + ["*chains"] + heads[required:]
    named = heads[positional:]
    return ["self"] + heads[:positional] + (["*"] if named else []) + named


def _define(name, doc, example, params, positional, _, chains):
    values = "".join(f"{param[0]}," for param in params)
    body = f"def {name}({', '.join(signature(params, positional, chains))}):\n    return self._add({name!r}, _arguments(_params, ({values}))"
    scope = {"_params": params, "_arguments": _arguments}
    exec(body + (", chains)\n" if chains else ")\n"), scope)
    function = scope[name]
    function.__doc__ = docstring(name, doc, example, params, "model")
    function.__module__ = "penstock"
    function.__qualname__ = f"Layers.{name}"
    return function


TABLE = _core.layers()
for entry in TABLE:
    setattr(Layers, entry[0], _define(*entry))
layers = Layers()
