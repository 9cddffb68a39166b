"""Copies of batches to a device: how long the calls that make them take, how many bytes they move, and what would make them faster.

The calls are instrumented while a loop is watched: Tensor.to and Tensor.cuda of torch, device_put of jax. A copy that the program lets
run beside its work (non_blocking) counts with the time of its call only. Copies made by other threads than the watched one run
beside the step and do not count.
"""

import functools
import math
import sys
import threading
import time

VALUES = 256  # of a byte
DEFAULT = "default"  # the device of jax that is used where none is named
LEAST = 0.05  # share of a step: below it, copies are not worth a remedy


class Copies:
    """Counts copies from the host to a device, between start() and stop(), of the thread that started it."""

    def __init__(self, thread=None):
        self.seconds, self.bytes, self.count = 0.0, 0, 0
        self.device = None  # where the last one went, as the program named it
        self.beside = 0  # copies that were asked to run beside the work of the program
        self.thread = thread or threading.get_ident()
        self._hooks = []
        self._busy = False

    def start(self):
        torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
        tensor = getattr(torch, "Tensor", None)
        if tensor is not None:
            self._hook(tensor, "to", _torch_device)
            self._hook(tensor, "cuda", lambda tensor, *args, **given: args[0] if args else given.get("device") or "cuda")
        if jax is not None:
            self._hook(jax, "device_put", _jax_device)
        return self

    def stop(self):
        for owner, name, inherited, original in reversed(self._hooks):
            if inherited:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
        self._hooks = []
        return self

    def __enter__(self):
        return self.start()

    def __exit__(self, *failure):
        self.stop()

    def _hook(self, owner, name, target):
        original = getattr(owner, name, None)
        if original is None or hasattr(original, "_penstock_copies"):
            return

        @functools.wraps(original)
        def call(value, *args, **given):
            if self._busy or threading.get_ident() != self.thread:
                return original(value, *args, **given)
            device = target(value, *args, **given) if _on_host(value) else None
            if device is None or _kind(device) == "cpu":
                return original(value, *args, **given)
            return self._timed(original, device, value, args, given)

        call._penstock_copies = self
        inherited = name not in vars(owner)
        try:
            setattr(owner, name, call)
        except (AttributeError, TypeError):  # another version of the framework: its copies are not seen
            return
        self._hooks.append((owner, name, inherited, original))

    def _timed(self, original, device, value, args, given):
        beside = bool(given.get("non_blocking"))
        if not beside:
            _finish_work()
        self._busy, begun = True, time.perf_counter()
        try:
            return original(value, *args, **given)
        finally:
            self.seconds += time.perf_counter() - begun
            self._busy = False
            self.bytes += bytes_of(value)
            self.count += 1
            self.beside += beside
            self.device = device


def _finish_work():
    """A copy that blocks waits for the kernels that were started before it: their time is not that of the copy."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and getattr(cuda, "is_initialized", lambda: False)():
        cuda.synchronize()


def _on_host(value):
    device = getattr(value, "device", None)
    return device is None or not (hasattr(device, "type") or hasattr(device, "platform")) or _kind(device) == "cpu"


def _kind(device):
    """cpu, cuda, …: of a device, its name, its number, or a sharding over devices."""
    device = next(iter(getattr(device, "device_set", ())), device)
    known = getattr(device, "type", None) or getattr(device, "platform", None)
    if device == DEFAULT:
        known = _quiet(lambda: sys.modules["jax"].default_backend())
    return str(known or ("cuda" if isinstance(device, int) else device)).split(":")[0]


def _jax_device(value, device=None, **given):
    return DEFAULT if device is None else device


def _quiet(ask):
    try:
        return ask()
    except Exception:  # a framework that is half set up has no device
        return None


def _torch_device(tensor, *args, **given):
    """The device that the arguments of Tensor.to name; None: they change only the type."""
    for value in (given.get("device"), *args[:1]):
        if isinstance(value, (str, int)) and not isinstance(value, bool) or type(value).__name__ == "device":
            return value
        if hasattr(value, "device") and hasattr(value, "dtype"):  # like another tensor
            return value.device
    return None


def bytes_of(value):
    """Bytes of an array of any framework."""
    if isinstance(getattr(value, "nbytes", None), int):
        return value.nbytes
    try:
        return value.numel() * value.element_size()
    except (AttributeError, TypeError):
        pass
    try:  # TensorFlow
        return math.prod(value.shape) * value.dtype.size
    except (AttributeError, TypeError):
        return 0


def moved(batch, device):
    """The batch with its arrays on the device."""
    if isinstance(batch, dict):
        return {name: moved(value, device) for name, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        made = [moved(value, device) for value in batch]
        return type(batch)(*made) if hasattr(batch, "_fields") else type(batch)(made)
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch is not None and isinstance(batch, getattr(torch, "Tensor", ())):
        return batch.to(device)
    if jax is not None and hasattr(batch, "dtype") and hasattr(jax, "device_put"):
        return jax.device_put(batch) if device == DEFAULT else jax.device_put(batch, device)
    return batch


def was_bytes(array):
    """Whether the first sample of an array of floats has at most as many values per channel as a byte: integers, scaled or not."""
    if "float" not in str(array.dtype) or len(array.shape) < 3:
        return False
    shape, sample = tuple(int(n) for n in array.shape[1:]), array[0]
    sample = sample.numpy() if hasattr(sample, "numpy") else sample
    channels = next((d for d in (0, len(shape) - 1) if len(shape) == 3 and shape[d] in (1, 3, 4)), None)
    flat, rows = _flat(sample.tolist()), 1
    for n in shape[1:]:
        rows *= n
    groups = [flat]
    if channels == 0:
        groups = [flat[k * rows : (k + 1) * rows] for k in range(shape[0])]
    elif channels is not None:
        groups = [flat[k :: shape[-1]] for k in range(shape[-1])]
    return len(flat) > VALUES and all(len(set(group)) <= VALUES for group in groups)


def _flat(values):
    if not isinstance(values, list):
        return [values]
    if values and not isinstance(values[0], list):
        return values
    return [number for item in values for number in _flat(item)]
