"""Scalars that `penstock top` writes, read by TensorBoard's own reader."""
import os
import signal
import subprocess
import tempfile
import time

from tensorboard.backend.event_processing import event_accumulator

import tap

PENSTOCK = os.environ["PENSTOCK"]


def test_scalars_of_a_running_pipeline():
    with tempfile.TemporaryDirectory() as base:
        folder, logs = os.path.join(base, "run"), os.path.join(base, "logs")
        run = subprocess.Popen([PENSTOCK, "bench", "range 100000000 | batch 64", "--seconds", "60", "--quiet"], stdout=subprocess.DEVNULL,
                               env={**os.environ, "PENSTOCK_MONITOR": folder})
        try:
            end = time.monotonic() + 20
            while not (os.path.isdir(folder) and os.listdir(folder)) and time.monotonic() < end:
                time.sleep(0.05)
            top = subprocess.Popen([PENSTOCK, "top", "--json", "--interval", "0.3", "--folder", folder, "--tensorboard", logs], stdout=subprocess.PIPE)
            for _ in range(3):
                top.stdout.readline()
            top.send_signal(signal.SIGINT)
            top.communicate(timeout=20)
        finally:
            run.send_signal(signal.SIGINT)
            run.wait(timeout=20)
        found = event_accumulator.EventAccumulator(logs).Reload()
        tags = found.Tags()
        for name in ("samples_per_s", "wait_share", "busy_share", "ready"):
            tag = f"{name}/{run.pid}-rank0"
            assert tag in tags["scalars"] or tag in tags["tensors"], (tag, tags)
            values = found.Scalars(tag) if tag in tags["scalars"] else found.Tensors(tag)
            assert len(values) >= 3 and values[0].step < values[-1].step, values


tap.main(globals())
