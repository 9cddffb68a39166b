"""Timing of a loop over batches: how long each batch was waited for, how long the step took, how many samples it had."""

import os
import resource
import time

MOST_POINTS = 200  # of a timeline


def size_of(batch, depth=0):
    """Returns the number of samples in a batch: the first dimension of its first array; 1 if there is none."""
    shape = getattr(batch, "shape", None)
    if shape is not None and len(shape) and shape[0] is not None:
        return int(shape[0])
    if hasattr(batch, "size") and isinstance(getattr(batch, "size"), int) and hasattr(batch, "items"):
        return batch.size  # penstock.Batch
    if depth < 4:
        if isinstance(batch, dict):
            batch = list(batch.values())
        if isinstance(batch, (list, tuple)) and batch:
            if isinstance(batch[0], (int, float, str, bytes)):
                return len(batch)
            return size_of(batch[0], depth + 1)
    return 1


def cpu_seconds():
    """CPU time of this process and of its finished children."""
    mine, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return mine.ru_utime + mine.ru_stime + children.ru_utime + children.ru_stime


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Observation:
    """Steps of a loop: waiting for a batch, copying it to a device, computing. The first batch of every pass is kept apart: it pays
    for the start of the loader."""

    def __init__(self):
        self.waits, self.transfers, self.computes, self.sizes, self.stamps = [], [], [], [], []
        self.epochs = []  # the number of the pass of each step
        self.epoch = -1
        self.starts = []  # waits for first batches
        self.cpu = 0.0
        self.begun = time.perf_counter()

    def add(self, wait, compute, size, first=False, transfer=0.0):
        if first:
            self.starts.append(wait)
            self.epoch += 1
            return
        self.waits.append(wait)
        self.transfers.append(transfer)
        self.computes.append(compute)
        self.epochs.append(max(0, self.epoch))
        self.sizes.append(size)
        self.stamps.append(time.perf_counter() - self.begun)

    def __len__(self):
        return len(self.waits)

    def steady(self):
        """The steps without the first tenth (at most ten), in which caches fill and functions are compiled."""
        skip = min(10, len(self) // 10)
        if len(self) - skip > 2:  # a step that compiles takes many times as long as the others
            middle = sorted(self.computes)[len(self) // 2]
            while skip < len(self) // 2 and self.computes[skip] > 5 * middle and self.computes[skip] > 0.05:
                skip += 1
        return range(skip, len(self))

    def spent(self, steps):
        """Seconds of these steps."""
        return sum(self.waits[i] + self.transfers[i] + self.computes[i] for i in steps)

    def seconds(self):
        return self.spent(self.steady())

    def waiting(self, i):
        """Seconds of waiting for each sample of step `i`."""
        return self.waits[i] / max(1, self.sizes[i])

    def of_epochs(self, chosen):
        """The steps of the passes whose numbers `chosen` accepts."""
        found = Observation()
        for i, epoch in enumerate(self.epochs):
            if chosen(epoch):
                found.epoch = epoch
                found.add(self.waits[i], self.computes[i], self.sizes[i], transfer=self.transfers[i])
                found.stamps[-1] = self.stamps[i]
        return found

    def seconds_each(self):
        """Mean seconds of a step, with its wait and its copies."""
        return self.seconds() / max(1, len(self.steady()))

    def samples(self):
        return sum(self.sizes[i] for i in self.steady())

    def rate(self):
        """Samples per second; 0 if nothing was seen."""
        seconds = self.seconds()
        return self.samples() / seconds if seconds > 0 else 0.0

    def bounds(self, parts=6):
        """Returns the range of the rate: the mean of several parts of the run, plus and minus two standard errors."""
        chosen = list(self.steady())
        if len(chosen) < 2 * parts:
            return self.rate(), self.rate()
        rates = []
        for k in range(parts):
            part = chosen[k * len(chosen) // parts : (k + 1) * len(chosen) // parts]
            spent = self.spent(part)
            rates.append(sum(self.sizes[i] for i in part) / spent if spent > 0 else 0.0)
        mean = sum(rates) / parts
        error = (sum((r - mean) ** 2 for r in rates) / (parts - 1) / parts) ** 0.5
        return max(0.0, self.rate() - 2 * error), self.rate() + 2 * error

    def wait_share(self):
        seconds = self.seconds()
        return sum(self.waits[i] for i in self.steady()) / seconds if seconds > 0 else 0.0

    def mean(self, values):
        chosen = list(self.steady())
        return sum(values[i] for i in chosen) / len(chosen) if chosen else 0.0

    def batch(self):
        """The usual number of samples in a batch."""
        return sorted(self.sizes)[len(self.sizes) // 2] if self.sizes else 1

    def timeline(self):
        chosen = list(range(len(self)))
        parts = min(MOST_POINTS, len(chosen))
        points = []
        for k in range(parts):
            part = chosen[k * len(chosen) // parts : (k + 1) * len(chosen) // parts]
            wait = sum(self.waits[i] for i in part)
            spent = self.spent(part)
            if part and spent > 0:
                points.append(
                    {"seconds": self.stamps[part[-1]], "samples_per_s": sum(self.sizes[i] for i in part) / spent, "wait_share": wait / spent}
                )
        return points


def run(passes, step, seconds, keep=None, least=3, patience=20, copies=None):
    """Iterates over `passes()` again and again for `seconds`, calls step(batch), and returns the Observation. `keep` is a list
    that receives the first batch. Where fewer than `least` steps were seen by then, it goes on up to `patience` times as long.
    `copies` (transfer.Copies) knows the time that copies to a device take."""
    seen = Observation()
    cpu, begun = cpu_seconds(), time.perf_counter()
    copied = (lambda: copies.seconds) if copies is not None else lambda: 0.0

    def over():
        spent = time.perf_counter() - begun
        return spent >= seconds and (len(seen) >= least or spent >= patience * seconds)

    while not over():
        first, any_batch = True, False
        before, moved = time.perf_counter(), copied()
        for batch in passes():
            any_batch = True
            ready, loading = time.perf_counter(), copied() - moved
            if keep is not None and not keep:
                keep.append(batch)
            if step is not None:
                step(batch)
            done, moving = time.perf_counter(), copied() - moved - loading
            seen.add(ready - before - loading, done - ready - moving, size_of(batch), first, loading + moving)
            first, before, moved = False, done, copied()
            if over():
                break
        if not any_batch:
            break
    seen.cpu = cpu_seconds() - cpu
    return seen


def run_step(step, batch, seconds, copies=None):
    """Calls step(batch) with the same batch again and again: the rate of the step alone."""
    def same():
        while True:
            yield batch

    return run(same, step, seconds, copies=copies)
