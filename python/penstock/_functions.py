"""Python functions in a chain: which fields they get, what their results become, where they run.

A function for samples is an operation of the engine (SampleFunction.run is called on its workers, with the GIL). A function for
batches runs behind the engine (BatchStage), several batches at a time, in order.
"""

import inspect
import os
import time
import zlib
from collections import deque

from ._core import Error, Tensor

try:
    import numpy
except ImportError:  # arrays are then Tensors, and results whatever has the buffer protocol
    numpy = None


# ---- Values ----


def as_array(value):
    """Anything that holds numbers, as something with the buffer protocol."""
    if numpy is None:
        memoryview(value)  # says what is wrong
        return value
    return numpy.ascontiguousarray(numpy.asarray(value))


def _given(value):
    """What a function is given for a field: an array, unless NumPy has nothing like it."""
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
    if isinstance(value, float):
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
    result = {}
    for name, entry in spec.items():
        dtype, shape = (
            (entry, ()) if isinstance(entry, str) else (entry.dtype, entry.shape) if hasattr(entry, "dtype") else entry
        )
        result[name] = (str(dtype), tuple(shape))
    return result


def _coerce(name, value, dtype):
    """A value as the engine takes it: of the planned type, its rows without gaps."""
    if dtype == "bytes" or isinstance(value, (int, float)) or numpy is None:
        return value
    array = numpy.asarray(value)
    if array.dtype == bool:
        array = array.view(numpy.uint8)
    if dtype != "bfloat16" and array.dtype != dtype:
        if not numpy.can_cast(array.dtype, dtype, "same_kind"):
            raise TypeError(f"field {name}: {array.dtype}, planned {dtype}")
        array = array.astype(dtype)
    return numpy.ascontiguousarray(array) if array.ndim else array


# ---- Which fields a function gets, and what its result means ----


def _signature(function):
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some functions of C tell nothing
        return None


def _parameter_names(function):
    return [p.name for p in _signature(function) or ()]


class Call:
    """A function bound to fields. `fields` are those it is given; `whole`: as one dict; `seeded`: and a random number."""

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
                f"the parameters ({', '.join(wanted)}) are not among the fields ({', '.join(names)}); name them alike, take "
                "all of them in order, or take one dict"
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
        """The fields that the function writes, as a dict."""
        seed = {"seed": values[-1]} if self.seeded else {}
        values = [_given(value) for value in values[: len(self.fields)]]
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
    """The address of a compiled function: numba.cfunc, ctypes, or a number; 0: it is none."""
    if isinstance(function, int):
        return function
    address = getattr(function, "address", None)
    if isinstance(address, int):
        return address
    if type(function).__module__ == "_ctypes" or any(base.__module__ == "_ctypes" for base in type(function).__mro__):
        import ctypes

        return ctypes.cast(function, ctypes.c_void_p).value or 0
    return 0


def _name_of(function):
    return str(getattr(function, "__qualname__", None) or getattr(function, "native_name", None) or type(function).__name__)


def _fingerprint(function):
    """Of what a function does, as far as that can be told: its name, its code and its constants."""
    code = getattr(function, "__code__", None)
    constants = [c for c in code.co_consts if isinstance(c, (int, float, str, bytes, tuple))] if code else []
    return zlib.crc32(repr((_name_of(function), code and code.co_code, code and code.co_names, constants)).encode())


class SampleFunction:
    """What the engine calls: plan once, then run for every sample."""

    def __init__(self, function, workers, spec, first_sample):
        self.function, self.first_sample = function, first_sample
        self.spec = None if spec is None else declared(spec)
        self.address = _compiled_address(function)
        self.kind = "compiled" if self.address else workers
        self.name = _name_of(function)
        self.fingerprint = _fingerprint(function)
        self.seeded = not self.address and "seed" in _parameter_names(function)
        self.pool = self.call = None

    def plan(self, fields):
        names = [name for name, _, _ in fields]
        specs = {name: (dtype, shape) for name, dtype, shape in fields}
        if self.address:
            written, keep = self.spec or specs, self.spec is not None
            reads = names
        else:
            self.call = Call(self.function, names)
            if self.seeded and not self.call.seeded:
                raise TypeError("a parameter called seed gets a random number, and there is a field of that name: rename one")
            keep, reads = not self.call.whole, self.call.fields
            written = self.spec or self._try(reads)
        self.written = tuple(written.items())
        if self.kind == "process":
            from ._process import Pool

            self.pool = Pool(self.call)
        kept = [
            (name, names.index(name), None, None) if name not in written else (name, -1, *written[name])
            for name in names
            if keep or name in written
        ]
        new = [(name, -1, *spec) for name, spec in self.written if name not in names]
        # the engine takes results in the order of the fields
        self.written = tuple((name, dtype) for name, alias, dtype, _ in kept + new if alias < 0)
        return tuple(names.index(name) for name in reads), tuple(kept + new)

    def _try(self, fields):
        sample = self.first_sample()
        result = self.call(*(sample[name] for name in fields), *([0] if self.seeded else []))
        return {name: spec_of(name, value) for name, value in result.items()}

    def run(self, *values):
        result = self.pool(*values) if self.pool else self.call(*values)
        try:
            return tuple([_coerce(name, result[name], dtype) for name, dtype in self.written])
        except KeyError as missing:
            raise KeyError(f"the result has no field {missing}; the first one had") from None


class Rows:
    """A generator as the engine takes it: fields, and tuples in their order."""

    kind = "thread"

    def __init__(self, function, spec):
        self.function, self.name = function, _name_of(function)
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
            return element
        values = element if isinstance(element, tuple) else (element,)
        return dict(zip(names or "xyzuvw", values))

    def rows(self):
        for element in self.function():
            named = self._named(element, self.spec)
            yield tuple([_coerce(name, named[name], dtype) for name, (dtype, _) in self.spec.items()])


# ---- Behind the engine: functions for batches ----


class MappedBatch(dict):
    """A batch that a function returned: like penstock.Batch, by name or unpacked in order."""

    def __iter__(self):
        return iter(self.values())

    def __getitem__(self, key):
        return list(self.values())[key] if isinstance(key, int) else super().__getitem__(key)

    @property
    def size(self):
        return len(next(iter(self.values())))


def _seed(cursor):
    """64 bits for a batch: the same for the same seed, epoch and place."""
    text = repr(cursor[1:]).encode()
    return zlib.crc32(text) << 32 | zlib.crc32(text[::-1])


class BatchStage:
    """Iterates over batches after the functions: some batches ahead, in order, on threads."""

    def __init__(self, dataset, pipeline, batches):
        from concurrent.futures import ThreadPoolExecutor

        self.dataset, self.pipeline, self.batches = dataset, pipeline, batches
        self.calls = None  # bound to fields by the first batch
        self.spent = {function: [0.0, 0] for function, _ in dataset._batch_maps}
        self.pools, self.waiting, self.number = [], deque(), 0
        threads = dataset._options.get("workers") or len(os.sched_getaffinity(0))
        self.ahead, self.executor = threads + 1, ThreadPoolExecutor(threads, thread_name_prefix="penstock-map")

    def __iter__(self):
        return self

    def _bind(self, fields, seed):
        """Binds the functions, one after the other: the result of one is what the next one gets."""
        self.calls = []
        for function, workers in self.dataset._batch_maps:
            call = Call(function, list(fields))
            if workers == "process":
                from ._process import Pool

                self.pools.append(Pool(call))
                call = _Pooled(call, self.pools[-1])
            self.calls.append((function, call))
            fields = self._call(function, call, fields, seed)
        return fields

    def _call(self, function, call, fields, seed):
        begin = time.perf_counter()
        result = call(*(fields[name] for name in call.fields), *([seed] if call.seeded else []))
        spent = self.spent[function]
        spent[0], spent[1] = spent[0] + time.perf_counter() - begin, spent[1] + 1
        return result if call.whole else {**fields, **result}

    def _run(self, batch, number, seed):
        fields = dict(batch.items())
        try:
            if self.calls is None:
                fields = self._bind(fields, seed)
            else:
                for function, call in self.calls:
                    fields = self._call(function, call, fields, seed)
            return MappedBatch((name, _given(value)) for name, value in fields.items())
        except Exception as cause:
            error = Error(f"map: batch {number} of this iteration: {type(cause).__name__}: {cause}")
            error.status, error.op, error.record = "PST_EINVAL", "map", number
            raise error from cause

    def __next__(self):
        while self.batches is not None and len(self.waiting) < self.ahead:
            batch = next(self.batches, None)
            if batch is None:
                self.batches = None
                break
            cursor = self.pipeline.tell()
            future = self.executor.submit(self._run, batch, self.number, _seed(cursor))
            if self.calls is None:
                future.exception()  # only the first one binds
            self.waiting.append((future, cursor))
            self.number += 1
        if not self.waiting:
            self.close()
            self.dataset._cursor = None
            raise StopIteration
        future, cursor = self.waiting.popleft()
        result = future.result()
        self.dataset._cursor = cursor
        return result

    def cost(self, function):
        seconds, calls = self.spent[function]
        return f"{1e3 * seconds / calls:.2f} ms a batch in {calls} batches" if calls else "not measured yet"

    def close(self):
        self.executor.shutdown(wait=False, cancel_futures=True)
        for pool in self.pools:
            pool.close()
        self.pools = []

    def __del__(self):
        if hasattr(self, "executor"):
            self.close()


class _Pooled:
    """A call that is made in a pool of processes."""

    def __init__(self, call, pool):
        self.fields, self.whole, self.seeded, self.pool = call.fields, call.whole, call.seeded, pool

    def __call__(self, *values):
        return self.pool(*values)


def spec_of_batch(dataset):
    """What the functions for batches make of the first one; the first dimension is left open."""
    from ._dataset import Dataset

    probe = Dataset(dataset._nodes, {**dataset._options, "prefetch": 1}, dataset._batch_maps)
    with probe:
        for batch in probe:
            result = {}
            for name, value in batch.items():
                dtype, shape = spec_of(name, value)
                result[name] = ((None, *shape[1:]) if shape else (), dtype)
            return result
    raise ValueError("there is no batch to try the function on")
