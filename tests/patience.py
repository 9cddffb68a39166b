"""Waiting in tests: for a condition, never for a fixed time. Machines differ in speed and have other work to do, so the only limit is
HANG, which only a hanging program reaches."""
import functools
import os
import time

HANG = int(os.environ.get("PENSTOCK_HANG", "300"))  # seconds; a machine that suspends its processes needs more

PATIENCE = float(os.environ.get("PENSTOCK_PATIENCE", "1"))  # `make doctor-setups` has more


def wait_until(condition, what, process=None):
    """Waits until condition() is true and returns its value; `process` (a Popen) must not end before."""
    end = time.monotonic() + HANG
    while True:
        ended = process is not None and process.poll() is not None
        value = condition()
        if value:
            return value
        assert not ended, f"ended with {process.returncode} before this: {what}"
        assert time.monotonic() < end, f"waited {HANG} s in vain: {what}"
        time.sleep(0.005)


def examined(test):
    """For tests whose verdict rests on measured speed: calls test(1), and where that fails test(4), then test(16), all times PATIENCE: the factor is for
    the time that the measurement gets. Other programs may take the processor in the middle of one; a wrong answer repeats itself."""

    @functools.wraps(test)
    def run():
        for patience in (1, 4):
            try:
                return test(patience * PATIENCE)
            except Exception as error:
                print(f"# {test.__name__}, examination {patience}: {type(error).__name__} {error}"[:2000].replace("\n", " "), flush=True)
        return test(16 * PATIENCE)

    return run


def has_open(pid, path):
    """Whether the process has this file open."""
    folder = f"/proc/{pid}/fd"
    try:
        return any(os.path.samefile(os.path.join(folder, name), path) for name in os.listdir(folder))
    except OSError:  # a descriptor was closed meanwhile, or the process has ended
        return False


def is_asleep(pid):
    """Whether every thread of the process waits for something."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        states = [open(f"/proc/{pid}/task/{task}/stat").read().rsplit(")", 1)[1].split()[0] for task in tasks]
    except (OSError, IndexError):  # a thread that ends meanwhile
        return False
    return bool(states) and set(states) == {"S"}


def catches(pid, number):
    """Whether the process has a handler for the signal."""
    try:
        with open(f"/proc/{pid}/status") as f:
            mask = next(line for line in f if line.startswith("SigCgt")).split()[1]
    except (OSError, StopIteration):
        return False
    return bool(int(mask, 16) >> (number - 1) & 1)


def cpu_seconds(pid):
    """Seconds of the processor that the process has used; 0 after its end."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until_asleep(process, what, looks=10):
    """Waits until every thread of the process waits, at as many looks in a row."""
    row = 0

    def settled():
        nonlocal row
        row = row + 1 if is_asleep(process.pid) else 0
        return row >= looks

    wait_until(settled, what, process)


def resident():
    """Bytes of memory of this process."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def memory_settles(run, limit):
    """Calls run() until it takes less than `limit` more bytes of memory. Allocators and thread pools need longer to warm up on some machines; a
    leak shows every time."""
    growth = []
    for _ in range(5):
        before = resident()
        run()
        growth.append(resident() - before)
        if growth[-1] < limit:
            return
    raise AssertionError(f"{[more >> 10 for more in growth]} KiB more each time")
