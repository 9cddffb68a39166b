"""Dataset: a chain of operations, written as methods and run by the engine. A chain is immutable: a method returns a longer
chain.

A dataset creates its pipeline (threads, memory, cache) on first use and keeps it: every iter() starts the next epoch. A second
iterator beside one in use, and an iterator in a forked process, have their own pipeline.
"""

import operator
import os
import struct
import time
import warnings
import weakref
from _thread import _local, get_ident as _thread
from collections import namedtuple

from . import _core, _fluent



class _Inside(_local):
    """The functions that are running: the batch function of this thread, and the functions that a process of _process.py serves."""

    function = None
    served: list = []  # shared by all threads


_inside = _Inside()
AUTOTUNE = -1
VERSION = 2  # of state_dict; 1 has no cursor
NUMBERS = ("fingerprint", "seed", "epoch", "next")

Spec = namedtuple("Spec", "shape dtype")
Spec.__doc__ = "Shape and type of a field; None where a dimension varies."

OPTIONS = ("seed", "workers", "prefetch", "ram", "rank", "world", "hosts", "uneven", "bad", "verify", "cache_dir", "fuse")


# ---- Nodes of a chain: add() adds a node to a pipeline ----


class Operation:
    """A built-in operation with its arguments as text."""

    def __init__(self, name, text):
        self.name, self.text = name, text
        self.add(_core.Pipeline(), (), {})  # raises for a wrong argument at the call that has it

    def add(self, pipeline, before, options):
        pipeline.add(self.name, self.text)

    def __repr__(self):
        return f"{self.name} {self.text}".strip()


class Text:
    """A whole chain as text; always the first node."""

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


class Join:
    """A join of chains; always the first node."""

    def __init__(self, name, text, branches):
        self.name, self.text, self.branches = name, text, branches

    def add(self, pipeline, before, options):
        pipeline.add_pipelines(self.name, self.text, tuple(_build(nodes, options) for nodes in self.branches))

    def __repr__(self):
        chains = " ".join(f"({' | '.join(map(repr, nodes))})" for nodes in self.branches)
        return f"{self.name} {chains} {self.text}".strip()


def _functions(nodes):
    """The functions of a chain, and of the chains that it joins."""
    for node in nodes:
        if isinstance(node, (Map, Generator)):
            yield node.function
        for branch in getattr(node, "branches", ()):
            yield from _functions(branch)


def _monitor_folder():
    """The folder for a socket at which `penstock top` looks, if PENSTOCK_MONITOR asks for one; else None."""
    wanted = os.environ.get("PENSTOCK_MONITOR", "")
    if wanted in ("", "0"):
        return None
    if wanted.startswith("/"):
        return wanted
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return f"{runtime}/penstock" if runtime.startswith("/") else f"/tmp/penstock-{os.geteuid()}"


def _build(nodes, options):
    monitor = _monitor_folder()
    if monitor is not None:
        options = {**options, "monitor": monitor}
    if isinstance(nodes[0], Text):
        pipeline = _core.Pipeline.parse(nodes[0].text, **options)
    else:
        pipeline = _core.Pipeline(**options)
        nodes[0].add(pipeline, (), options)
    for i, node in enumerate(nodes[1:], 1):
        node.add(pipeline, nodes[:i], options)
    return pipeline


def _value(value):
    """What functions get for a field of an element: single numbers are Python's."""
    return value.item() if isinstance(value, _core.Tensor) and value.ndim == 0 else value


def _first_sample(nodes, options):
    """Returns the first element of a chain, from which the result of a function is inferred, and its place."""
    single = {**options, "workers": 1, "prefetch": 1, "rank": 0, "world": 1}
    pipeline = _build(nodes + (Operation("take", "1"),), single)
    try:
        for batch in pipeline.iterate():
            return {name: _value(value) for name, value in batch.items()}, pipeline.locate(batch)[0]
    finally:
        pipeline.close()
    raise ValueError("the dataset is empty, so the result of the function cannot be inferred; declare it: map(…, spec={…})")


class Beside:
    """An iterator with its own pipeline, beside another iterator."""

    def __init__(self, pipeline, batches):
        self.pipeline, self.batches, self.process = pipeline, batches, os.getpid()

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.batches)

    def close(self, seconds):
        """Does nothing: the pipeline is closed by the caller."""


# ---- Dataset ----


class Dataset:
    """A chain of operations. Iterate over it for the batches of an epoch; see the module's functions for sources."""

    def __init__(self, nodes, options=None, batch_maps=(), class_names=None, file_paths=None):
        self._nodes, self._options, self._batch_maps = tuple(nodes), dict(options or {}), tuple(batch_maps)
        self._pipeline = self._process = self._cursor = self._builder = None
        self._loops = set()  # weak references: an iterator that is deleted must end its epoch
        self._spent = {}  # time of the batch functions in the latest loop
        self._class_names, self.file_paths = class_names, file_paths  # set by image_dataset_from_directory

    # Building

    def _with(self, *nodes, options=None, batch_maps=()):
        options = {**self._options, **(options or {})}
        return Dataset(self._nodes + nodes, options, self._batch_maps + batch_maps, self._class_names, self.file_paths)

    def _op(self, name, text):
        if self._batch_maps and _fluent.KINDS[name] == "sample":
            raise ValueError(f"{name} works on samples: put it before the map that works on batches")
        return self._with(Operation(name, text))

    def map(self, function, num_parallel_calls=None, *, per=None, workers="thread", spec=None):
        """Calls a Python function for each sample, or, after batch, for each batch.

            function: the names of its parameters select the fields that it gets; otherwise it gets all fields, in order. The result
                replaces these fields (a tuple for several, a dict to name them); other fields stay. If there are several fields
                and the only parameter has another name, it gets a dict of all fields and returns a dict that replaces all
                fields. A parameter `seed` gets a random number for this sample and epoch. Fields are NumPy arrays if NumPy is
                installed. A compiled function (numba.cfunc, ctypes) runs without Python:
                int32 f(const void **in, void **out, const int64_t *sizes). `raise ps.Skip` leaves the sample (or batch) out.
            num_parallel_calls: None, AUTOTUNE or a number, as in tf.data; the engine runs functions on all workers of the pipeline
            per: "sample" or "batch"; None: "batch" after batch(), otherwise "sample"
            workers: "thread" runs it on the engine's threads; "process" in processes that share memory with it, which is
                faster for Python code that takes over 100 µs
            spec: types and shapes of the result for a sample, {"image": ("float32", (224, 224, 3)), …}; None: inferred by
                calling the function once

        Example:

            ds = ps.folder("photos").decode().resize(224).map(lambda image: image[::-1]).batch(64)
        """
        if not callable(function) and not hasattr(function, "native_name"):  # numba's compiled functions; a number may be any address
            raise TypeError(f"map takes a function, not {function!r}; for an address, ctypes.CFUNCTYPE(…)(address)")
        if num_parallel_calls not in (None, AUTOTUNE):
            if operator.index(num_parallel_calls) < 1:
                raise ValueError(f"num_parallel_calls={num_parallel_calls!r}; expected None, AUTOTUNE or a number above 0")
            warnings.warn(
                f"num_parallel_calls={num_parallel_calls} is not used: functions run on all workers of the pipeline; with_options(workers=…) "
                "sets their number",
                stacklevel=2,
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

    def zip(self, *others):
        """Joins datasets side by side: an element has the fields of an element of each. See ps.zip."""
        from ._joins import zip as join

        return join(self, *others)

    def concatenate(self, *others):
        """Appends datasets with the same fields. See ps.concatenate."""
        from ._joins import concatenate as join

        return join(self, *others)

    def decode_raw(self, dtype="uint8", shape=(None,), field="image"):
        """Reads bytes as numbers, as tf.io.decode_raw does, or numbers as another shape. At most one dimension may be None.

        Example:

            ds = ps.tfrecord("shards/").example("data:bytes label:int64").decode_raw("float32", (784,), field="data").batch(64)
        """
        return self._with(View(field, dtype, tuple(shape)))

    def with_options(self, **options):
        """Options of the whole pipeline: seed, workers and prefetch (0 or AUTOTUNE: chosen), ram (bytes), rank, world,
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
        alone = {name: value for name, value in options.items() if name not in ("rank", "world", "hosts")}  # those must be given together
        _core.Pipeline(**alone)  # raises for a wrong value here
        return self._with(options=options)

    def distributed(self, rank=None, world=None, uneven="pad", hosts=1):
        """Returns this rank's share of the batches. Without arguments, rank and world come from torch.distributed, RANK and
        WORLD_SIZE, SLURM or MPI; if these contradict each other, that is an error. `hosts` above 1: the ranks of each of so many
        machines get the samples of one part of the data, which that machine reads and caches alone; "auto" takes their number from
        torchrun, Open MPI or MPICH."""
        from ._ranks import machines, resolve

        rank, world = resolve(rank, world)
        hosts = machines(rank, world) if hosts == "auto" else hosts
        return self.with_options(rank=rank, world=world, uneven=uneven, hosts=hosts)

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
        pipeline = self._pipeline  # another thread may close it at any time
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
        """Raises if a function of this dataset calls the dataset, which would call the function again."""
        mine = list(_functions(self._nodes))
        mine += [function for function, _ in self._batch_maps]
        asking = [*_inside.served, _inside.function]
        if self._builder == _thread() or any(f is g for f in mine for g in asking):
            raise RuntimeError(
                "a function or generator called a method of the same dataset, which would wait for the function; call "
                "the method before iterating"
            )

    def __iter__(self):
        if self._batch_maps:
            self._check_outside()
        pipeline = self._engine()
        batches = pipeline.iterate()
        beside = batches is None
        if beside:  # another iterator is in use: create one beside it, over the same epoch
            fingerprint, seed, epoch, *_ = pipeline.tell()
            pipeline = _build(self._nodes, self._options)
            pipeline.seek(fingerprint, seed, epoch, 0)
            batches = pipeline.iterate()
        if not self._batch_maps:
            return self._keep(Beside(pipeline, batches)) if beside else batches
        from ._batches import BatchStage, Loop

        if not beside:
            self._cursor = pipeline.tell()  # the functions have finished fewer batches than the engine
        stage = self._keep(BatchStage(self, pipeline, batches))
        self._spent = stage.spent
        return Loop(stage)

    def _keep(self, loop):
        """Registers the loop for close() and cancel() as long as it is referenced."""
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

    def at(self, k, epoch=0):
        """Computes batch `k` of an epoch by itself, on the calling thread: the batch that iterating delivers as number `k`. A
        negative `k` counts from the end. The iteration stays where it is. Threads may call it at the same time, and so may processes
        that have an equal dataset. A stream (a generator, a compressed file, bucket) cannot do it. None: a function left the batch out.

            k: number of the batch, or of the element if the dataset has no batches
            epoch: number of the epoch, from 0

        Example:

            ds = ps.range(100).shuffle(seed=7).batch(10)
            first, last = ds.at(0, epoch=3), ds.at(-1, epoch=3)
        """
        if self._batch_maps:
            self._check_outside()
        pipeline = self._engine()
        k = operator.index(k)
        length = pipeline.length()
        if length is not None and not -length <= k < length:
            raise IndexError(f"batch {k} of an epoch of {length} batches")
        if k < 0 and length is None:
            raise IndexError(f"batch {k}: the number of batches is endless or unknown")
        k += length if k < 0 else 0
        batch = pipeline.at(epoch, k)
        if not self._batch_maps:
            return batch
        from ._batches import apply

        return apply(self, pipeline, batch, epoch, k)

    @property
    def _has_batches(self):
        """Whether the dataset combines elements into batches; without, iteration yields single elements."""
        return bool(self._batch_maps) or self._engine().batched()

    @property
    def element_spec(self):
        """Shape and type of each field of a batch, or of an element if the dataset has no batches."""
        if self._batch_maps:
            self._check_outside()
            from ._batches import spec_of_batch

            return {name: Spec(*spec) for name, spec in spec_of_batch(self).items()}
        return {name: Spec(shape, dtype) for name, dtype, shape in self._engine().spec()}

    def plan(self):
        """Returns the plan as text: fused operations, order, memory, number of workers with the reason, functions and their
        time."""
        pipeline = self._engine()
        text = pipeline.describe()
        for stage in pipeline.stats()["stages"]:
            if stage["name"].startswith("map") and stage["calls"]:
                cost = 1e6 * stage["seconds"] / stage["calls"]
                text += f"{stage['name']:<9} {cost:.1f} µs per sample in {stage['calls']} samples\n"
        for i, (function, workers) in enumerate(self._batch_maps):
            seconds, calls = self._spent.get(i, (0.0, 0))
            cost = f"{1e3 * seconds / calls:.2f} ms per batch in {calls} batches" if calls else "not measured yet"
            text += (
                f"then      map {getattr(function, '__qualname__', function)} workers={workers}, one batch per call; {cost}\n"
            )
        return text

    def stats(self):
        """Returns statistics: delivered samples, waiting times of workers and consumer, and the time of each stage."""
        return self._engine().stats()

    def cancel(self):
        """Ends all iterations of this dataset; may be called from any thread. The pipeline stays cancelled."""
        for pipeline in self._pipelines(self._pipeline, self._living()):
            pipeline.cancel()

    @staticmethod
    def _pipelines(own, loops):
        others = [loop.pipeline for loop in loops if loop.pipeline is not own]
        return others if own is None else [own, *others]

    def close(self, timeout=5.0):
        """Stops the workers and frees their memory. Batches stay valid; iterating again creates a new pipeline.

        timeout: seconds to wait for running functions and generators. After that, their threads continue with the memory that
            they use, and a RuntimeWarning names them.
        """
        if not timeout >= 0:
            raise ValueError(f"timeout={timeout!r}; expected 0 or more seconds")
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
        """Returns the state of the iteration: numbers, and the engine's cursor as hexadecimal text. After load_state_dict on an
        equal dataset, the next iter() resumes here."""
        *numbers, cursor = self._cursor or self._engine().tell()
        return {"version": VERSION, **dict(zip(NUMBERS, numbers)), "cursor": cursor.hex()}

    def load_state_dict(self, state):
        """Restores a state of state_dict, also one of an earlier version. Other data or another chain is an error."""
        if state.get("version") not in (1, VERSION):
            raise ValueError(f"a state of version {state.get('version')}; this is version {VERSION}")
        cursor = () if state["version"] == 1 else (bytes.fromhex(state["cursor"]),)
        self._engine().seek(*(state[name] for name in NUMBERS), *cursor)
        self._cursor = None

    # Display

    def __repr__(self):
        chain = " | ".join(map(repr, self._nodes))
        return f"<penstock.Dataset {chain}{''.join(' | map' for _ in self._batch_maps)}>"

    def _repr_html_(self):
        from ._html import page

        return page(self)

    def __reduce__(self):  # a copy in another process creates its own pipeline
        return _restore, (self._nodes, self._options, self._batch_maps, self._class_names, self.file_paths)


def _restore(nodes, options, batch_maps, class_names, file_paths):
    return Dataset(nodes, options, batch_maps, class_names, file_paths)


# ---- Sources that are not in the table ----


def pipeline(text, **options):
    """Creates a dataset from pipeline text, with the options of Dataset.with_options; "@file" reads the text from a file.

    Example:

        ds = ps.pipeline("tfrecord shards/ | shuffle | example | decode | resize 224 | batch 64", seed=7)
    """
    dataset = Dataset((Text(text),)).with_options(**options)
    _build(dataset._nodes, dataset._options)  # raises here if the text is wrong
    return dataset


def from_arrays(arrays, names=None):
    """Creates a dataset from the rows of arrays in memory: a tuple (fields x, y, or `names`), a dict, or one array. Arrays are
    not copied and are kept alive, unless fields do not have their type: uint32 becomes int64. A list of bytes or str, or a NumPy array
    of texts, is a field of bytes.

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


# Types of NumPy that fields do not have, and those that hold their values.
WIDER = {"int8": "int32", "int16": "int32", "uint16": "int32", "uint32": "int64", "uint64": "int64"}


def _array(value):
    if isinstance(value, (list, tuple)) and all(isinstance(item, (bytes, str)) for item in value):
        return [item.encode() if isinstance(item, str) else item for item in value]
    if getattr(getattr(value, "dtype", None), "kind", "") in ("U", "S") and value.ndim == 1:  # NumPy's texts
        return _array(value.tolist())
    try:
        if memoryview(value).c_contiguous and str(getattr(value, "dtype", "")) not in WIDER:
            return value
    except TypeError:  # lists of numbers; PyTorch and JAX arrays
        pass
    from ._functions import as_array

    return _widened(as_array(value))


def _widened(array):
    """Converts whole numbers of a type that fields do not have to the smallest one that holds them all."""
    wider = WIDER.get(str(getattr(array, "dtype", "")))
    if wider == "int64" and array.dtype == "uint64" and array.size and int(array.max()) >= 2**63:
        raise OverflowError(f"{array.max()} does not fit int64; pass smaller numbers, or texts")
    return array.astype(wider) if wider else array


def from_files(paths, labels=None):
    """Creates a dataset from paths of files, with the fields image (the file's bytes), label (if labels are given) and key.
    Whole numbers become int64 labels, names are numbered in byte order, and floating-point numbers become float32 labels
    (float64 if they are in an array of float64).

    Example:

        ds = ps.from_files(image_paths, labels).shuffle().decode().resize(224).normalize().batch(32)
    """
    if labels is not None and len(labels) != len(paths):
        raise ValueError(f"{len(paths)} paths and {len(labels)} labels")
    names = tuple(os.fsencode(os.path.abspath(os.fspath(path))) for path in paths)
    texts, dtype = _labels(labels)
    ds = Dataset((Files(names, texts),))
    if dtype is not None:  # the engine stores the bits of the numbers
        ds = ds.decode_raw("float64", (), field="label")
    return ds.cast("f32", field="label") if dtype == "float32" else ds


def _labels(labels):
    """Returns the labels as text for the engine, and the type of floating-point labels or None."""
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
    if not wide:
        try:
            struct.pack(f"={len(given)}f", *given)
        except OverflowError:
            raise OverflowError("a label does not fit float32; pass an array of float64") from None
    return tuple(str(number).encode() for number in bits), "float64" if wide else "float32"


def from_generator(function, spec=None):
    """Creates a dataset from a function that returns a new iterable for every epoch. An element is a dict, a tuple (fields x, y,
    …) or a single value. The source is a stream: shuffle() uses a buffer, and resuming reads it again from its beginning.

        spec: {"x": ("float32", (32,)), "label": ("int64", ())}; None: inferred from the first element

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
    """Does the same as keras.utils.image_dataset_from_directory: same parameters, batches of (image, label), float32 from 0 to 255.

    Example:

        train = ps.image_dataset_from_directory("photos", validation_split=0.2, subset="training", seed=7)
    """
    parameters = dict(locals())
    from ._keras_folder import build

    return build(**parameters)


_fluent.install(Dataset)


def load_plugin(path):
    """Loads a plug-in, a shared object with operations written in C (examples/plugin_scale.c). Its operations become methods of
    `Dataset` and can be used in texts. Returns the name and the version of the plug-in.

    Example:

        ps.load_plugin("./libscale.so")
    """
    return _fluent.load_plugin(Dataset, path)
