"""Dataset: a chain of operations, written as methods, run by the engine. The chain itself never changes: a method returns a
longer one.

A dataset makes its pipeline (threads, memory, cache) when it is first asked for something, and keeps it: every iter() is the
next epoch. A second iterator beside a living one, and one in a forked process, get a pipeline of their own.
"""

import operator
import os
import struct
import time
import weakref
from _thread import _local, get_ident as _thread
from collections import namedtuple

from . import _core, _fluent



class _Inside(_local):
    """Which functions call: the one for batches that the thread is in, and those that a process of _process.py runs."""

    function = None
    served: list = []  # of all threads


_inside = _Inside()
AUTOTUNE = -1
VERSION = 1  # of state_dict

Spec = namedtuple("Spec", "shape dtype")
Spec.__doc__ = "Shape and type of a field; None where a dimension varies."

OPTIONS = ("seed", "workers", "prefetch", "ram", "rank", "world", "uneven", "bad", "verify", "cache_dir", "fuse")


# ---- What a chain consists of: each knows how to add itself to a pipeline ----


class Operation:
    """A built-in operation with its arguments as text."""

    def __init__(self, name, text):
        self.name, self.text = name, text
        self.add(_core.Pipeline(), (), {})  # a wrong argument is told where it is written

    def add(self, pipeline, before, options):
        pipeline.add(self.name, self.text)

    def __repr__(self):
        return f"{self.name} {self.text}".strip()


class Text:
    """A whole chain as text; only at the front."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


class Arrays:
    def __init__(self, names, arrays):
        self.names, self.arrays = names, arrays

    def add(self, pipeline, before, options):
        pipeline.add_arrays(self.names, self.arrays)

    def __repr__(self):
        return "arrays"


class Files:
    """Files by their paths and labels, all of them bytes; labels may be None."""

    def __init__(self, paths, labels):
        self.paths, self.labels = paths, labels

    def add(self, pipeline, before, options):
        pipeline.add_files(self.paths, self.labels)

    def __repr__(self):
        return "files"


class Generator:
    def __init__(self, function, spec):
        self.function, self.spec = function, spec

    def add(self, pipeline, before, options):
        from ._functions import Rows

        pipeline.add_generator(Rows(self.function, self.spec))

    def __repr__(self):
        return "generator"


class Map:
    """A function for each sample."""

    def __init__(self, function, workers, spec):
        self.function, self.workers, self.spec = function, workers, spec

    def add(self, pipeline, before, options):
        from ._functions import SampleFunction

        pipeline.add_map(SampleFunction(self.function, self.workers, self.spec, lambda: _first_sample(before, options)))

    def __repr__(self):
        return f"map {getattr(self.function, '__qualname__', self.function)}"


class View:
    def __init__(self, field, dtype, shape):
        self.arguments = (field, dtype, shape, "x".join("?" if n is None else str(n) for n in shape))

    def add(self, pipeline, before, options):
        pipeline.add_view(self.arguments)

    def __repr__(self):
        return "decode_raw"


def _build(nodes, options):
    if isinstance(nodes[0], Text):
        pipeline = _core.Pipeline.parse(nodes[0].text, **options)
    else:
        pipeline = _core.Pipeline(**options)
        nodes[0].add(pipeline, (), options)
    for i, node in enumerate(nodes[1:], 1):
        node.add(pipeline, nodes[:i], options)
    return pipeline


def _first_sample(nodes, options):
    """The first element of a chain: what the result of a function is inferred from. And where it lies."""
    single = {**options, "workers": 1, "prefetch": 1, "rank": 0, "world": 1}
    pipeline = _build(nodes + (Operation("take", "1"),), single)
    try:
        for batch in pipeline.iterate():
            return {name: tensor[0] for name, tensor in batch.items()}, pipeline.locate(batch)[0]
    finally:
        pipeline.close()
    raise ValueError("there is no element to try the function on; declare its result: map(…, spec={…})")


class Beside:
    """An iterator with a pipeline of its own, beside another one."""

    def __init__(self, pipeline, batches):
        self.pipeline, self.batches, self.process = pipeline, batches, os.getpid()

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.batches)

    def close(self, seconds):
        """All that it has is its pipeline."""


# ---- Dataset ----


class Dataset:
    """A chain of operations. Iterate over it for the batches of an epoch; see the module's functions for sources."""

    def __init__(self, nodes, options=None, batch_maps=(), class_names=None, file_paths=None):
        self._nodes, self._options, self._batch_maps = tuple(nodes), dict(options or {}), tuple(batch_maps)
        self._pipeline = self._process = self._cursor = self._builder = None
        self._loops = set()  # weak: iterators that have more than the pipeline's own; one that is let go must end its epoch
        self._spent = {}  # what the functions for batches cost in the latest loop
        self._class_names, self.file_paths = class_names, file_paths  # of image_dataset_from_directory

    # Building

    def _with(self, *nodes, options=None, batch_maps=()):
        options = {**self._options, **(options or {})}
        return Dataset(self._nodes + nodes, options, self._batch_maps + batch_maps, self._class_names, self.file_paths)

    def _op(self, name, text):
        if self._batch_maps and _fluent.KINDS[name] == "sample":
            raise ValueError(f"{name} works on samples: put it in front of the map that works on batches")
        return self._with(Operation(name, text))

    def map(self, function, num_parallel_calls=None, *, per=None, workers="thread", spec=None):
        """Calls a Python function for each sample, or, after batch, for each batch.

            function: its parameters are named after the fields it wants, or it takes all fields in order; what it returns takes
                their place (a tuple for several, a dict to name them), and other fields stay. A single parameter of another
                name, where there are several fields, gets them all as a dict, and the dict it returns is all there is then. A
                parameter `seed` gets a number drawn for this sample and epoch. Arrays are NumPy's where NumPy is installed. A
                compiled function (numba.cfunc, ctypes) runs without Python:
                int32 f(const void **in, void **out, const int64_t *sizes). `raise ps.Skip` leaves the sample (or batch) out.
            num_parallel_calls: None or AUTOTUNE, as in tf.data: the engine runs functions in parallel in any case
            per: "sample" or "batch"; None: batch behind batch(), otherwise sample
            workers: "thread" runs it on the engine's threads; "process" in processes that share memory with them, which pays for
                functions of Python code that take 100 µs and more
            spec: types and shapes of what it returns for a sample, {"image": ("float32", (224, 224, 3)), …}; None: found by
                trying it once

        Example:

            ds = ps.folder("photos").decode().resize(224).map(lambda image: image[::-1]).batch(64)
        """
        if not callable(function) and not hasattr(function, "native_name"):  # numba's compiled functions; a number may be any address
            raise TypeError(f"map takes a function, not {function!r}; for an address, ctypes.CFUNCTYPE(…)(address)")
        if num_parallel_calls not in (None, AUTOTUNE):
            raise ValueError(
                f"num_parallel_calls={num_parallel_calls!r}; functions run on all workers of the pipeline: with_options(workers=…) sets "
                "their number"
            )
        if workers not in ("thread", "process"):
            raise ValueError(f'workers="{workers}"; expected thread or process')
        per = per or ("batch" if self._batched() else "sample")
        if per == "sample":
            return self._with(Map(function, workers, spec))
        if per != "batch":
            raise ValueError(f'per="{per}"; expected sample or batch')
        if spec is not None:
            raise ValueError(
                "spec is for functions that get samples; for batches, results are taken as they are: convert them in the function"
            )
        return self._with(batch_maps=((function, workers),))

    def decode_raw(self, dtype="uint8", shape=(None,), field="image"):
        """Reads bytes as numbers, as tf.io.decode_raw does, or numbers as another shape. At most one dimension may be None.

        Example:

            ds = ps.tfrecord("shards/").example("data:bytes label:int64").decode_raw("float32", (784,), field="data").batch(64)
        """
        return self._with(View(field, dtype, tuple(shape)))

    def with_options(self, **options):
        """Options of the whole pipeline: seed, workers and prefetch (chosen where 0 or AUTOTUNE), ram (bytes), rank, world,
        uneven ("pad", "drop", "allow"), bad ("error", "skip", "skip:20", "skip:0.5%"), verify, cache_dir, fuse.

        Example:

            ds = ps.tfrecord("shards/").shuffle().batch(64).with_options(seed=7, bad="skip:0.1%")
        """
        unknown = set(options) - set(OPTIONS)
        if unknown:
            raise TypeError(f"no option {', '.join(sorted(unknown))}; there are {', '.join(OPTIONS)}")
        if "cache_dir" in options:
            options["cache_dir"] = os.fspath(options["cache_dir"])
        options.update((name, 0) for name in ("workers", "prefetch") if options.get(name) == AUTOTUNE)
        alone = {name: value for name, value in options.items() if name not in ("rank", "world")}  # those two belong together
        _core.Pipeline(**alone)  # a wrong value is told where it is written
        return self._with(options=options)

    def distributed(self, rank=None, world=None, uneven="pad"):
        """This rank's share of the batches. Without arguments, torch.distributed, RANK and WORLD_SIZE, SLURM or MPI tell the
        rank; if they contradict each other, that is an error."""
        from ._ranks import resolve

        rank, world = resolve(rank, world)
        return self.with_options(rank=rank, world=world, uneven=uneven)

    def _batched(self):
        for node in self._nodes:
            if isinstance(node, Operation) and node.name == "batch":
                return True
            if isinstance(node, Text):
                import json

                operations = json.loads(_build((node,), self._options).describe(True))["operations"]
                if any(operation["name"] == "batch" for operation in operations):
                    return True
        return False

    # Running

    @property
    def class_names(self):
        """The names of the classes in the order of their labels: of the class folders, of a list's labels that are text, or of
        labels.txt beside the shards. None where they are not known."""
        return self._engine().class_names() if self._class_names is None else self._class_names

    @class_names.setter
    def class_names(self, names):
        self._class_names = names

    def _engine(self):
        pipeline = self._pipeline  # another thread may close it at any moment
        if pipeline is None or self._process != os.getpid():
            self._check_outside()
            self._builder = _thread()  # a generator without a spec is tried while it is added
            try:
                pipeline = _build(self._nodes, self._options)
            finally:
                self._builder = None
            self._pipeline, self._process = pipeline, os.getpid()
        return pipeline

    def _check_outside(self):
        """A function that asked its own dataset for something would be called for the answer, and ask again."""
        mine = [node.function for node in self._nodes if isinstance(node, (Map, Generator))]
        mine += [function for function, _ in self._batch_maps]
        asking = [*_inside.served, _inside.function]
        if self._builder == _thread() or any(f is g for f in mine for g in asking):
            raise RuntimeError(
                "a function or generator of a dataset asked something of the dataset itself, which would wait for it; ask "
                "before iterating, and use the result in the function"
            )

    def __iter__(self):
        if self._batch_maps:
            self._check_outside()
        pipeline = self._engine()
        batches = pipeline.iterate()
        beside = batches is None
        if beside:  # another iterator is at work: one beside it, over the same epoch
            fingerprint, seed, epoch, _ = pipeline.tell()
            pipeline = _build(self._nodes, self._options)
            pipeline.seek(fingerprint, seed, epoch, 0)
            batches = pipeline.iterate()
        if not self._batch_maps:
            return self._keep(Beside(pipeline, batches)) if beside else batches
        from ._batches import BatchStage, Loop

        if not beside:
            self._cursor = pipeline.tell()  # the functions are some batches behind the engine
        stage = self._keep(BatchStage(self, pipeline, batches))
        self._spent = stage.spent
        return Loop(stage)

    def _keep(self, loop):
        """Notes it for close() and cancel(), for as long as somebody has it."""
        self._loops.add(weakref.ref(loop, self._loops.discard))
        return loop

    def _living(self):
        """The loops of this process."""
        return [loop for loop in (ref() for ref in list(self._loops)) if loop is not None and loop.process == os.getpid()]

    def __len__(self):
        length = self._engine().length()
        if length is None:
            raise TypeError("the number of batches is endless or unknown")
        return length

    @property
    def element_spec(self):
        """Shape and type of each field of a batch."""
        if self._batch_maps:
            self._check_outside()
            from ._batches import spec_of_batch

            return {name: Spec(*spec) for name, spec in spec_of_batch(self).items()}
        return {name: Spec(shape, dtype) for name, dtype, shape in self._engine().spec()}

    def plan(self):
        """The plan in words: what runs together, where the order comes from, memory, workers and why; functions and their
        cost."""
        pipeline = self._engine()
        text = pipeline.describe()
        for stage in pipeline.stats()["stages"]:
            if stage["name"].startswith("map") and stage["calls"]:
                cost = 1e6 * stage["seconds"] / stage["calls"]
                text += f"{stage['name']:<9} {cost:.1f} µs a sample in {stage['calls']} samples\n"
        for i, (function, workers) in enumerate(self._batch_maps):
            seconds, calls = self._spent.get(i, (0.0, 0))
            cost = f"{1e3 * seconds / calls:.2f} ms a batch in {calls} batches" if calls else "not measured yet"
            text += (
                f"then      map {getattr(function, '__qualname__', function)} workers={workers}, a batch at a time; {cost}\n"
            )
        return text

    def stats(self):
        """What was delivered so far, who waited for whom, and the time of each stage."""
        return self._engine().stats()

    def cancel(self):
        """Ends iteration from any thread, for good."""
        for pipeline in self._pipelines(self._pipeline, self._living()):
            pipeline.cancel()

    @staticmethod
    def _pipelines(own, loops):
        others = [loop.pipeline for loop in loops if loop.pipeline is not own]
        return others if own is None else [own, *others]

    def close(self, timeout=5.0):
        """Ends the workers and gives their memory back. Batches stay valid; iterating again begins afresh.

        timeout: seconds that functions and generators which are at work have to come back. Then their threads are left to
            themselves, with all that they use, and a RuntimeWarning names them.
        """
        until = time.monotonic() + timeout
        loops = self._living()
        pipelines = self._pipelines(self._pipeline, loops)
        self._pipeline = self._cursor = None
        for pipeline in pipelines:
            pipeline.cancel()
        try:
            for loop in loops:
                loop.close(round(max(0.0, until - time.monotonic()), 3))
        finally:
            for pipeline in pipelines:
                pipeline.close(round(max(0.0, until - time.monotonic()), 3))

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()

    # Resume

    def state_dict(self):
        """Where the iteration stands, in five numbers. Load it into an equal dataset, and the next iter() goes on from here."""
        cursor = self._cursor or self._engine().tell()
        return {"version": VERSION, **dict(zip(("fingerprint", "seed", "epoch", "next"), cursor))}

    def load_state_dict(self, state):
        """Goes to where state_dict was taken. Other data or another chain is an error."""
        if state.get("version") != VERSION:
            raise ValueError(f"a state of version {state.get('version')}; this is version {VERSION}")
        self._engine().seek(state["fingerprint"], state["seed"], state["epoch"], state["next"])
        self._cursor = None

    # For people

    def __repr__(self):
        chain = " | ".join(map(repr, self._nodes))
        return f"<penstock.Dataset {chain}{''.join(' | map' for _ in self._batch_maps)}>"

    def _repr_html_(self):
        from ._html import page

        return page(self)

    def __reduce__(self):  # a copy in another process has a pipeline of its own
        return _restore, (self._nodes, self._options, self._batch_maps, self._class_names, self.file_paths)


def _restore(nodes, options, batch_maps, class_names, file_paths):
    return Dataset(nodes, options, batch_maps, class_names, file_paths)


# ---- Sources that are not in the table ----


def pipeline(text, **options):
    """A chain from pipeline text, with the options of Dataset.with_options; "@file" reads it from a file.

    Example:

        ds = ps.pipeline("tfrecord shards/ | shuffle | example | decode | resize 224 | batch 64", seed=7)
    """
    dataset = Dataset((Text(text),)).with_options(**options)
    _build(dataset._nodes, dataset._options)  # a mistake in the text is told here
    return dataset


def from_arrays(arrays, names=None):
    """Rows of arrays in memory: a tuple (its fields are x, y, or as named), a dict, or one array. Arrays are used as they lie
    and kept alive. A list of bytes or str is a field of bytes.

    Example:

        ds = ps.from_arrays((x_train, y_train)).shuffle().batch(32)
    """
    if hasattr(arrays, "items"):
        names, arrays = tuple(arrays), tuple(arrays.values())
    elif not isinstance(arrays, (tuple, list)):
        arrays = (arrays,)
    if not names:
        from ._functions import field_names

        names = field_names(len(arrays))
    return Dataset((Arrays(tuple(names), tuple(_array(array) for array in arrays)),))


def _array(value):
    if isinstance(value, (list, tuple)) and all(isinstance(item, (bytes, str)) for item in value):
        return [item.encode() if isinstance(item, str) else item for item in value]
    try:
        if memoryview(value).c_contiguous:
            return value
    except TypeError:  # lists of numbers; PyTorch and JAX arrays
        pass
    from ._functions import as_array

    return as_array(value)


def from_files(paths, labels=None):
    """Files by their paths: fields image (the file's bytes), label (where labels are given) and key. Whole numbers become int64
    labels as they are, names are numbered in byte order, and floating-point numbers become float32 labels (float64 where they
    come as an array of float64).

    Example:

        ds = ps.from_files(image_paths, labels).shuffle().decode().resize(224).normalize().batch(32)
    """
    if labels is not None and len(labels) != len(paths):
        raise ValueError(f"{len(paths)} paths and {len(labels)} labels")
    names = tuple(os.fsencode(os.path.abspath(os.fspath(path))) for path in paths)
    texts, dtype = _labels(labels)
    ds = Dataset((Files(names, texts),))
    if dtype is not None:  # the engine holds the bits of the numbers
        ds = ds.decode_raw("float64", (), field="label")
    return ds.cast("f32", field="label") if dtype == "float32" else ds


def _labels(labels):
    """(Labels as the engine takes them, None or the type of floating-point ones.)"""
    if labels is None:
        return None, None
    given = list(labels)
    if any(isinstance(label, (str, bytes)) for label in given):
        return tuple(label if isinstance(label, bytes) else str(label).encode() for label in given), None
    if all(hasattr(label, "__index__") for label in given):
        numbers = [operator.index(label) for label in given]
        for number in numbers:
            if not -(2**63) <= number < 2**63:
                raise ValueError(f"label {number} does not fit int64; pass names as str, or smaller numbers")
        return tuple(str(number).encode() for number in numbers), None
    bits = struct.unpack(f"={len(given)}q", struct.pack(f"={len(given)}d", *given))
    wide = str(getattr(labels, "dtype", "")) in ("float64", "torch.float64")
    return tuple(str(number).encode() for number in bits), "float64" if wide else "float32"


def from_generator(function, spec=None):
    """Elements of a Python generator: a function that returns an iterable anew for every epoch. An element is a dict, a tuple
    (fields x, y, …) or a single value. It is a stream: shuffle() draws from a buffer, and resuming starts it again.

        spec: {"x": ("float32", (32,)), "label": ("int64", ())}; None: as the first element is

    Example:

        ds = ps.from_generator(lambda: ({"x": i, "label": i % 10} for i in range(1000))).batch(10)
    """
    return Dataset((Generator(function, spec),))


def image_dataset_from_directory(
    directory,
    labels="inferred",
    label_mode="int",
    class_names=None,
    color_mode="rgb",
    batch_size=32,
    image_size=(256, 256),
    shuffle=True,
    seed=None,
    validation_split=None,
    subset=None,
    interpolation="bilinear",
    follow_links=False,
    crop_to_aspect_ratio=False,
    pad_to_aspect_ratio=False,
    data_format="channels_last",
    verbose=True,
):
    """keras.utils.image_dataset_from_directory: the same parameters and batches, (image, label), float32 from 0 to 255.

    Example:

        train = ps.image_dataset_from_directory("photos", validation_split=0.2, subset="training", seed=7)
    """
    parameters = dict(locals())
    from ._keras_folder import build

    return build(**parameters)


_fluent.install(Dataset)
