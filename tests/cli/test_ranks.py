"""`mpirun penstock train` and `pack`, with every MPI that has a plug-in: the same bits as one process, other numbers of ranks, ranks that are
stopped, killed or fail. Everything runs in a network namespace with loopback only."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import tap
from patience import HANG, wait_until
from tool import PENSTOCK, environment, penstock, scratch, tree

LOOPBACK = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "loopback.sh")
MODEL = "conv 8 3 relu pad=same | batchnorm | maxpool 2 | conv 8 3 pad=same | batchnorm | relu | dropout 0.1 | globalavgpool | dense 3"
LIBRARY = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(PENSTOCK))), "src")


def launchers():
    """The command of each MPI that is installed and has a plug-in."""
    if subprocess.run([LOOPBACK, "true"]).returncode == 77:
        print("# skipped: this machine does not allow a network namespace")
        return {}
    known = {"openmpi": ["--oversubscribe", "--bind-to", "none"], "mpich": []}
    found = {}
    for name, options in known.items():
        command = shutil.which(f"mpirun.{name}")
        if command and os.path.exists(f"{LIBRARY}/penstock-mpi-{name}.so"):
            found[name] = [LOOPBACK, command, *options]
        else:
            print(f"# skipped: {name} is not installed")
    return found


LAUNCHERS = launchers()
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def need_mpi():
    if not LAUNCHERS:
        raise tap.Skip("neither Open MPI nor MPICH has a plug-in here: scripts/install_test_packages.sh installs them; configure the build afterwards")


def start(mpi, ranks, *arguments, env=None):
    return subprocess.Popen([*LAUNCHERS[mpi], "-n", str(ranks), PENSTOCK, *map(str, arguments)], env=environment(**ROOT, **(env or {})), text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def mpirun(mpi, ranks, *arguments, code=0, env=None):
    job = start(mpi, ranks, *arguments, env=env)
    out, err = job.communicate(timeout=HANG)
    assert code is None or job.returncode == code, f"exit {job.returncode}\n{out}\n{err}"
    return out, err


def data(folder):
    penstock("generate", f"{folder}/photos", "--images", 60, "--classes", 3, "--size", 20, "-q")
    text = f"folder {folder}/photos | shuffle | decode | resize 16 | flip | normalize imagenet | batch 4"
    return [text, "--val", text.replace("| shuffle ", "").replace("| flip ", ""), "--model", MODEL, "--threads", 1]


def files(run):
    return [open(f"{run}/latest/{name}", "rb").read() for name in ("weights.safetensors", "optimizer.safetensors")]


def last_line(out):
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")][-2]


def test_exact_ranks():
    """Two and four ranks have the bits of one process, and a resume may change their number."""
    need_mpi()
    with scratch() as folder:
        command = data(folder) + ["--epochs", 2, "--exact-ranks", "--json"]
        one = last_line(penstock("train", *command, "--accumulate", 4, "--out", f"{folder}/one").out)
        for mpi in LAUNCHERS:
            for ranks in (2, 4):
                out, _ = mpirun(mpi, ranks, "train", *command, "--accumulate", 4 // ranks, "--out", f"{folder}/{mpi}{ranks}")
                many = last_line(out)
                assert files(f"{folder}/{mpi}{ranks}") == files(f"{folder}/one"), (mpi, ranks)
                assert all(many[k] == one[k] for k in ("step", "loss", "accuracy", "val_loss", "val_accuracy")), (one, many)
            run = f"{folder}/{mpi}-resumed"
            mpirun(mpi, 4, "train", *command, "--out", run, "--steps", 2)
            state = json.load(open(f"{run}/latest/state.json"))
            assert state["batches_per_step"] == 4, state
            _, err = mpirun(mpi, 3, "train", "--resume", run, code=None)
            assert "4 batches per update" in err and "divisor of 4" in err, err
            mpirun(mpi, 2, "train", "--resume", run, "--steps", 5)
            penstock("train", "--resume", run, "--steps", 0)
            assert files(run) == files(f"{folder}/one"), mpi


def on_machines(mpi, ranks, names, *arguments, code=0):
    """The ranks run on machines of these names, as far as a process can tell."""
    each = 'name=$(echo "$0" | cut -d " " -f $((${OMPI_COMM_WORLD_RANK:-$PMI_RANK} + 1))); exec unshare --uts sh -c \'hostname $0; exec "$@"\' "$name" "$@"'
    job = subprocess.Popen([*LAUNCHERS[mpi], "-n", str(ranks), "sh", "-c", each, " ".join(names), PENSTOCK, *map(str, arguments)], text=True,
                           env=environment(**ROOT), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    out, err = job.communicate(timeout=HANG)
    assert code is None or job.returncode == code, f"exit {job.returncode}\n{out}\n{err}"
    return out, err


def test_hosts_are_counted():
    """--hosts auto is the number of machines; the run is recorded with it and resumes with it, wherever that is."""
    need_mpi()
    with scratch() as folder:
        command, given = data(folder) + ["--epochs", 0, "--steps", 4], f"{folder}/given"
        first = next(iter(LAUNCHERS))
        mpirun(first, 4, "train", *command, "--hosts", 2, "--out", given)
        for mpi in LAUNCHERS:
            run = f"{folder}/{mpi}"
            out, _ = on_machines(mpi, 4, ["a", "a", "b", "b"], "train", *command, "--hosts", "auto", "--steps", 2, "--out", run)
            assert len(re.findall(r"rank [01] .* on a  ", out)) == 2 and len(re.findall(r"rank [23] .* on b  ", out)) == 2, out
            mpirun(mpi, 4, "train", "--resume", run, "--steps", 4)
            assert files(run) == files(given), mpi
        mpirun(first, 4, "train", *command, "--hosts=auto", "--out", f"{folder}/alone")
        assert files(f"{folder}/alone") != files(given), "one machine is one part"
        for names, words in (("a b a b", "one machine after the other"), ("a a a b", "a has 3 ranks and b has 1")):
            _, err = on_machines(first, 4, names.split(), "train", *command, "--hosts", "auto", code=None)
            assert words in err, err
    assert "give the number of machines" in penstock("plan", "range 10 | batch 2", "--hosts", "auto", code=2).err
    assert "or auto" in penstock("plan", "range 10 | batch 2", "--hosts", "many", code=2).err


def test_ranks_are_shown():
    """Ranks, processes and cores are printed by rank 0 alone; float16 gradients train."""
    need_mpi()
    with scratch() as folder:
        command = data(folder) + ["--epochs", 2]
        one = last_line(penstock("train", *command, "--accumulate", 2, "--json").out)
        for mpi in LAUNCHERS:
            out, _ = mpirun(mpi, 2, "train", *command, "--gradients", "float16", "--out", f"{folder}/{mpi}")
            assert "2 ranks over" in out and "2 batches per update" in out, out
            assert len(re.findall(r"rank [01]  process \d+ on \S+  cores [\d,-]+", out)) == 2 and out.count("epoch 2/2") == 1, out
            loss = float(re.search(r"epoch 2/2 .*?loss ([\d.]+)", out)[1])
            assert abs(loss - one["loss"]) < 0.02, (loss, one)


def ranks_of(job):
    """The processes of the ranks from what rank 0 prints."""
    pids = {}
    for line in job.stdout:
        found = re.match(r"  rank (\d+)  process (\d+)", line)
        if found:
            pids[int(found[1])] = int(found[2])
        if len(pids) == 2:
            return pids


def test_top_shows_all_ranks():
    """Side by side, each with its number, its training and its validation pipeline; one view of the job for each MPI."""
    need_mpi()
    with scratch() as folder:
        command = data(folder)
        for mpi in LAUNCHERS:
            monitors = f"{folder}/monitors-{mpi}"
            job = start(mpi, 2, "train", *command, "--epochs", 1000, "--out", f"{folder}/{mpi}", env={"PENSTOCK_MONITOR": monitors})
            try:
                pids = ranks_of(job)

                def shown():
                    seen = penstock("top", "--once", "--interval", 0.3, "--folder", monitors, "--json", code=None)
                    found = json.loads(seen.out)["pipelines"] if seen.code == 0 else []
                    return {(p["rank"], p["pid"]) for p in found if p["world"] == 2 and p["samples_per_s"]}

                wait_until(lambda: shown() == set(pids.items()), "both ranks are shown", job)
                text = penstock("top", "--once", "--interval", 0.3, "--folder", monitors).out
                rows = re.findall(r"^ *(\d+) +(\d)/2 ", text, re.M)
                assert {(int(rank), int(pid)) for pid, rank in rows} == set(pids.items()), text
                order = [int(rank) for _, rank in rows]
                assert order == sorted(order), f"by rank:\n{text}"
            finally:
                for pid in pids.values():
                    os.kill(pid, signal.SIGKILL)
                job.communicate(timeout=HANG)


def names_process(mpi, said, pids):
    """What the launcher says about a killed process. Open MPI names the rank; MPICH the first process that it finds dead, nearly always that one."""
    return "process rank 1 with" in said if mpi == "openmpi" else f"PID {pids[1]} RUNNING" in said


def killed_rank_is_named(mpi, command):
    """Up to three times: MPICH ends the others at once, and may find one of them first."""
    for _ in range(3):
        job = start(mpi, 2, "train", *command, "--epochs", 0, "--steps", 100000)
        pids = ranks_of(job)
        os.kill(pids[1], signal.SIGKILL)
        if names_process(mpi, "".join(job.communicate(timeout=HANG)), pids):
            return True
    return False


def test_lost_ranks():
    """A rank that is stopped or killed ends the job within 30 s, which says which one it was; a resume gives the bits of a run that was not disturbed."""
    need_mpi()
    with scratch() as folder:
        command = data(folder) + ["--save-every", 3]
        for mpi in LAUNCHERS:
            timeout = [] if mpi == next(iter(LAUNCHERS)) else ["--rank-timeout", 8]  # the default is measured once
            whole = f"{folder}/{mpi}-whole"
            mpirun(mpi, 2, "train", *command, "--epochs", 0, "--steps", 40, "--out", whole)
            for how in (signal.SIGSTOP, signal.SIGKILL):
                run = f"{folder}/{mpi}-{how.name}"
                job = start(mpi, 2, "train", *command, "--epochs", 0, "--steps", 100000, "--out", run, *timeout)
                pids = ranks_of(job)
                wait_until(lambda: len(glob.glob(f"{run}/step_*")) >= 2, "two checkpoints", job)
                os.kill(pids[1], how)
                begin = time.monotonic()
                out, err = job.communicate(timeout=HANG)  # the run is much longer: only what is noticed ends it
                seconds = time.monotonic() - begin
                assert job.returncode != 0 and seconds < 30, (mpi, how, seconds, out, err)
                if how == signal.SIGSTOP:
                    assert f"rank 1 (process {pids[1]} on" in err and "has not answered" in err and "--resume" in err, (mpi, job.returncode, err, out)
                else:
                    assert names_process(mpi, out + err, pids) or killed_rank_is_named(mpi, command), (pids, out + err)
                done = json.load(open(f"{run}/latest/state.json"))["step"]
                if done < 40:
                    mpirun(mpi, 2, "train", "--resume", run, "--steps", 40)
                    assert files(run) == files(whole), (mpi, how)


def test_out_of_memory():
    """A rank that gets no memory ends the job, with its name and what it wanted the memory for."""
    need_mpi()
    with scratch() as folder:
        command = data(folder)
        command[command.index(MODEL)] = "flatten | dense 80000 | dense 3"  # 250 MB of weights, as many of gradients, and two moments
        limit = "[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 1 ] && ulimit -v 900000; exec \"$@\""
        for mpi in LAUNCHERS:
            done = subprocess.run([*LAUNCHERS[mpi], "-n", "2", "sh", "-c", limit, "sh", PENSTOCK, "train", *map(str, command), "--epochs", "1"],
                                  env=environment(**ROOT), text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=HANG)
            assert done.returncode != 0 and "out of memory" in done.stderr and "rank 1 (process" in done.stderr and "ends the job" in done.stderr, done.stderr
            assert "rank 0 (process" not in done.stderr, done.stderr


def test_cores():
    """The ranks of a machine share its cores, unless they are told not to; what is shown is so."""
    need_mpi()
    if len(os.sched_getaffinity(0)) < 2:
        raise tap.Skip("one core")
    with scratch() as folder:
        command = data(folder)
        for mpi in LAUNCHERS:
            for bind, common in (([], 0), (["--bind", "none"], len(os.sched_getaffinity(0)))):
                job = start(mpi, 2, "train", *command, "--epochs", 0, "--steps", 100000, *bind)
                pids = ranks_of(job)
                cores = [os.sched_getaffinity(pids[rank]) for rank in (0, 1)]
                for pid in pids.values():
                    os.kill(pid, signal.SIGKILL)
                job.communicate(timeout=HANG)
                assert all(cores) and len(cores[0] & cores[1]) == common, (mpi, bind, cores)


def test_failures():
    """A rank that fails ends all of them, and a missing plug-in is named."""
    need_mpi()
    with scratch() as folder:
        command = data(folder)
        for mpi in LAUNCHERS:
            _, err = mpirun(mpi, 2, "train", *command, "--epochs", 1, env={"PENSTOCK_PLUGIN": folder}, code=None)
            assert f"penstock-mpi-{mpi}.so is not in" in err and "PENSTOCK_PLUGIN" in err, err
            _, err = mpirun(mpi, 2, "train", *command, "--epochs", 1, "--rank", 0, "--world", 3, code=None)
            assert "contradict" in err, err
            _, err = mpirun(mpi, 2, "train", *command, "--sweep", "lr=0.1,0.2", code=None)
            assert "without mpirun" in err, err


def test_one_rank_fails_alone():
    """A rank that meets damage, or that Ctrl-C reaches before the run begins, ends the job with its exit code; the others do not wait for it."""
    need_mpi()
    with scratch() as folder:
        command = data(folder)
        text = command[0].replace("| shuffle ", "")
        photos = sorted(glob.glob(f"{folder}/photos/*/*"))
        with open(photos[5], "r+b") as f:  # of the second batch, which rank 1 reads
            f.truncate(100)
        for mpi in LAUNCHERS:
            job = start(mpi, 2, "train", text, *command[3:], "--epochs", 1)
            _, err = job.communicate(timeout=HANG)
            assert job.returncode != 0, (mpi, err)
            assert "rank 1 (process" in err and "ends the job" in err and os.path.basename(photos[5]) in err, err


def test_teacher():
    """Ranks compute the teacher's logits together, and store those of all data once; any number of ranks reads them."""
    need_mpi()
    with scratch() as folder:
        command = data(folder)
        text = command[0].replace("| flip ", "")
        penstock("pack", f"{folder}/photos", f"{folder}/shards", "-q")
        text = text.replace(f"folder {folder}/photos | shuffle", f"tfrecord {folder}/shards | shuffle | example")
        penstock("train", text, "--model", MODEL, "--epochs", 1, "--out", f"{folder}/teacher", "-q")
        common = ["train", text, "--model", MODEL, "--threads", 1, "--epochs", 1, "--teacher", f"{folder}/teacher", "-q"]

        def stored():
            names = glob.glob(f"{folder}/shards/.teacher-*.logits")
            assert len(names) == 1, names
            with open(names[0], "rb") as f:
                return names[0], f.read(), os.stat(names[0]).st_mtime_ns

        for mpi in LAUNCHERS:
            penstock(*common)
            name, one, _ = stored()
            os.remove(name)
            mpirun(mpi, 2, *common)
            _, two, when = stored()
            assert int.from_bytes(two[24:32], "little") == 60 and two == one, mpi
            mpirun(mpi, 2, *common)
            penstock(*common)
            assert stored()[2] == when, "it was computed again"
            os.remove(name)


def test_mpirun_packs():
    """Into a folder, and again: the bytes of one process, and one summary. A rank that fails ends the job and is named."""
    need_mpi()
    with scratch() as folder:
        penstock("generate", f"{folder}/photos", "--images", 60, "--classes", 3, "--size", 20, "-q")
        options = ["--shards", 5, "--split", "train=0.8,val=0.2", "--shuffle", 3]
        penstock("pack", f"{folder}/photos", f"{folder}/one/set", *options, "-q")
        for mpi in LAUNCHERS:
            for summary in ("packed 60 records", "up to date: 60 records"):
                out, _ = mpirun(mpi, 3, "pack", f"{folder}/photos", f"{folder}/{mpi}/set", *options)
                assert out.count(summary) == out.count("records of 3 classes") == 1, out
                assert tree(f"{folder}/{mpi}/set") == tree(f"{folder}/one/set"), mpi
            bad = '[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 1 ] && set -- "$@" --bad nonsense; exec "$@"'
            done = subprocess.run([*LAUNCHERS[mpi], "-n", "2", "sh", "-c", bad, "sh", PENSTOCK, "pack", f"{folder}/photos", f"{folder}/{mpi}-2/set"],
                                  env=environment(**ROOT), text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=HANG)
            assert done.returncode != 0 and "--bad nonsense" in done.stderr, done.stderr


def test_pack():
    """Rank 0 does not wait for ever for a rank that fails or was stopped."""
    with scratch() as folder:
        penstock("generate", f"{folder}/photos", "--images", 30, "--classes", 3, "--size", 20, "-q")
        env = environment(PMI_RANK="0", PMI_SIZE="2", PENSTOCK_RANK_TIMEOUT="1")
        done = subprocess.run([PENSTOCK, "pack", f"{folder}/photos", f"{folder}/out", "-q"], env=env, text=True, capture_output=True, timeout=HANG)
        assert done.returncode != 0 and "rank 1 gives no sign of life" in done.stderr, done.stderr
        env["PENSTOCK_RANK_TIMEOUT"] = str(HANG)
        job = subprocess.Popen([PENSTOCK, "pack", f"{folder}/photos", f"{folder}/out", "-q"], env=env, text=True, stderr=subprocess.PIPE)

        def ended():
            if not os.path.exists(f"{folder}/out/.rank-1-of-2"):  # it removes what an earlier run left
                with open(f"{folder}/out/.new", "w") as f:
                    f.write("failed process 17 on here 3\n")
                os.rename(f"{folder}/out/.new", f"{folder}/out/.rank-1-of-2")
            return job.poll() is not None

        wait_until(ended, "rank 0 notices that rank 1 has failed")
        err = job.stderr.read()
        assert job.returncode != 0 and "rank 1 (process 17 on here) has failed" in err, err
        other = subprocess.Popen([PENSTOCK, "pack", f"{folder}/photos", f"{folder}/out", "-q"], env={**env, "PMI_RANK": "1"})
        subprocess.run([PENSTOCK, "pack", f"{folder}/photos", f"{folder}/out", "-q"], env=env, check=True, timeout=HANG)
        assert other.wait() == 0
        penstock("pack", f"{folder}/photos", f"{folder}/one", "--name", "out", "-q")
        names = sorted(os.listdir(f"{folder}/one"))
        assert names == sorted(os.listdir(f"{folder}/out"))
        assert not glob.glob(f"{folder}/out/.rank*") and sorted(os.listdir(folder)) == ["one", "out", "photos"]


def test_pack_in_a_locked_folder():
    """The folder that OUT lies in need not be writable."""
    with scratch() as folder:
        penstock("generate", f"{folder}/photos", "--images", 30, "--classes", 3, "--size", 20, "-q")
        os.makedirs(f"{folder}/locked/out")
        command = [PENSTOCK, "pack", f"{folder}/photos", f"{folder}/locked/out", "-q"]
        if os.geteuid() == 0:  # permissions do not hold root back: a name that is taken does
            os.mkdir(f"{folder}/locked/.out.rank-1-of-2")
        else:
            os.chmod(f"{folder}/locked", 0o555)
        env = environment(PMI_SIZE="2", PENSTOCK_RANK_TIMEOUT=str(HANG))
        slow = subprocess.Popen(["sh", "-c", 'sleep 1; exec "$@"', "sh", *command], env={**env, "PMI_RANK": "1"})
        subprocess.run(command, env={**env, "PMI_RANK": "0"}, check=True, timeout=HANG)
        assert slow.wait() == 0
        os.chmod(f"{folder}/locked", 0o755)


BEGIN_BEFORE = """
import ctypes, os, sys
mpi = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)  # the plug-in: what it is linked with is found, too
library = ctypes.CDLL(sys.argv[2])
given, comm, error = ctypes.c_int(), ctypes.c_void_p(), ctypes.create_string_buffer(4096)
assert mpi.MPI_Init_thread(None, None, int(sys.argv[3]), ctypes.byref(given)) == 0
status = library.pst_comm_open(ctypes.byref(comm), None, error)
with open(f"{sys.argv[4]}/{os.getpid()}", "w") as out:  # not the output, in which the lines of ranks may mix
    print(status, given.value, b"MPI_THREAD_MULTIPLE" in error.raw, file=out)
if status == 0:
    library.pst_comm_close.argtypes = [ctypes.c_void_p]
    library.pst_comm_close(comm)
mpi.MPI_Finalize()
"""


def test_a_program_that_began_mpi_itself():
    """It must allow other threads to make calls: whoever began MPI for one thread is told so, instead of races inside MPI."""
    need_mpi()
    library = os.path.realpath(f"{LIBRARY}/libpenstock.so.0")
    for mpi, launcher in LAUNCHERS.items():
        for level in (0, 3):  # MPI_THREAD_SINGLE, MPI_THREAD_MULTIPLE
            with scratch() as folder:
                done = subprocess.run([*launcher, "-n", "2", sys.executable, "-c", BEGIN_BEFORE, f"{LIBRARY}/penstock-mpi-{mpi}.so", library, str(level), folder],
                                      env=environment(**ROOT), text=True, capture_output=True, timeout=HANG)
                said = [open(f"{folder}/{name}").read().split() for name in os.listdir(folder)]
            assert len(said) == 2, (done.stdout, done.stderr)
            for status, given, known in said:
                allowed = int(given) >= 2
                assert (status == "0") == allowed and (allowed or known == "True"), (status, given, known)


tap.main(globals())
