"""Python functions in a chain: the fields they get, the meaning of their results, and where they run.

A function for samples is an operation of the engine: SampleFunction.run is called on its workers, with the GIL. Functions for
batches are in _batches.py.
"""

import inspect
import zlib

from ._core import Skip, Tensor

try:
    import numpy
except ImportError:  # fields are then Tensors, and results any objects with the buffer protocol
    numpy = None


NOWHERE = 2**64 - 1  # no record or byte, as PST_NOWHERE


# ---- Values ----


def as_array(value):
    """Converts an array-like of numbers to an object with the buffer protocol."""
    what = f"{type(value).__name__}: not an array of numbers"
    if numpy is None:
        try:
            return memoryview(value)
        except TypeError:
            raise TypeError(what + "; install NumPy to convert lists and similar objects") from None
    array = numpy.asarray(value, order="C")  # ascontiguousarray would make rows of single numbers
    if array.dtype == object:
        raise TypeError(what)
    return array


def given(value):
    """Converts a field for a function: to a NumPy array if NumPy has the type."""
    if isinstance(value, Tensor) and numpy is not None and value.dtype != "bfloat16" and value.row_splits is None:
        return numpy.asarray(value)
    return value


def _is_text(value):
    return isinstance(value, (bytes, bytearray, str)) or (
        isinstance(value, (list, tuple)) and value != [] and all(isinstance(item, (bytes, str)) for item in value)
    )


FORMATS = {"?": "uint8", "B": "uint8", "i": "int32", "l": "int64", "q": "int64", "e": "float16", "f": "float32", "d": "float64"}


def spec_of(name, value):
    """(dtype, shape) of a value that a function returned."""
    if isinstance(value, (bytes, bytearray, str)):
        return "bytes", ()
    if _is_text(value):
        return "bytes", (None,)
    if isinstance(value, float) and not hasattr(value, "dtype"):  # numpy.float64 is a float, too
        return "float32", ()
    if isinstance(value, int):
        return "int64", ()
    view = memoryview(as_array(value))
    dtype = FORMATS.get(view.format.lstrip("<=@"))
    if dtype is None:
        raise TypeError(
            f"field {name}: values of format {view.format}; expected uint8, int32, int64 or floating point (try .astype)"
        )
    return dtype, view.shape


def declared(spec):
    """A spec as users write it, {"x": ("float32", (32,))} or {"label": "int64"}, as {name: (dtype, shape)}."""
    if not hasattr(spec, "items"):
        raise TypeError(f"spec={spec!r}; expected a dict such as {{'x': ('float32', (32,)), 'label': 'int64'}}")
    result = {}
    for name, entry in spec.items():
        dtype, shape = (
            (entry, ()) if isinstance(entry, str) else (entry.dtype, entry.shape) if hasattr(entry, "dtype") else entry
        )
        result[name] = (str(dtype), tuple(shape))
    return result


def _coerce(name, value, dtype):
    """Converts a value for the engine: of the planned type, C-contiguous."""
    if dtype == "bytes" or isinstance(value, (int, float)) or numpy is None:
        return value
    array = numpy.asarray(value)
    if array.dtype == bool:
        array = array.view(numpy.uint8)
    if dtype != "bfloat16" and array.dtype != dtype:
        whole = array.dtype.kind in "iu" and numpy.dtype(dtype).kind in "iu"
        if whole:
            _check_range(name, array, numpy.iinfo(dtype))
        elif not numpy.can_cast(array.dtype, dtype, "same_kind"):
            raise TypeError(f"field {name}: {array.dtype}, planned {dtype}")
        array = _as_type(name, array, dtype)
    return numpy.ascontiguousarray(array) if array.ndim else array


def _as_type(name, array, dtype):
    """Converts an array; raises for numbers that a smaller floating-point type would make infinite."""
    with numpy.errstate(over="ignore"):
        result = array.astype(dtype)
    if array.dtype.kind in "fiu" and result.dtype.kind == "f":
        infinite = numpy.isinf(result) & numpy.isfinite(array)
        if infinite.any():
            raise OverflowError(f"field {name}: {array[infinite].flat[0]} does not fit {result.dtype}; declare a wider type")
    return result


def _check_range(name, array, bounds):
    """Raises for whole numbers that do not fit; NumPy would wrap them."""
    if not array.size:
        return
    for value in (int(array.min()), int(array.max())):
        if not bounds.min <= value <= bounds.max:
            raise OverflowError(
                f"field {name}: {value} does not fit {bounds.dtype}, which holds {bounds.min} to {bounds.max}; declare a wider type"
            )


# ---- Fields and results of a function ----


def _signature(function):
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some C functions have no signature
        return None


def _parameter_names(function):
    return [p.name for p in _signature(function) or ()]


class Call:
    """A function bound to fields. `fields` are its arguments; `whole`: as one dict; `seeded`: with a random number."""

    def __init__(self, function, names):
        self.function, self.names = function, tuple(names)
        wanted = self._parameters(names)
        self.seeded = "seed" in wanted and "seed" not in names
        if self.seeded:
            wanted.remove("seed")
        self.whole = False
        if wanted and all(name in names for name in wanted):
            self.fields = tuple(wanted)
        elif len(wanted) == len(names):
            self.fields = self.names
        elif len(wanted) == 1:
            self.fields, self.whole = self.names, True
        else:
            raise TypeError(
                f"the parameters ({', '.join(wanted)}) are not among the fields ({', '.join(names)}); use the names of "
                "fields, take all fields in order, or take one dict"
            )

    def _parameters(self, names):
        parameters = _signature(self.function)
        if parameters is None or any(p.kind is p.VAR_POSITIONAL for p in parameters):
            return list(names)
        return [
            p.name
            for p in parameters
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
            and (p.default is p.empty or p.name in names or p.name == "seed")
        ]

    def __call__(self, *values):
        """Calls the function; returns the fields that it writes, as a dict."""
        seed = {"seed": values[-1]} if self.seeded else {}
        values = [given(value) for value in values[: len(self.fields)]]
        result = self.function(dict(zip(self.fields, values)), **seed) if self.whole else self.function(*values, **seed)
        if hasattr(result, "keys"):
            return dict(result)
        if len(self.fields) == 1 and not isinstance(result, tuple):
            return {self.fields[0]: result}
        if isinstance(result, (tuple, list)) and len(result) == len(self.fields):
            return dict(zip(self.fields, result))
        raise TypeError(
            f"the function got {', '.join(self.fields)} and returned {type(result).__name__}; return a tuple of as many "
            "values, or a dict"
        )


def _compiled_address(function):
    """Returns the address of a compiled function (numba.cfunc, ctypes); 0 for a Python function."""
    address = getattr(function, "address", None) if hasattr(function, "native_name") else None  # numba's
    if isinstance(address, int):
        return address
    if type(function).__module__ == "_ctypes" or any(base.__module__ == "_ctypes" for base in type(function).__mro__):
        import ctypes

        return ctypes.cast(function, ctypes.c_void_p).value or 0
    return 0


def name_of(function):
    return str(getattr(function, "__qualname__", None) or getattr(function, "native_name", None) or type(function).__name__)


def _fingerprint(function):
    """Fingerprint of a function: its name, code and constants."""
    code = getattr(function, "__code__", None)
    constants = [c for c in code.co_consts if isinstance(c, (int, float, str, bytes, tuple))] if code else []
    return zlib.crc32(repr((name_of(function), code and code.co_code, code and code.co_names, constants)).encode())


class SampleFunction:
    """The operation that the engine calls: plan once, then run for every sample."""

    def __init__(self, function, workers, spec, first_sample):
        self.function, self.first_sample = function, first_sample
        self.spec = None if spec is None else declared(spec)
        self.address = _compiled_address(function)
        self.kind = "compiled" if self.address else workers
        self.name = name_of(function)
        self.fingerprint = _fingerprint(function)
        self.seeded = not self.address and "seed" in _parameter_names(function)
        self.pool = self.call = self.planned = None
        self.groups = {}  # by worker of the engine: what it prepared, and the results

    def plan(self, fields):
        names = [name for name, _, _ in fields]
        specs = {name: (dtype, shape) for name, dtype, shape in fields}
        if self.address:
            written, keep = self.spec or specs, self.spec is not None
            reads = names
        else:
            self.call = Call(self.function, names)
            if self.seeded and not self.call.seeded:
                raise TypeError("a parameter named seed gets a random number, but there is also a field of that name: rename one of them")
            keep, reads = not self.call.whole, self.call.fields
            written = self.spec or self._try(reads)
        self.written = tuple(written.items())
        kept = [
            (name, names.index(name), None, None) if name not in written else (name, -1, *written[name])
            for name in names
            if keep or name in written
        ]
        new = [(name, -1, *spec) for name, spec in self.written if name not in names]
        # the engine takes results in the order of the fields
        self.written = tuple((name, dtype) for name, alias, dtype, _ in kept + new if alias < 0)
        self.planned = PlannedCall(self.call, self.written)
        if self.kind == "process":
            from ._process import Pool

            self.pool = Pool(self.planned, self.function)
        return tuple(names.index(name) for name in reads), tuple(kept + new)

    def _try(self, fields):
        sample, place = self.first_sample()
        try:
            result = self.call(*(sample[name] for name in fields), *([0] if self.seeded else []))
            return {name: spec_of(name, value) for name, value in result.items()}
        except Skip:
            raise ValueError("the function skips the first element, so its result cannot be inferred; declare it: map(…, spec={…})") from None
        except Exception as error:
            error.add_note("The function was called on the first element to infer types and shapes; spec={…} declares them.")
            error._penstock_place = (place[0], *(NOWHERE if n is None else n for n in place[1:]))  # the engine's error has it
            raise

    def stop(self):
        """Stops the processes, even if they are running a function."""
        if self.pool:
            self.pool.close(0)

    def run(self, *values):
        return (self.pool or self.planned)(*values)

    def prepare(self, worker, place, values):
        """Keeps the arguments of one element. The first `take` sends them all to a process."""
        if place == 0:
            self.groups[worker] = [], []
        self.groups[worker][0].append(values)

    def take(self, worker):
        """The results for the next element that the worker prepared."""
        calls, results = self.groups[worker]
        if calls:
            count = len(calls)
            try:
                results.extend(reversed(self.pool.call_all(calls)))
            except Exception as error:  # nothing was sent: out of memory, or a value that cannot be pickled
                results.extend([Failed(error)] * count)
            calls.clear()
        return value_of(results.pop())

    def forget(self, worker):
        """The worker is gone, with what it prepared."""
        self.groups.pop(worker, None)


class PlannedCall:
    """Calls a function; returns the fields that it writes, in the order of the plan. Does not refer to the SampleFunction: its pool
    would be freed by the garbage collector only."""

    def __init__(self, call, written):
        self.call, self.written = call, written

    def __call__(self, *values):
        result = self.call(*values)
        if len(result) != len(self.written):  # a name that is missing is a KeyError below
            _check_names(result, [name for name, _ in self.written], "the result of the function")
        try:
            return tuple([_coerce(name, result[name], dtype) for name, dtype in self.written])
        except KeyError as missing:
            raise KeyError(f"the result has no field {missing}; the first one had") from None


class Failed:
    """The exception of one call, in place of its result."""

    def __init__(self, error):
        self.error = error


def value_of(result):
    if isinstance(result, Failed):
        raise result.error
    return result


def _check_names(values, names, what):
    extra = [name for name in values if name not in names]
    if extra:
        raise ValueError(f"{what} has a field {extra[0]} that is not planned; those are {', '.join(names)}: declare it in spec={{…}}")


def field_names(count):
    """Default names of fields: x, y, z, …; x0, x1, … if there are more than six."""
    return tuple("xyzuvw"[:count]) if count <= 6 else tuple(f"x{i}" for i in range(count))


class Rows:
    """A generator for the engine: its fields, and elements as tuples in their order."""

    kind = "thread"

    def __init__(self, function, spec):
        self.function, self.name = function, name_of(function)
        if spec is None:
            first = next(iter(function()), None)
            if first is None:
                raise ValueError("the generator is empty; declare its elements: from_generator(…, spec={…})")
            spec = {name: spec_of(name, value) for name, value in self._named(first, None).items()}
        self.spec = declared(spec)
        self.fields = tuple((name, -1, dtype, shape) for name, (dtype, shape) in self.spec.items())
        self.fingerprint = zlib.crc32(repr((self.name, self.fields)).encode())

    @staticmethod
    def _named(element, names):
        if hasattr(element, "keys"):
            if names is not None and len(element) != len(names):
                _check_names(element, names, "an element of the generator")
            return element
        values = element if isinstance(element, tuple) else (element,)
        names = field_names(len(values)) if names is None else names
        if len(values) != len(names):
            raise ValueError(f"an element of the generator has {len(values)} values, expected {len(names)} ({', '.join(names)})")
        return dict(zip(names, values))

    def rows(self):
        for element in self.function():
            named = self._named(element, self.spec)
            yield tuple([_coerce(name, named[name], dtype) for name, (dtype, _) in self.spec.items()])
