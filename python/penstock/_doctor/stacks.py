"""Samples of Python stacks: which function was running, and what kind of work it was.

In this process a thread looks at sys._current_frames() every few milliseconds. A frame that stands on a call instruction without a
frame of its own above it is inside a C function; the source text of that call names it. Worker processes are read with py-spy, if
that is installed.
"""

import collections
import dis
import inspect
import json
import linecache
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
import types

EVERY = 0.004  # seconds
SWITCH = 1e-6  # seconds that a thread keeps the interpreter while we ask for it: the usual 5 ms would show only calls that release it

# Kinds of work, by the name of the module.
DECODE = {"PIL", "imageio", "torchvision.io", "av", "decord", "soundfile", "turbojpeg", "pyvips", "rawpy"}
AUGMENT = {"numpy", "cv2", "scipy", "skimage", "albumentations", "torchvision", "kornia", "imgaug", "librosa", "PIL.ImageFilter", "PIL.ImageOps",
           "PIL.ImageEnhance"}
READ = {"io", "_io", "posix", "h5py", "csv", "gzip", "zipfile", "tarfile", "zlib", "bz2", "lzma", "pandas", "sqlite3", "requests", "urllib", "socket", "s3fs",
        "fsspec", "pyarrow", "mmap"}
SERIALIZE = {"pickle", "_pickle", "marshal"}
LOCK = {"threading", "queue", "_thread", "selectors", "select", "concurrent", "multiprocessing"}  # waiting for other threads and processes
STEP = {"torch", "tensorflow", "keras", "jax", "jaxlib", "flax", "optax", "sklearn", "xgboost", "lightgbm"}
READING_CALLS = {"open", "read", "readline", "imread", "load", "fromfile", "loadtxt", "read_csv"}
CONVERTING_CALLS = {"tensor", "as_tensor", "array", "asarray", "stack", "from_numpy", "constant", "convert_to_tensor"}
DECODING_CALLS = {"imread", "imdecode", "decode_image", "decode_jpeg", "read_image"}

AUTOGRAPH, AUTOGRAPH_FILE = "tensorflow.python.autograph", "__autograph_generated_file"  # statements of a Python function that TensorFlow rewrote, one by one

_LIBRARIES = tuple(
    os.path.abspath(path) + os.sep for path in {sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")} if path
)
_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep


def is_users(filename):
    """Code of the user: not of the library, not of an installed package, not of this package."""
    if filename.startswith("<frozen") or "site-packages" in filename or "dist-packages" in filename:
        return False
    full = os.path.abspath(filename)
    return not full.startswith(_LIBRARIES) and not full.startswith(_OWN) and os.sep + "penstock" + os.sep not in full


def package_of(module):
    return (module or "").split(".")[0]


def kind_of_module(module, call=""):
    """Returns decode, augment, read, serialize, lock, step or "" for the module of a running function."""
    module = module or ""
    head = package_of(module)
    two = ".".join(module.split(".")[:2])
    if "dataset_ops" in module or "iterator_ops" in module or head == "penstock":  # tf.data and the engine work in other threads
        return "lock"
    if call in DECODING_CALLS or two in DECODE or head in DECODE and two not in AUGMENT:
        return "decode"
    if call in READING_CALLS and head in ("numpy", "builtins", "io", "pandas"):
        return "read"
    if call in CONVERTING_CALLS and head in ("torch", "numpy", "tensorflow"):
        return "convert"
    if module.startswith(("torch.utils", "torch._utils")):  # loading and collating
        return "library"
    for kind, names in (("augment", AUGMENT), ("read", READ), ("serialize", SERIALIZE), ("lock", LOCK), ("step", STEP)):
        if two in names or head in names:
            return kind
    return ""


class Sample:
    """One look at a stack: the innermost function of the user, the kind of work, and a name for it."""

    __slots__ = ("kind", "where", "generator", "packages", "users")

    def __init__(self, frame):
        if frame.f_code.co_filename.startswith(_OWN):  # the measuring loop itself
            raise LookupError
        self.packages = set()
        self.generator = False
        users = None
        leaf, at = frame, frame
        while at is not None:
            if at.f_code.co_filename.startswith("<frozen importlib"):  # imports are not training
                raise LookupError
            self.packages.add(package_of(at.f_globals.get("__name__")))
            if is_users(at.f_code.co_filename):
                users = users or at
                self.generator = self.generator or bool(at.f_code.co_flags & 0x20)
            at = at.f_back
        self.users = users is not None
        self.kind, name = _work(leaf, users)
        self.where = _where(users, leaf, name)

    def works(self):
        """Whether the thread runs code of the user, or passes what such code made between processes."""
        return self.users or self.kind == "serialize"


def _where(users, leaf, name):
    """The innermost function of the user and what it calls. Where that is the script itself, which only asks for the next batch, the library's function."""
    if users is not None and users is not leaf and users.f_code.co_name == "<module>" and name:
        return name
    return _place(users or leaf) + (f" calls {name}" if name else "")


def _place(frame):
    code = frame.f_code
    name = getattr(code, "co_qualname", code.co_name)
    if AUTOGRAPH_FILE in code.co_filename:
        own = [part for part in name.split(".<locals>.") if not part.endswith(("_factory", "_body")) and part not in ("get_state", "set_state")]
        return f"{own[-1].removeprefix('tf__') if own else name} (as TensorFlow rewrote it)"
    return f"{name} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"


def _work(leaf, users):
    """Returns the kind of work and the name of the C or library function."""
    inside = users is not leaf
    passing = _passing(leaf, users)
    if passing:
        return "serialize", passing
    if inside:  # a library's Python code runs
        module = leaf.f_globals.get("__name__", "")
        if module.startswith(AUTOGRAPH):
            return "python", ""
        return kind_of_module(module, leaf.f_code.co_name) or "library", f"{module}.{leaf.f_code.co_name}"
    call = _call_text(leaf)
    if call is None:
        return "python", ""
    module, name = _resolve(leaf, call)
    kind = kind_of_module(module, name.split(".")[-1])
    if package_of(module) == "time" and name.endswith("sleep"):
        return "python", name
    if kind == "lock" and (name.endswith(".acquire") or _opcode(leaf.f_code, leaf.f_lasti) in _ENTERING):
        return "contend", name
    return (kind or "python"), (name if kind and _is_called(leaf, call, name) else "")


def _is_called(leaf, text, name):
    """Whether the text calls what it names: `a * a + 1` only computes with it."""
    return text.partition(name)[2].lstrip().startswith("(") or _opcode(leaf.f_code, leaf.f_lasti) in _ENTERING


HEADER = 8  # bytes before a message of multiprocessing, which say how long it is: reading them is waiting for the message


def _passing(frame, users):
    """The name of the function of multiprocessing that pickles, unpickles or reads a message which has arrived; "" if none does."""
    while frame is not None and frame is not users:
        module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        if package_of(module) == "multiprocessing":
            if name == "_recv" and frame.f_locals.get("size", 0) > HEADER:
                return f"{module}.{name}"
            if name in ("dumps", "dump") or "ForkingPickler" in (_call_text(frame) or ""):
                return f"{module}.{name}"
        frame = frame.f_back
    return ""


_CALLS = {"CALL", "CALL_FUNCTION_EX", "PRECALL", "CALL_KW", "BEFORE_WITH", "LOAD_SPECIAL", "BINARY_OP", "BINARY_SUBSCR", "STORE_SUBSCR"}
_ENTERING = {"BEFORE_WITH", "LOAD_SPECIAL"}  # of a with statement, by the version of Python
_opcodes = {}


def _opcode(code, at):
    table = _opcodes.get(code)
    if table is None:
        table = _opcodes[code] = {i.offset: i.opname for i in dis.get_instructions(code)}
    return table.get(at, "")


def _call_text(frame):
    """Returns the source text of the call that the frame stands on; None if it stands on another instruction."""
    name = _opcode(frame.f_code, frame.f_lasti)
    if name not in _CALLS:
        return None
    try:
        line, end, start, stop = list(frame.f_code.co_positions())[frame.f_lasti // 2]
        text = linecache.getline(frame.f_code.co_filename, line)
    except (IndexError, AttributeError):
        return ""
    if line != end or start is None:
        return text[start or 0 :]
    return text.encode()[start:stop].decode(errors="replace")


def _resolve(frame, text):
    """Returns the module and the name of what a text such as `np.linalg.svd(x)` calls or operates on."""
    found = re.match(r"\s*(?:with\s+)?([A-Za-z_][\w.]*)", text)
    if not found:
        return "", ""
    names = found[1].split(".")
    value = frame.f_locals.get(names[0], frame.f_globals.get(names[0]))
    if value is None:
        import builtins

        value = getattr(builtins, names[0], None)
    last = value
    for name in names[1:]:
        last = value if isinstance(value, types.ModuleType) else last
        value = _attribute(value, name)
    module = _module_of(value)
    if module == "builtins" and isinstance(last, types.ModuleType):  # functions such as OpenCV's do not say where they belong
        module = last.__name__
    return module, found[1]


def _attribute(value, name):
    """The attribute without running code of the program: properties and __getattr__ are not called; `value` itself where there is none."""
    try:
        found = inspect.getattr_static(value, name, value)
    except Exception:  # objects that cannot be looked at so
        return value
    if isinstance(found, (staticmethod, classmethod)):
        return found.__func__
    return value if hasattr(type(found), "__set__") else found  # a property: only its owner is known


def _module_of(value):
    """Where a function, a class, a module or the class of another object comes from."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    owner = getattr(value, "__objclass__", None) if isinstance(value, types.MethodDescriptorType) else None
    if isinstance(value, types.BuiltinFunctionType) and not value.__module__:
        owner = value.__self__
    if owner is not None:
        return owner.__name__ if isinstance(owner, types.ModuleType) else (owner if isinstance(owner, type) else type(owner)).__module__
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)) and isinstance(value.__module__, str):
        return value.__module__
    found = _attribute(value, "__module__")
    return found if isinstance(found, str) and type(value).__module__ not in ("numpy", "torch") else type(value).__module__


class Native:
    """A look that found no Python function of the loader running: its work is in C or C++."""

    kind, where, generator, packages = "native", "native code", False, frozenset()


class Sampler:
    """Looks at the thread that created it, or at all threads, from another thread, between start() and stop()."""

    def __init__(self, thread=None, most=20000, every_thread=False):
        self.thread, self.every_thread = thread or threading.get_ident(), every_thread
        self.samples, self.most = [], most
        self._stop = threading.Event()
        self._runner = None

    def start(self):
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH)
        self._runner = threading.Thread(target=self._look, name="penstock-doctor", daemon=True)
        self._runner.start()
        return self

    def stop(self):
        self._stop.set()
        if self._runner is not None:
            self._runner.join()
            self._runner = None
            sys.setswitchinterval(self._interval)
        return self

    def __enter__(self):
        return self.start()

    def __exit__(self, *failure):
        self.stop()

    def _look(self):
        while not self._stop.wait(EVERY):
            frames = sys._current_frames()
            chosen = list(frames.values()) if self.every_thread else [frames[self.thread]] if self.thread in frames else []
            found = [sample for sample in map(_sample, chosen) if sample is not None]
            if self.every_thread:
                found = [sample for sample in found if sample.kind != "lock"] or [Native()]
            elif found and found[0].kind == "lock":  # it waits for other threads: those of a pool, or of the loader
                others = (_sample(frame) for thread, frame in frames.items() if thread != self.thread)
                found = [sample for sample in others if sample is not None and sample.kind != "lock" and sample.works()] or found
            if len(self.samples) < self.most:
                self.samples += found
            del frames, chosen


def _sample(frame):
    try:
        return Sample(frame)
    except Exception:  # our own frame, an import, or a frame that changes under our eyes
        return None


def summary(samples, most=8):
    """Returns shares by kind, and the most frequent places as [{"where", "share", "kind"}]."""
    if not samples:
        return {}, []
    kinds = collections.Counter(sample.kind for sample in samples)
    places = collections.Counter((sample.where, sample.kind) for sample in samples)
    n = len(samples)
    return (
        {kind: count / n for kind, count in kinds.items()},
        [{"where": where, "share": count / n, "kind": kind} for (where, kind), count in places.most_common(most)],
    )


def processes():
    """The processes that multiprocessing has started and that are alive."""
    package = sys.modules.get("multiprocessing")
    return [process.pid for process in package.active_children()] if hasattr(package, "active_children") else []


def workers(pids, looks=10):
    """Stacks of other processes by py-spy, as a list of places; empty where py-spy is missing or not allowed to look."""
    program = shutil.which("py-spy")
    if not program:
        return []
    places = collections.Counter()
    for _ in range(looks):
        for pid in pids:
            try:
                done = subprocess.run([program, "dump", "--json", "--pid", str(pid)], capture_output=True, timeout=5)
                threads = json.loads(done.stdout)
            except (OSError, ValueError, subprocess.TimeoutExpired):
                continue
            for thread in threads:
                frames = [f for f in thread.get("frames", ()) if is_users(f.get("filename", "<frozen"))]
                if thread.get("active", True) and frames:
                    places[f"{frames[0]['name']} ({os.path.basename(frames[0]['filename'])}:{frames[0]['line']})"] += 1
        time.sleep(0.02)
    total = sum(places.values())
    return [{"where": where, "share": count / total, "kind": "worker"} for where, count in places.most_common(8)]
