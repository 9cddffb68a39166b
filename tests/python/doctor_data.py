"""What the tests of penstock.doctor share: plain loaders, steps, the JSON contract, a stand-in for NVIDIA's library."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
import time

import tap
from data import scratch
from patience import HANG

CAUSES = {
    "many-small-files", "compressed-stream", "slow-format", "early-floats", "slow-storage", "page-cache", "large-images", "single-worker", "worker-limit", "shuffle-after-decode", "late-filter",
    "shuffle-buffer", "tiny-batch", "no-prefetch", "ram-limit", "python-function", "heavy-augmentation", "unused-fields", "lock-contention",
    "serialization", "transfer", "gpu-unused", "large-batch", "heavy-model", "consumer", "none",
}
IDS = {
    "pack", "reshard", "resize-offline", "store-planes", "entropy-index", "cache-ram", "cache-disk", "more-workers", "larger-batch", "prefetch", "reorder",
    "quality-fast", "offline-augment", "native-op", "processes", "select-fields", "faster-storage", "more-machines", "faster-step", "pin-memory",
    "device-prefetch", "bytes-to-device", "smaller-batch", "mixed-precision", "separable-convolutions", "smaller-model", "compress",
}


def slow(value):
    total = 0
    for k in range(20000):
        total += k * value
    return total


class Loader:
    """Batches of 8 by a function, `count` of them."""

    def __init__(self, function, count=200):
        self.function, self.count = function, count

    def __iter__(self):
        for i in range(self.count):
            yield [self.function(i) for _ in range(8)]

    def __len__(self):
        return self.count


def pause(milliseconds):
    return lambda batch: time.sleep(milliseconds / 1e3)


def check(answer):
    """The JSON contract."""
    values = answer.to_dict()
    assert values["schema"] == 1 and values["verdict"]["class"] in ("input-bound", "balanced", "consumer-bound", "unknown")
    assert values["verdict"]["cause"] in CAUSES, values["verdict"]
    assert values["verdict"]["sentence"] and {"samples_per_s", "low", "high", "epoch_seconds", "total_seconds"} <= set(values["now"])
    assert "limit_step_ms" in values["verdict"], values["verdict"]
    assert {"ms", "wait_ms", "transfer_ms", "compute_ms", "layers"} <= set(values["step"])
    for remedy in values["remedies"]:
        assert remedy["id"] in IDS and {"title", "command", "pipeline", "predicted", "measured", "price", "effort"} <= set(remedy), remedy
        assert {"disk_bytes", "ram_bytes", "seconds"} <= set(remedy["price"])
    assert json.loads(json.dumps(values)) == values
    assert "</html>" in answer.html() and str(answer).startswith(values["verdict"]["sentence"])
    return values


NVML = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { *h = (void *)(unsigned long)(i + 1); return 0; }
int nvmlDeviceGetName(void *h, char *name, unsigned n) { strncpy(name, "Stand-in GPU", n); return 0; }
int nvmlDeviceGetUtilizationRates(void *h, unsigned *u) { u[0] = getenv("BUSY") && access(getenv("BUSY"), F_OK) == 0 ? 80 : 37; u[1] = 11; return 0; }
int nvmlDeviceGetMemoryInfo(void *h, unsigned long long *m) { m[0] = 1ull << 34; m[1] = m[2] = 1ull << 33; return 0; }
"""


def beside_a_gpu(code, **variables):
    """Runs Python code in a process that finds two stand-ins for GPUs. Their utilisation is 80 % while the file BUSY exists, else 37 %."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if not compiler:
        raise tap.Skip("there is no C compiler here")
    with scratch() as folder:
        source = os.path.join(folder, "nvml.c")
        with open(source, "w", encoding="utf-8") as f:
            f.write(NVML)
        subprocess.run([compiler, "-shared", "-fPIC", "-w", source, "-o", os.path.join(folder, "libnvidia-ml.so.1")], check=True)
        in_a_process(code, LD_LIBRARY_PATH=folder, BUSY=os.path.join(folder, "busy"), **variables)


def in_a_process(code, **variables):
    """Runs Python code in a process of its own, which must end well."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=HANG, env={**os.environ, **variables})
    assert done.returncode == 0, done.stderr



def run_script(text, *options, env=None):
    with scratch() as folder:
        script, out = os.path.join(folder, "train.py"), os.path.join(folder, "answer.json")
        with open(script, "w", encoding="utf-8") as f:
            f.write(textwrap.dedent(text))
        done = subprocess.run([sys.executable, "-m", "penstock.doctor", "--json", out, *options, script, "a", "--b"], capture_output=True, text=True,
                              timeout=HANG, env={**os.environ, **(env or {})})
        values = json.load(open(out, encoding="utf-8")) if os.path.exists(out) else None
        return done, values
