"""The operation table as Python functions: real signatures, defaults and docstrings, made from the engine's declarations."""

import operator
import os

from . import _core

KEYWORDS = {"from": "from_"}  # names that Python keeps for itself
ALIASES = {"shuffle": ("buffer_size", "buffer"), "prefetch": ("buffer_size", "depth")}  # tf.data's spelling, and ours


def quote(value):
    """A word of pipeline text, whatever is in it."""
    text = os.fsdecode(value) if isinstance(value, bytes) else str(value)
    if "'" not in text:
        return f"'{text}'"
    for char, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(char, escape)
    return f'"{text}"'


def _flag(value):
    if isinstance(value, str):  # "no" would be true
        raise TypeError(f"{value!r}; expected True or False")
    return "true" if value else "false"


def _whole(value):
    """Text goes to the engine as one word, which checks it."""
    if isinstance(value, str):
        return quote(value)
    try:
        return str(operator.index(value))
    except TypeError:
        raise TypeError(f"{value!r}; expected a whole number") from None


def _floats(value):
    return quote(value) if isinstance(value, str) else ",".join(repr(float(v)) for v in _sequence(value))


def _size(value):
    """An int, "widthxheight", or (height, width) as NumPy, Keras and torchvision order them."""
    if isinstance(value, (tuple, list)):
        height, width = value
        return f"{_whole(width)}x{_whole(height)}"
    return _whole(value)


def _sequence(value):
    return value if isinstance(value, (tuple, list)) else (value,)


TEXT = {
    "bool": _flag,
    "int": _whole,
    "uint": _whole,
    "float": lambda v: repr(float(v)),
    "string": lambda v: quote(",".join(map(str, v)) if isinstance(v, (list, tuple)) else os.fspath(v)),
    "choice": quote,
    "bytes": _whole,
    "amount": _whole,
    "size2d": _size,
    "floats": _floats,
}


def default_of(kind, text):
    """A default as Python writes it."""
    if kind == "bool":
        return text == "true"
    if kind in ("int", "uint"):
        return int(text)
    if kind == "float":
        return float(text)
    if kind == "floats":
        return tuple(float(v) for v in text.split(",")) if text else ""
    if kind in ("bytes", "amount", "size2d") and text.isdigit():
        return int(text)
    return text


def arguments(params, values):
    """The text of the arguments that differ from their defaults."""
    words = []
    for (name, kind, default, _, _), value in zip(params, values):
        if kind == "strings":
            words += [quote(os.fspath(word)) for group in value for word in _sequence(group)]
        elif default is None or value != default_of(kind, default):
            try:
                words.append(f"{name}={TEXT[kind](value)}")
            except (TypeError, ValueError) as error:
                raise type(error)(f"{KEYWORDS.get(name, name)}={error}") from None
    return " ".join(words)


def signature(params):
    """(Parameters of a def, the expressions that collect their values.)"""
    required, words, optional, values = [], [], [], []
    for name, kind, default, _, _ in params:
        python = KEYWORDS.get(name, name)
        values.append(python)
        if kind == "strings":
            words.append("*" + python)
        elif default is None:
            required.append(python)
        else:
            optional.append(f"{python}={default_of(kind, default)!r}")
    return ", ".join(required + words + optional), values


def docstring(name, doc, example, params, whole="pipeline"):
    lines = [doc, ""]
    for param, kind, default, choices, text in params:
        accepts = " or ".join(choices) if choices else kind
        note = f"{accepts}; default {default}" if default else accepts
        lines.append(f"    {KEYWORDS.get(param, param)}: {text} ({note})")
    return "\n".join(lines + ["", f"Example, as {whole} text:", "", f"    {example}"])


def _define(name, doc, example, params, receiver):
    heads, values = signature(params)
    first = "self" if receiver == "self" else ""
    heads = ", ".join(part for part in (first, heads) if part)
    target = "self._op" if receiver == "self" else "_source"
    alias, meant = ALIASES.get(name, (None, None))
    chosen = f"    {meant} = {meant} if {alias} is None else {alias}\n" if alias else ""
    heads = f"{heads}, *, {alias}=None" if alias else heads
    body = f"def {name}({heads}):\n{chosen}    return {target}({name!r}, _arguments(_params, ({''.join(v + ',' for v in values)})))\n"
    scope = {"_params": params, "_arguments": arguments, "_source": _source}
    exec(body, scope)
    function = scope[name]
    function.__doc__ = docstring(name, doc, example, params)
    function.__module__ = "penstock"
    return function


def _source(name, text):
    from ._dataset import Dataset, Operation

    return Dataset((Operation(name, text),))


def install(dataset):
    """Gives the class a method for every operation that is not a source and that it has not by itself."""
    for name, kind, doc, example, params in TABLE:
        if kind != "source" and name not in vars(dataset):
            method = _define(name, doc, example, params, "self")
            method.__qualname__ = f"Dataset.{name}"
            setattr(dataset, name, method)


def _operations():
    return [entry for entry in _core.operations() if entry[0] not in JOINED]


def load_plugin(dataset, path):
    """Adds the operations of a plug-in to the table, and their methods to the class."""
    path = os.fspath(path)
    found = _core.load_plugin(path if os.sep in path else os.path.join(os.curdir, path))
    TABLE[:] = _operations()
    KINDS.update({name: kind for name, kind, _, _, _ in TABLE})
    install(dataset)
    return found


JOINED = ("zip", "concatenate", "sample", "choose", "interleave")  # they take datasets: see _joins.py
TABLE = _operations()
KINDS = {name: kind for name, kind, _, _, _ in TABLE}
SOURCES = {
    name: _define(name, doc, example, params, "") for name, kind, doc, example, params in TABLE if kind == "source" and params
}
