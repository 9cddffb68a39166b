"""Scalars that `penstock top` writes, read by TensorBoard's own reader."""
import json
import os
import signal
import subprocess
import tempfile

from tensorboard.backend.event_processing import event_accumulator

import tap
from patience import HANG, wait_until

PENSTOCK = os.environ["PENSTOCK"]


def test_scalars_of_a_running_pipeline():
    with tempfile.TemporaryDirectory() as base:
        folder, logs = os.path.join(base, "run"), os.path.join(base, "logs")
        run = subprocess.Popen([PENSTOCK, "bench", "range 100000000 | batch 64", "--seconds", "100000", "--quiet"], stdout=subprocess.DEVNULL,
                               env={**os.environ, "PENSTOCK_MONITOR": folder})
        try:
            wait_until(lambda: os.path.isdir(folder) and os.listdir(folder), "the pipeline opens its socket", run)
            top = subprocess.Popen([PENSTOCK, "top", "--json", "--interval", "0.3", "--folder", folder, "--tensorboard", logs], stdout=subprocess.PIPE)
            for _ in range(3):  # a busy pipeline may answer too late for a line
                while not json.loads(top.stdout.readline())["pipelines"]:
                    pass
            top.send_signal(signal.SIGINT)
            top.communicate(timeout=HANG)
        finally:
            run.send_signal(signal.SIGINT)
            run.wait(timeout=HANG)
        found = event_accumulator.EventAccumulator(logs).Reload()
        tags = found.Tags()
        for name in ("samples_per_s", "wait_share", "busy_share", "ready"):
            tag = f"{name}/{run.pid}-rank0"
            assert tag in tags["scalars"] or tag in tags["tensors"], (tag, tags)
            values = found.Scalars(tag) if tag in tags["scalars"] else found.Tensors(tag)
            assert len(values) >= 3 and values[0].step < values[-1].step, values


tap.main(globals())
