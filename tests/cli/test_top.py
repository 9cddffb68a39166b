"""`penstock top` and the socket that it reads; metrics for Prometheus; traces; scalars. Nothing of them for other users."""
import contextlib
import glob
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import urllib.request

import tap
from patience import HANG, wait_until
from tool import PENSTOCK, environment, penstock, report, scratch
from trace_events import check_trace

ENDLESS = "range 100000000 | batch 64"
VERDICTS = ("input-bound", "balanced", "consumer-bound")  # the words of the doctor


def sockets(folder):
    return sorted(glob.glob(os.path.join(folder, "*.sock")))


@contextlib.contextmanager
def running(folder, text=ENDLESS, *options, count=1, env=None):
    """A pipeline that runs with a monitor until the block ends."""
    env = environment(PENSTOCK_MONITOR=folder) if env is None else env
    process = subprocess.Popen([PENSTOCK, "bench", text, "--seconds", "100000", "--quiet", *options], env=env, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: len(sockets(folder)) >= count, "the pipeline opens its socket", process)
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=HANG)


def look(folder, *options, count=1):
    """The pipelines that `top` shows, once there are `count`, all of which have delivered something: a busy process may answer late."""
    def shown():
        found = json.loads(penstock("top", "--once", "--json", "--interval", "0.3", "--folder", folder, *options).out)["pipelines"]
        return [found] if len(found) == count and all(one["samples_per_s"] > 0 for one in found) else None

    return wait_until(shown, f"top shows {count} pipelines that run")[0]


def verdict_of(share):
    return VERDICTS[0] if share > 0.2 else VERDICTS[1] if share >= 0.05 else VERDICTS[2]


def test_one_pipeline():
    with scratch() as base:
        folder = os.path.join(base, "run")
        with running(folder, ENDLESS, "--simulate-step", "1") as process:
            one, = look(folder)
            assert one["pid"] == process.pid and one["rank"] == 0 and one["world"] == 1 and one["pipeline"].startswith("range ")
            assert one["samples_per_s"] > 0 and 0 <= one["wait_share"] <= 1 and one["verdict"] == verdict_of(one["wait_share"])
            assert [stage["name"] for stage in one["stages"]] == ["read", "batch"] and abs(sum(s["share"] for s in one["stages"]) - 1) < 1e-6
            wait_until(lambda: str(process.pid) in (words := penstock("top", "--once", "--interval", "0.2", "--folder", folder).out) and
                       "samples/s" in words and any(word in words for word in VERDICTS), "top shows the pipeline as text")
        assert sockets(folder) == []  # removed at the end
        assert look(folder, count=0) == []
        assert "PENSTOCK_MONITOR=1" in penstock("top", "--once", "--interval", "0.1", "--folder", folder).out


def test_ranks_side_by_side():
    with scratch() as base:
        folder = os.path.join(base, "run")
        with running(folder, ENDLESS, "--rank", "0", "--world", "2"), running(folder, ENDLESS, "--rank", "1", "--world", "2", count=2):
            found = look(folder, count=2)
            assert sorted(one["rank"] for one in found) == [0, 1] and {one["world"] for one in found} == {2}


def test_only_when_asked():
    with scratch() as base:
        for value in ({}, {"PENSTOCK_MONITOR": "0"}, {"PENSTOCK_MONITOR": ""}):
            penstock("bench", "range 1000 | batch 10", env={"XDG_RUNTIME_DIR": base, **value})
        assert os.listdir(base) == []
        folder = os.path.join(base, "penstock")
        with running(folder, ENDLESS, "--live", env=environment(XDG_RUNTIME_DIR=base)):
            assert len(sockets(folder)) == 1
        with running(folder, env=environment(XDG_RUNTIME_DIR=base, PENSTOCK_MONITOR="1")):
            assert len(sockets(folder)) == 1


def test_modes():
    with scratch() as base:
        folder = os.path.join(base, "run")
        with running(folder):
            path, = sockets(folder)
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600 and stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        os.chmod(folder, 0o777)
        done = penstock("bench", "range 100 | batch 10", env={"PENSTOCK_MONITOR": folder}, code=2)
        assert "chmod 700" in done.err, done.err


READ = """
import os, socket, sys
os.setgid(65534); os.setgroups([]); os.setuid(65534)
s = socket.socket(socket.AF_UNIX)
s.settimeout(300)
try:
    s.connect(sys.argv[1])
    data = b"".join(iter(lambda: s.recv(4096), b""))
    print("read", len(data))
except PermissionError:
    print("refused")
"""


def test_second_user():
    if os.geteuid() != 0:
        raise tap.Skip("only root can become another user")
    with scratch() as base:
        os.chmod(base, 0o755)
        folder = os.path.join(base, "run")
        with running(folder):
            path, = sockets(folder)

            def other():
                return subprocess.run([sys.executable, "-c", READ, path], capture_output=True, text=True, check=True).stdout.strip()

            assert other() == "refused"
            os.chmod(folder, 0o755)  # the socket's own mode
            assert other() == "refused"
            os.chmod(path, 0o666)  # and the check of who is at the other end
            assert other() == "read 0"
            look(folder)


def test_left_over_sockets():
    with scratch() as base:
        folder = os.path.join(base, "run")
        os.mkdir(folder, 0o700)
        ended = subprocess.Popen(["true"])
        ended.wait()
        path = os.path.join(folder, f"{ended.pid}-0.sock")
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(path)
        silent = os.path.join(folder, f"{os.getpid()}-0.sock")  # of a living process, but it does not answer
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(silent)
            s.listen(1)
            with running(folder, count=3):
                look(folder)
        assert not os.path.exists(path)


def connected(path):
    """A socket that is connected to the monitor, which may still be opening."""
    def connect():
        s = socket.socket(socket.AF_UNIX)
        try:
            s.connect(path)
            return s
        except ConnectionRefusedError:
            s.close()

    return wait_until(connect, f"{path} accepts connections")


def test_a_client_that_does_not_read():
    with scratch() as base:
        folder = os.path.join(base, "run")
        with running(folder):
            path, = sockets(folder)
            with connected(path) as s:
                look(folder)
                data = json.loads(b"".join(iter(lambda: s.recv(4096), b"")))
            assert data["schema"] == 1 and data["stages"][0]["name"] == "read"


@contextlib.contextmanager
def second_socket(folder, pid):
    """A further pipeline of the process: answers what the first one said."""
    first, = sockets(folder)
    with connected(first) as s:
        said = b"".join(iter(lambda: s.recv(4096), b""))
    path = os.path.join(folder, f"{pid}-7.sock")
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(4)

    def serve():
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                client.sendall(said)
                client.close()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        os.unlink(path)


def test_prometheus():
    with scratch() as base:
        folder = os.path.join(base, "run")
        with running(folder) as process, second_socket(folder, process.pid):
            server = subprocess.Popen([PENSTOCK, "top", "--prometheus", "0", "--folder", folder], stdout=subprocess.PIPE, text=True, env=environment())
            try:
                address = server.stdout.readline().strip()
                assert address.startswith("http://127.0.0.1:"), address
                text = wait_until(lambda: (found := urllib.request.urlopen(address, timeout=HANG).read().decode()).count("\npenstock_samples_total{") == 2 and
                                  found, "both pipelines are counted")
                assert f'penstock_samples_total{{pid="{process.pid}",rank="0",pipeline="7"}} ' in text and 'stage="read"' in text
                series = [line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#")]
                assert len(series) == len(set(series)) and sum("samples_total" in name for name in series) == 2, text
                port = int(address.split(":")[2].split("/")[0])
                for line in open("/proc/net/tcp"):  # listens on the loopback interface only
                    fields = line.split()
                    if fields[1].endswith(f":{port:04X}") and fields[3] == "0A":
                        assert fields[1].startswith("0100007F:"), line
            finally:
                server.send_signal(signal.SIGINT)
                assert server.wait(timeout=HANG) == 0


NVML = r"""
#include <string.h>
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { *h = (void *)&strlen; return i; }
int nvmlDeviceGetName(void *h, char *name, unsigned n) { strncpy(name, "Stand-in GPU", n); return 0; }
int nvmlDeviceGetUtilizationRates(void *h, unsigned *u) { u[0] = 37; u[1] = 11; return 0; }
"""


def test_gpus():
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if not compiler:
        raise tap.Skip("there is no C compiler here")
    with scratch() as base:
        source, folder = os.path.join(base, "nvml.c"), os.path.join(base, "run")
        with open(source, "w", encoding="utf-8") as f:
            f.write(NVML)
        subprocess.run([compiler, "-shared", "-fPIC", "-w", source, "-o", os.path.join(base, "libnvidia-ml.so.1")], check=True)
        path = os.pathsep.join(filter(None, (base, os.environ.get("LD_LIBRARY_PATH"))))
        found = penstock("top", "--once", "--json", "--interval", "0.1", "--folder", folder, env={"LD_LIBRARY_PATH": path})
        assert json.loads(found.out)["gpus"] == [{"name": "Stand-in GPU", "busy_share": 0.37}], found.out


# ---- Traces ----


def test_rules_of_traces():
    """What readers refuse or draw wrongly is found."""
    def event(**members):
        return {"ph": "X", "name": "read", "cat": "work", "pid": 1, "tid": 1, "ts": 0, "dur": 5, **members}

    wrong = [[event(ph="Z")], [event(ts=-1)], [event(dur=None)], [event(tid="1")], [{"ph": "X", "name": "read", "pid": 1, "tid": 1, "ts": 0}],
             [event(ph="C", args={"value": "many"})], [event(ph="C")], [event(ph="M", args={})], [event(ph="M", name="thread_name", args={"sort_index": 1})],
             [event(ph="b")], [event(ph="b", id="0x1")], [event(ph="e", id="0x1")], [event(), event(ts=3)]]
    with scratch() as base:
        path = os.path.join(base, "trace.json")
        for events in [[event(), event(ts=1, dur=2), event(ph="b", id="0x1"), event(ph="e", id="0x1", ts=9)], *wrong]:
            with open(path, "w", encoding="utf-8") as f:
                json.dump({"traceEvents": events}, f)
            try:
                check_trace(path)
            except AssertionError:
                assert events in wrong, events
            else:
                assert events not in wrong, events


def names(events, phase):
    return {event["name"] for event in events if event["ph"] == phase}


def test_trace_of_bench():
    with scratch() as base:
        path = os.path.join(base, "trace.json")
        report("bench", "range 6400 | shuffle | batch 64", "--workers", 2, "--epochs", 2, "--simulate-step", 1, "--trace", path)
        events = check_trace(path)
        assert {"slice", "read", "batch", "wait for a batch", "step"} <= names(events, "X"), names(events, "X")
        assert names(events, "b") == {"batch"} and sum(event["ph"] == "b" for event in events) == 200
        threads = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
        assert sorted(threads) == ["consumer", "worker 0", "worker 1"], threads
        assert "batches ready" in names(events, "C")
        for tid in {event["tid"] for event in events if event["name"] == "slice"}:  # a worker waits or works
            spans = sorted((event["ts"], event["ts"] + event["dur"]) for event in events if event["ph"] == "X" and event["tid"] == tid and
                           event["name"] in ("slice", "wait for room", "open"))
            assert all(after[0] >= before[1] - 0.01 for before, after in zip(spans, spans[1:])), spans


def test_trace_of_train():
    with scratch() as base:
        penstock("generate", "images", "--images", 64, "--size", 16, "--classes", 2, cwd=base)
        penstock("train", "folder images | shuffle | decode | resize 8 | normalize | batch 16", "--model", "flatten | dense 2", "--epochs", 2, "--trace", "t.json",
                 "--quiet", cwd=base)
        events = check_trace(os.path.join(base, "t.json"))
        assert "step" in names(events, "X") and any("decode" in name for name in names(events, "X"))


def test_trace_of_doctor():
    with scratch() as base:
        path = os.path.join(base, "trace.json")
        for more in (("--step-ms", "5"), ()):  # the second replaces the first
            report("doctor", "range 6400 | shuffle | batch 64", "--seconds", 1, "--workers", 2, "--trace", path, *more)
            events = check_trace(path)
            assert {"slice", "read", "batch"} <= names(events, "X") and names(events, "b") == {"batch"}, names(events, "X")
            threads = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
            assert sorted(threads) == ["consumer", "worker 0", "worker 1"], threads
            steps = [event["dur"] for event in events if event["name"] == "step"]
            if more:
                assert len(steps) > 3 and sorted(steps)[len(steps) // 2] > 4900, steps[:10]
        refused = penstock("doctor", "range 6400 | batch 64", "--seconds", 1, "--trace", os.path.join(base, "none", "t.json"), code=1)
        assert "none" in refused.err, refused.err


def test_scalars():
    with scratch() as base:
        folder, logs = os.path.join(base, "run"), os.path.join(base, "logs")
        with running(folder):
            look(folder, "--tensorboard", logs)
        data = b"".join(open(path, "rb").read() for path in glob.glob(os.path.join(logs, "events.out.tfevents.*")))
        assert b"samples_per_s/" in data and b"wait_share/" in data and b"brain.Event:2" in data


tap.main(globals())
