"""Graphics processors: those that NVIDIA's management library finds, and those that the framework uses."""

import ctypes
import sys
import threading

LIBRARY = "libnvidia-ml.so.1"
EVERY = 0.1  # seconds between two looks at the utilisation, which the driver averages over a sixth of a second and more


class Library:
    """NVML between open and close()."""

    def __init__(self, nvml):
        self.nvml = nvml

    @classmethod
    def open(cls):
        """None: the library is missing, or does not start."""
        try:
            nvml = ctypes.CDLL(LIBRARY)
            return cls(nvml) if nvml.nvmlInit_v2() == 0 else None
        except (OSError, AttributeError):
            return None

    def devices(self):
        """Returns [{"name", "utilisation_share", "memory_bytes"}]; empty if there is none."""
        count = ctypes.c_uint()
        try:
            if self.nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
                return []
            return [found for found in (_device(self.nvml, i) for i in range(count.value)) if found]
        except AttributeError:
            return []

    def close(self):
        self.nvml.nvmlShutdown()


def devices():
    """Returns [{"name", "utilisation_share", "memory_bytes"}] from NVML; empty if the library or a device is missing."""
    library = Library.open()
    if library is None:
        return []
    try:
        return library.devices()
    finally:
        library.close()


class Watch:
    """Looks at the utilisation of the devices from a thread, between start() and stop(): while steps run, not before or after."""

    def __init__(self):
        self.sums, self.counts = [], []  # of the shares that each device showed
        self._before = []  # from before the steps
        self._stop = threading.Event()
        self._runner = self._library = None

    def start(self):
        if self._runner is not None:
            return self
        self._library = Library.open()
        first = self._library.devices() if self._library is not None else []
        if first:
            self._before = [device.get("utilisation_share") for device in first]
            self._runner = threading.Thread(target=self._look, name="penstock-doctor-gpu", daemon=True)
            self._runner.start()
        else:
            self._close()
        return self

    def stop(self):
        self._stop.set()
        if self._runner is not None:
            self._runner.join()
            self._runner = None
        self._stop.clear()
        self._close()
        return self

    def _close(self):
        if self._library is not None:
            self._library.close()
            self._library = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *failure):
        self.stop()

    def _look(self):
        while not self._stop.wait(EVERY):
            self._add([device.get("utilisation_share") for device in self._library.devices()])

    def _add(self, shares):
        missing = len(shares) - len(self.sums)
        self.sums += [0.0] * missing
        self.counts += [0] * missing
        for i, share in enumerate(shares):
            if share is not None:
                self.sums[i] += share
                self.counts[i] += 1

    def shares(self):
        """The mean utilisation of each device; empty if nothing was seen."""
        if not self.counts:
            return list(self._before)
        return [total / count if count else None for total, count in zip(self.sums, self.counts)]


class _Utilisation(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def _device(nvml, index):
    handle, name = ctypes.c_void_p(), ctypes.create_string_buffer(96)
    if nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)) != 0:
        return None
    found = {"name": f"device {index}"}
    if nvml.nvmlDeviceGetName(handle, name, ctypes.c_uint(len(name))) == 0:
        found["name"] = name.value.decode(errors="replace")
    use, memory = _Utilisation(), _Memory()
    if nvml.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(use)) == 0:
        found["utilisation_share"] = use.gpu / 100
    if nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == 0:
        found["memory_bytes"] = memory.total
    return found


def frameworks():
    """Asks every imported framework for its devices: {"torch": 1, "tensorflow": 0}. Frameworks that are not imported stay so."""
    found = {}
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "cuda"):
        found["torch"] = _count(lambda: torch.cuda.device_count() if torch.cuda.is_available() else 0)
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None and hasattr(tensorflow, "config"):
        found["tensorflow"] = _count(lambda: len(tensorflow.config.list_physical_devices("GPU")))
    jax = sys.modules.get("jax")
    if jax is not None and hasattr(jax, "devices"):
        found["jax"] = _count(lambda: sum(device.platform == "gpu" for device in jax.devices()))
    return found


def _count(ask):
    try:
        return int(ask())
    except Exception:  # a framework that is half set up uses no device
        return 0


def used(names):
    """Whether a framework holds memory on a device; None if it cannot be told."""
    torch = sys.modules.get("torch")
    if names.get("torch") and torch is not None:
        return torch.cuda.memory_allocated() > 0
    return None


def look(watched=None):
    """Returns {"devices", "frameworks", "unused", "count"}: unused is True if there is a device that no imported framework uses. The
    utilisation is that of `watched` (a Watch), if it saw the devices."""
    there, names = devices(), frameworks()
    for device, share in zip(there, watched.shares() if watched is not None else ()):
        if share is not None:
            device["utilisation_share"] = share
    unused = bool(there) and bool(names) and not any(names.values())
    if not unused and used(names) is False:
        unused = True
    return {"devices": there, "frameworks": names, "unused": unused, "count": max(len(there), *names.values()) if names else len(there)}
