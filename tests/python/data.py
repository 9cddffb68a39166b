"""What the tests of the Python module share: a scratch folder, small image sets, a child process that must end by itself."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile

import tap
from patience import HANG


@contextlib.contextmanager
def scratch():
    folder = tempfile.mkdtemp(prefix="penstock-python-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def images(folder, count=40, classes=4, size=32):
    """Class folders of drawn images; returns their path."""
    path = os.path.join(folder, "images")
    tool = [os.environ["PENSTOCK"], "generate", path, "--images", str(count), "--classes", str(classes), "--size", str(size)]
    subprocess.run(tool, check=True, capture_output=True)
    return path


def child(code, *arguments, timeout=HANG, **options):
    """Runs Python code in a process of its own; one that hangs fails."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, **options
    )
    return done


@contextlib.contextmanager
def raises(kind, *words):
    """The block must raise `kind` with these words in its text."""
    try:
        yield
    except kind as error:
        for word in words:
            assert word in str(error), f"{word!r} is not in {error}"
        return
    raise AssertionError(f"no {kind.__name__}")


__all__ = ["child", "images", "raises", "scratch", "tap"]
