"""Training runs that are killed at random moments, a full disk, damaged checkpoints, and a long run.

    test_train_kill.py                 a few kills, a short long run: part of `make test`
    PENSTOCK_KILLS=100 PENSTOCK_RUN_SECONDS=600 test_train_kill.py     `make kill`
"""
import json
import os
import random
import shutil
import signal
import subprocess
import time

import tap
from tool import PENSTOCK, environment, penstock, scratch

KILLS = int(os.environ.get("PENSTOCK_KILLS", "8"))
SECONDS = float(os.environ.get("PENSTOCK_RUN_SECONDS", "12"))
MODEL = "conv 6 3 relu pad=same | maxpool 2 | conv 8 3 pad=same bias=false | batchnorm | relu | dropout 0.1 | globalavgpool | dense 3"
VARIANTS = (["--schedule", "cosine"], ["--accumulate", 3, "--ema", "0.9"], ["--ema", "0.9", "--val-every", 7, "--optimizer", "nesterov"],
            ["--accumulate", 2, "--schedule", "plateau", "--plateau", 1, "--mixed", "float16"],
            ["--prune", "0.7", "--prune-every", 4, "--ema", "0.9", "--accumulate", 2, "--clip", 1])


def data(folder):
    penstock("generate", f"{folder}/photos", "--images", 60, "--classes", 3, "--size", 24, "-q")
    source = f"folder {folder}/photos"
    return f"{source} | shuffle | decode | resize 16 | flip | normalize imagenet | batch 8", f"{source} | decode | resize 16 | normalize imagenet | batch 8"


def state(run):
    """Everything of the newest checkpoint that decides how a run continues."""
    files = [open(f"{run}/latest/{name}.safetensors", "rb").read() for name in ("weights", "optimizer")]
    record = json.load(open(f"{run}/latest/state.json"))
    return files + [record["step"], record["run"], record["schedule"], record.get("loss_scale")]


def test_kill_at_random_moments():
    """A run that is killed again and again, whatever it is doing, ends with the bits of one that was left alone."""
    draw, kills = random.Random(20), 0
    with scratch() as folder:
        train, val = data(folder)
        for number, variant in enumerate(VARIANTS):
            options = [train, "--val", val, "--model", MODEL, "--steps", 40, "--epochs", 0, "--save-every", 3, "-q", *map(str, variant)]
            begin = time.monotonic()
            penstock("train", *options, "--out", f"{folder}/straight{number}")
            took = time.monotonic() - begin
            want = state(f"{folder}/straight{number}")
            while kills < KILLS * (number + 1) // len(VARIANTS):
                run = f"{folder}/killed{number}.{kills}"
                for attempt in range(6):
                    again = ["--resume", run] if os.path.isdir(run) and any(n.startswith("step_") for n in os.listdir(run)) else [*options, "--out", run]
                    with subprocess.Popen([PENSTOCK, "train", *map(str, again)], env=environment(), stderr=subprocess.DEVNULL) as process:
                        try:
                            process.wait(draw.uniform(0.02, took))
                        except subprocess.TimeoutExpired:
                            process.send_signal(signal.SIGKILL)
                            kills += 1
                    if process.returncode == 0:
                        break
                if process.returncode != 0:
                    penstock("train", *(["--resume", run] if os.path.isdir(run) and any(n.startswith("step_") for n in os.listdir(run)) else
                                        [*options, "--out", run]))
                found = state(run)
                assert found == want, (variant, ["same" if a == b else (a, b) if not isinstance(a, bytes) else "bytes differ" for a, b in zip(found, want)])
                shutil.rmtree(run)
    print(f"# killed {kills} times")


def test_stale_links():
    """Killed between a checkpoint and its links: a resume mends them, even if nothing is left to do."""
    with scratch() as folder:
        train, val = data(folder)
        run = f"{folder}/run"
        penstock("train", train, "--val", val, "--model", MODEL, "--epochs", 3, "--lr", 0.01, "--keep", 9, "--out", run, "-q")
        links = {name: os.readlink(f"{run}/{name}") for name in ("latest", "best")}
        for name in links:
            os.unlink(f"{run}/{name}")
        os.symlink("step_00000008", f"{run}/latest")
        penstock("train", "--resume", run, "-q")
        assert {name: os.readlink(f"{run}/{name}") for name in ("latest", "best")} == links


def test_full_disk():
    """Where nothing can be written, the run says so, and the checkpoints that were there are sound."""
    with scratch() as folder:
        train, _ = data(folder)
        run = f"{folder}/run"
        penstock("train", train, "--model", MODEL, "--steps", 6, "--epochs", 0, "--out", run, "-q")
        want = state(run)
        result = penstock("train", "--resume", run, "--steps", 20, code=None, prefix=["sh", "-c", 'ulimit -f 4; exec "$@"', "sh"])
        assert result.code == 1 and "penstock: error:" in result.err and run in result.err, result
        assert state(run) == want and not [n for n in os.listdir(run) if n.startswith(".")], os.listdir(run)
        penstock("train", "--resume", run, "--steps", 20, "-q")
        penstock("train", train, "--model", MODEL, "--steps", 20, "--epochs", 0, "--out", f"{folder}/straight", "-q")
        assert state(run)[0] == state(f"{folder}/straight")[0]


def test_damage_uses_the_one_before():
    """A flipped bit in the newest checkpoint: the error names the file, and a resume uses the checkpoint before."""
    with scratch() as folder:
        train, val = data(folder)
        run = f"{folder}/run"
        penstock("train", train, "--model", MODEL, "--steps", 9, "--epochs", 0, "--save-every", 3, "--out", run, "-q")
        want, draw = state(run), random.Random(3)
        for name in ("weights.safetensors", "optimizer.safetensors", "state.json"):
            path = f"{run}/step_00000009/{name}"
            whole = open(path, "rb").read()
            for _ in range(4):
                damaged = bytearray(whole)
                damaged[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
                open(path, "wb").write(damaged)
                result = penstock("eval", f"{run}/step_00000009", val, code=None)
                assert result.code in (1, 3) and name in result.err and "damaged" in result.err, result
                again = f"{folder}/again"
                shutil.copytree(run, again, symlinks=True)
                penstock("train", "--resume", again, "-q")
                assert state(again) == want
                shutil.rmtree(again)
            open(path, "wb").write(whole)


def rss(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_long_run():
    """Memory stays flat, and epochs do not take more of the processor. Rates are printed: other programs change them."""
    with scratch() as folder:
        train, val = data(folder)
        run, sizes, rates, used = f"{folder}/run", [], [], []
        with subprocess.Popen([PENSTOCK, "train", train, "--val", val, "--model", MODEL, "--epochs", "1000000", "--keep", "2", "--json", "--out", run],
                              env=environment(), stdout=subprocess.PIPE, text=True) as process:
            begin = time.monotonic()
            for line in process.stdout:
                rates.append(json.loads(line)["images_per_s"])
                sizes.append(rss(process.pid))
                used.append(cpu(process.pid))
                if time.monotonic() - begin > SECONDS and len(sizes) >= 40:
                    break
            process.send_signal(signal.SIGTERM)
            process.communicate()
        assert process.returncode == 143 and len(sizes) >= 40, (process.returncode, len(sizes))
        early, late = max(sizes[len(sizes) // 5:len(sizes) // 2]), max(sizes[len(sizes) // 2:])
        assert late < early + (4 << 20), (early, late)
        first, second = sorted(rates[:len(rates) // 2]), sorted(rates[len(rates) // 2:])
        best = [half[len(half) * 9 // 10] for half in (first, second)]
        part = len(used) // 10  # the least of a few parts of each half: other programs only ever make it more
        per_epoch = [(used[(i + 1) * part - 1] - used[i * part]) / (part - 1) for i in range(10)]
        assert min(per_epoch[5:]) < 2 * min(per_epoch[:5]) + 0.01, per_epoch
        print(f"# {len(sizes)} epochs; RSS {early >> 20} MiB, later {late >> 20} MiB; {best[0]:.0f} images/s, later {best[1]:.0f}")


tap.main(globals())
