"""The penstock tool as the interop tests call it, and a scratch folder for each."""
import contextlib
import json
import os
import shutil
import subprocess
import tempfile


def penstock(*arguments, status=0):
    """Runs the tool; returns its standard output. Any other exit status is a failure that shows everything."""
    done = subprocess.run([os.environ["PENSTOCK"], *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == status, f"{arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def report(*arguments, status=0):
    return json.loads(penstock(*arguments, "--json", status=status))


@contextlib.contextmanager
def scratch():
    folder = tempfile.mkdtemp(prefix="penstock-interop-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
