"""Ends of `penstock pack` that nobody planned: kill -9, Ctrl-C, termination, at many moments.

The promise: each shard is whole or absent, and the same command afterwards ends with the bytes of an uninterrupted run. The
moments are random with a fixed seed, spread over the time that an uninterrupted run takes here; a run that was over before its
signal came makes the following ones come earlier, since the speed of a shared machine changes.
"""
import os
import random
import signal
import subprocess
import time

import tap
from patience import HANG
from tool import PENSTOCK, environment, penstock, scratch, tree

KILLS = 24


class Case:
    """A source, the command, and what it makes when nobody disturbs it."""

    def __init__(self, folder):
        self.folder, self.out = folder, f"{folder}/out"
        penstock("generate", f"{folder}/in", "--images", 300, "--size", 96, "--classes", 3, "-q")
        self.arguments = ["pack", f"{folder}/in", self.out, "--workers", "2", "--shards", "6", "--resize", "48", "--shuffle", "1",
                          "--split", "train=0.8,val=0.2"]
        started = time.monotonic()
        penstock(*self.arguments)
        self.duration = time.monotonic() - started
        self.want = tree(self.out)
        self.clear()

    def clear(self):
        subprocess.run(["rm", "-rf", self.out], check=True)

    def end_after(self, delay, *signals):
        """Starts, waits, sends the signals; returns the exit code and what was said."""
        child = subprocess.Popen([PENSTOCK, *self.arguments], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True)
        time.sleep(delay)
        for number in signals:
            child.send_signal(number)
        _, err = child.communicate(timeout=HANG)
        if child.returncode == 0:
            self.duration *= 0.85
        return child.returncode, err

    def check_shards(self):
        """What has its final name is whole."""
        for path, digest in tree(self.out).items() if os.path.exists(self.out) else ():
            name = os.path.basename(path)
            if b".tfrecord-" in name and not name.startswith(b"."):
                assert digest == self.want[path], f"{path} is not whole"

    def check_rerun(self):
        penstock(*self.arguments)
        found = tree(self.out)
        assert found == self.want, f"differs: {sorted(set(found.items()) ^ set(self.want.items()))}"


def test_killed_once_then_rerun():
    with scratch() as folder:
        case, moments, ended = Case(folder), random.Random(3), 0
        for _ in range(4 * KILLS):
            code, _ = case.end_after(moments.uniform(0, case.duration), signal.SIGKILL)
            ended += code == -signal.SIGKILL
            case.check_shards()
            case.check_rerun()
            case.clear()
            if ended == KILLS:
                break
        assert ended == KILLS, f"only {ended} kills came in time"


def test_killed_again_and_again_then_rerun():
    with scratch() as folder:
        case, moments = Case(folder), random.Random(4)
        for _ in range(KILLS):
            case.end_after(moments.uniform(0, case.duration / 2), signal.SIGKILL)
            case.check_shards()
        case.check_rerun()


def test_interrupted_then_rerun():
    with scratch() as folder:
        case, moments, ended = Case(folder), random.Random(5), 0
        for _ in range(2 * KILLS):
            code, err = case.end_after(moments.uniform(0, case.duration), signal.SIGINT)
            assert code in (0, 130, -signal.SIGINT), (code, err) # the last: before the handler was there
            if code == 130:
                ended += 1
                assert "penstock: interrupted\n  try: run the same command again" in err, err
                left = [path for path in (tree(case.out) if os.path.exists(case.out) else {}) if b".tmp" in path]
                assert not left, f"an interruption cleans up, but left {left}"
            case.check_shards()
            case.check_rerun()
            case.clear()
            if ended == KILLS // 2:
                break
        assert ended > 2, f"only {ended} interruptions came in time"


def test_terminated():
    with scratch() as folder:
        case = Case(folder)
        code, err = case.end_after(case.duration / 2, signal.SIGTERM)
        assert code in (0, 143), (code, err)
        case.check_shards()
        case.check_rerun()


def test_second_interrupt_ends_at_once():
    with scratch() as folder:
        case = Case(folder)
        child = subprocess.Popen([PENSTOCK, *case.arguments], env=environment(), stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        time.sleep(case.duration / 2)
        started = time.monotonic()
        while child.poll() is None and time.monotonic() - started < HANG:
            child.send_signal(signal.SIGINT)
            time.sleep(0.002)
        assert child.wait() in (0, 130, -signal.SIGINT), child.returncode
        case.check_shards()
        case.check_rerun()


tap.main(globals())
