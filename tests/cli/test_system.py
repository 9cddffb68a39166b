"""The system says no: full disks, limits, permissions, and single system calls that fail in the unmodified binary.

Whatever happens, the tool says so with a clear error, leaves nothing half-written under a final name, and completes the work
when it is run again under better conditions.
"""
import os
import resource
import shutil
import subprocess

import tap
from patience import HANG
from tool import PENSTOCK, environment, penstock, scratch, tree, unprivileged


class Case:
    """Images, a command that packs them, and what it makes when the system says yes."""

    def __init__(self, folder, count=60):
        self.folder = folder
        penstock("generate", f"{folder}/in", "--images", count, "--size", 32, "--classes", 3, "-q")
        self.want = self.packed(f"{folder}/want")
        sizes = [os.path.getsize(f"{folder}/want/{name}") for name in os.listdir(f"{folder}/want")]
        self.bytes, self.largest = sum(sizes), max(sizes)

    def arguments(self, out):
        return ["pack", f"{self.folder}/in", out, "--name", "x", "--shards", "3", "--workers", "2"]

    def packed(self, out):
        penstock(*self.arguments(out))
        return tree(out)

    def check(self, out):
        """Nothing under a final name but what belongs there, then a rerun completes."""
        for path, digest in tree(out).items() if os.path.exists(out) else ():
            name = os.path.basename(path)
            if name in self.want and not name.startswith(b"."):
                assert digest == self.want[name], f"{path} is not whole"
        found = self.packed(out)
        assert found == self.want, f"differs: {sorted(set(found.items()) ^ set(self.want.items()))}"


def test_disk_full():
    with scratch() as folder:
        case, disk = Case(folder), f"{folder}/disk"
        os.mkdir(disk)
        for share in (0.2, 0.5, 0.8):
            size = int(share * case.bytes)
            mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "penstock-test", disk], capture_output=True)
            if mounted.returncode != 0:
                raise tap.Skip("mounting a small file system is not permitted")
            try:
                result = penstock(*case.arguments(f"{disk}/out"), code=1)
                assert "No space left on device" in result.err, result
                subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
                case.check(f"{disk}/out")
            finally:
                subprocess.run(["umount", disk], check=True)


def test_file_size_limit():
    with scratch() as folder:
        case = Case(folder)
        for limit in (100, case.largest // 4, case.largest - 1):
            out = f"{folder}/{limit}"
            result = penstock(*case.arguments(out), code=1,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
            assert "File too large" in result.err, result
            case.check(out)


def test_few_descriptors():
    with scratch() as folder:
        case = Case(folder)
        for limit in (4, 5, 6, 8, 12):
            out = f"{folder}/{limit}"
            result = penstock(*case.arguments(out), code=None,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
            if result.code == 127:
                continue # too few even for the dynamic linker
            assert result.code in (0, 1), result
            assert result.code == 0 or "Too many open files" in result.err, result
            case.check(out)


def test_permission_denied():
    prefix = unprivileged()
    with scratch() as folder:
        case = Case(folder)
        os.mkdir(f"{folder}/theirs")
        os.chmod(f"{folder}/theirs", 0o555)
        for arguments in (case.arguments(f"{folder}/theirs/out"), case.arguments(f"{folder}/theirs"),
                          ["generate", f"{folder}/theirs/out"]):
            result = penstock(*arguments, code=1, prefix=prefix)
            assert "Permission denied" in result.err and f"{folder}/theirs" in result.err, result
            assert os.listdir(f"{folder}/theirs") == []
        os.mkdir(f"{folder}/ours")
        os.chmod(f"{folder}/ours", 0o777)
        unreadable = f"{folder}/in/circle/{sorted(os.listdir(f'{folder}/in/circle'))[0]}"
        os.chmod(unreadable, 0)
        result = penstock(*case.arguments(f"{folder}/ours/out"), code=1, prefix=prefix)
        assert "Permission denied" in result.err and os.path.basename(unreadable) in result.err, result
        result = penstock(*case.arguments(f"{folder}/ours/out"), "--bad", "skip", prefix=prefix)
        assert "skipped 1:" in result.out and os.path.basename(unreadable) in result.out, result


def test_output_below_a_file():
    with scratch() as folder:
        case = Case(folder)
        with open(f"{folder}/file", "w"):
            pass
        for out in (f"{folder}/file/out", f"{folder}/file"):
            result = penstock(*case.arguments(out), code=None)
            assert result.code == 1 and result.err.startswith("penstock: error: "), result
        assert os.path.getsize(f"{folder}/file") == 0


# ---- Single system calls ----

WRITING = {call: ("EIO", "ENOSPC") for call in ("pwrite64", "pwritev", "pwritev2", "write", "fsync", "fdatasync", "rename", "renameat",
                                               "renameat2", "link", "linkat", "mkdir", "ftruncate", "fallocate")}
OTHERS = {"openat": ("EIO", "EMFILE"), "pread64": ("EIO",), "preadv": ("EIO",), "getdents64": ("EIO",), "newfstatat": ("EIO",),
          "mmap": ("ENOMEM",), "clone3": ("EAGAIN",)}


def tracing():
    """The environment for traced runs; skips where there can be none."""
    if not shutil.which("strace"):
        raise tap.Skip("strace is not installed")
    if subprocess.run(["strace", "-f", "-e", "trace=none", "true"], capture_output=True).returncode != 0:
        raise tap.Skip("tracing is not permitted")
    return environment(ASAN_OPTIONS="detect_leaks=0") # the leak detector is a tracer itself


def count_calls(env, *arguments):
    done = subprocess.run(["strace", "-f", "-c", "-U", "name,calls", PENSTOCK, *arguments], env=env, capture_output=True, text=True,
                          check=True)
    rows = (line.split() for line in done.stderr.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def inject(env, case, out, call, error, when):
    """Packs with the `when`th `call` of each thread failing; returns whether one did, and the exit code."""
    log = f"{case.folder}/trace"
    command = ["strace", "-f", "-o", log, "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={when}", PENSTOCK]
    done = subprocess.run([*command, *case.arguments(out)], env=env, capture_output=True, text=True, timeout=HANG)
    with open(log) as f:
        injected = "(INJECTED)" in f.read()
    place = f"{call} {error} when={when}: exit {done.returncode}\n{done.stderr}"
    assert done.returncode in (0, 1), place
    assert done.returncode == 0 or "penstock: error: " in done.stderr, place
    assert not (injected and done.returncode == 0 and call in WRITING), f"a failed write was passed over: {place}"
    return injected, done.returncode


def fail_each(calls, offsets):
    env = tracing()
    with scratch() as folder:
        case = Case(folder, 30)
        before = count_calls(env, "version") # these belong to the dynamic linker and to the start
        used = count_calls(env, *case.arguments(f"{folder}/count"))
        faults = 0
        for call, error in ((call, error) for call in calls if call in used for error in calls[call]):
            for offset in offsets:
                out = f"{folder}/{call}-{error}-{offset}"
                injected, code = inject(env, case, out, call, error, before.get(call, 0) + offset)
                if not injected:
                    break # there are fewer calls than that
                faults += code == 1
                case.check(out)
                shutil.rmtree(out)
        return faults


def test_each_write_may_fail():
    faults = fail_each(WRITING, (1, 2, 3, 4, 6, 9, 14))
    assert faults >= 10, f"only {faults} faults were met"


def test_each_other_call_may_fail():
    with open(PENSTOCK, "rb") as f:
        sanitized = b"__asan_init" in f.read() # a sanitizer maps memory for itself, and ends the process where it gets none
    faults = fail_each({call: OTHERS[call] for call in OTHERS if call != "mmap" or not sanitized}, (1, 2, 4, 8, 16))
    assert faults >= 5, f"only {faults} faults were met"


tap.main(globals())
