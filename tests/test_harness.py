"""The harnesses of the tests: failures show in the exit code, and so does a name that no test has."""
import os
import subprocess
import sys
import tempfile
import textwrap

import tap

PROBE = sys.argv[1]
SCRIPT = """
    import tap
    def test_that_passes(): pass
    def test_that_fails(): assert False
    tap.main(globals())
"""


def run(*command, code):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TMPDIR": folder}, check=False)
        assert done.returncode == code, (command, done)
        assert os.listdir(folder) == [], f"{command}: left {os.listdir(folder)}"
    return done


def script(*names, code):
    return run(sys.executable, "-c", textwrap.dedent(SCRIPT), *names, code=code)


def test_c_failures_fail():
    done = run(PROBE, code=1)
    assert "ok 1 - one that passes\n" in done.stdout and "\nnot ok 2 - one that fails\n" in done.stdout, done.stdout
    assert "\nnot ok 3 - one that leaves\n1..3\n" in done.stdout and "not reached" not in done.stdout, done.stdout
    assert "1 + 1 is 2, expected 3" in done.stdout, done.stdout


def test_c_names_are_filtered():
    assert run(PROBE, "passes", code=0).stdout == "ok 1 - one that passes\n1..1\n"
    assert "1..2\n" in run(PROBE, "passes", "leaves", code=1).stdout


def test_c_wrong_names_fail():
    for names in (["pases"], ["passes", "pases"], ["pases", "passes"]):
        done = run(PROBE, *names, code=2)
        assert 'no test has "pases" in its name' in done.stderr and "  one that passes\n  one that fails\n" in done.stderr, done
        assert done.stdout == "", done


def test_python_failures_fail():
    done = script(code=1)
    assert "ok 1 - test_that_passes\n" in done.stdout and "not ok 2 - test_that_fails\n1..2\n" in done.stdout, done


LEAVES = """
    import subprocess, tap
    def test_that_leaves_a_process():
        sleeper = subprocess.Popen(["sleep", "1000"], start_new_session=True, stdout=subprocess.DEVNULL)
        print("left", sleeper.pid)
    tap.main(globals())
"""


def test_what_is_left_is_ended():
    done = run(sys.executable, "-c", textwrap.dedent(LEAVES), code=0)
    pid = int(done.stdout.split("left ")[1].split()[0])
    assert not os.path.exists(f"/proc/{pid}/exe") or b"sleep" not in open(f"/proc/{pid}/cmdline", "rb").read(), f"process {pid} is still there"


def test_python_wrong_names_fail():
    assert script("passes", code=0).stdout == "ok 1 - test_that_passes\n1..1\n"
    done = script("passes", "pases", code=2)
    assert 'no test has "pases" in its name' in done.stderr and "\n  test_that_passes\n" in done.stderr, done


del sys.argv[1:]
tap.main(globals())
