"""Ends processes that tests leave behind. Launchers of MPI start helpers in sessions of their own, which outlive a launcher that was killed and then take a whole
core; they are found by a variable that they inherit."""
import os
import signal
import time


def mark(name):
    """Sets the variable `name`, by which processes that are started from now on are found."""
    os.environ[name] = f"{os.getpid()}-{time.time_ns()}"


def marked(name):
    """Returns the processes that inherited the variable, this one excepted."""
    wanted, found = f"{name}={os.environ[name]}".encode(), []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            with open(f"/proc/{pid}/environ", "rb") as variables, open(f"/proc/{pid}/cmdline", "rb") as command:
                # Python's own tracker of resources ends by itself, after it has freed them.
                if pid != os.getpid() and wanted in variables.read().split(b"\0") and b"resource_tracker" not in command.read():
                    found.append(pid)
        except OSError:  # it has ended, or is another user's
            pass
    return found


def end(name):
    """Kills them until none is left; processes that are killed may have started others meanwhile."""
    for _ in range(100):
        left = marked(name)
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.01)
