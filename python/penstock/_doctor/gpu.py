"""Graphics processors: those that NVIDIA's management library finds, and those that the framework uses."""

import ctypes
import sys

LIBRARY = "libnvidia-ml.so.1"


def devices():
    """Returns [{"name", "utilisation_share", "memory_bytes"}] from NVML; empty if the library or a device is missing."""
    try:
        nvml = ctypes.CDLL(LIBRARY)
        if nvml.nvmlInit_v2() != 0:
            return []
    except (OSError, AttributeError):
        return []
    try:
        count = ctypes.c_uint()
        if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
            return []
        return [found for found in (_device(nvml, i) for i in range(count.value)) if found]
    except AttributeError:
        return []
    finally:
        nvml.nvmlShutdown()


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


def look():
    """Returns {"devices", "frameworks", "unused"}: unused is True if there is a device that no imported framework uses."""
    there, names = devices(), frameworks()
    unused = bool(there) and bool(names) and not any(names.values())
    if not unused and used(names) is False:
        unused = True
    return {"devices": there, "frameworks": names, "unused": unused, "count": max(len(there), *names.values()) if names else len(there)}
