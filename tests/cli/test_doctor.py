"""`penstock doctor`: the contract of its JSON, the answer as text, targets that are paths, wrong command lines."""
import base64
import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess

import tap
from patience import HANG, examined, wait_until
from store_server import serve
from tool import PENSTOCK, environment, penstock, report, scratch

LOOPBACK = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "loopback.sh")

MEMBERS = {"schema", "verdict", "now", "limits", "step", "stages", "remedies"}
VERDICT = {"class", "wait_share", "bottleneck", "stage", "cause", "sentence"}


def length(patience):
    """The option for the length of an examination: after one that failed, there is more time."""
    return ["--seconds", 2 * patience]


BRIEF = ["--seconds", 1]  # where no verdict is checked


def examine(*arguments, patience=0.5, **options):
    return report("doctor", *length(patience), *arguments, **options)


@examined
def test_step(patience):
    found = examine("range 100000 | batch 64", "--step-ms", 20, "--epochs", 3, patience=patience)
    now = found["now"]
    assert found["verdict"]["class"] == "consumer-bound" and found["verdict"]["cause"] == "consumer", found["verdict"]
    assert found["remedies"][0]["id"] == "faster-step" and "Remedy" not in found["verdict"]["sentence"], found["verdict"]
    assert found["step"]["ms"] == 20 and 0.3 < now["samples_per_s"] / 3200 < 1.05  # without the step: millions
    assert abs(now["epoch_seconds"] * now["samples_per_s"] / 100000 - 1) < 1e-6 and abs(now["total_seconds"] / now["epoch_seconds"] - 3) < 1e-6
    assert found["settings"]["quick"] is (2 * patience <= 10), found["settings"]


def test_a_folder_is_enough():
    with scratch() as folder:
        penstock("generate", "images", "--images", 60, "--size", 48, cwd=folder)
        result = penstock("doctor", "images", *BRIEF, "-q", cwd=folder)
        first, rest = result.out.split("\n", 1)
        assert first.endswith(".") and "folder images | shuffle | decode | random_resized_crop 48" in rest and "decode" in rest, result.out
        penstock("pack", "images", "shards", "--shards", 1, cwd=folder)
        assert "tfrecord shards | shuffle | example | decode" in examine("shards", cwd=folder)["pipeline"]
        os.mkdir(os.path.join(folder, "empty"))
        refused = penstock("doctor", "empty", cwd=folder, code=1).err
        assert "neither images nor" in refused and "--out" not in refused, refused


def test_a_table_an_archive_and_texts_are_enough():
    with scratch() as folder:
        for name, text in (("table.csv", "rooms,price\n" + "3,250.5\n" * 400), ("lines.txt", "to be or not to be\n" * 400)):
            with open(f"{folder}/{name}", "w") as f:
                f.write(text)
        subprocess.run(["gzip", "-k", f"{folder}/table.csv"], check=True)
        penstock("generate", "images", "--images", 60, "--size", 48, "-q", cwd=folder)
        subprocess.run(["tar", "-cf", "web.tar", "-C", "images", "."], cwd=folder, check=True)
        with open(f"{folder}/list.csv", "w") as f:
            f.writelines(f"images/{os.path.relpath(os.path.join(base, name), f'{folder}/images')}\n" for base, _, names in os.walk(f"{folder}/images") for name in names)
        for name, pipeline in (("table.csv", "csv table.csv | shuffle | batch 256"), ("table.csv.gz", "csv table.csv.gz | shuffle | batch 256"),
                               ("lines.txt", "lines lines.txt | shuffle | batch 256"), ("web.tar", "tar web.tar | shuffle | decode | random_resized_crop 48 |"),
                               ("list.csv", "files list.csv | shuffle | decode | random_resized_crop 48 |")):
            found = report("doctor", name, *BRIEF, cwd=folder)
            assert found["pipeline"].startswith(pipeline) and found["pipeline_written"], found["pipeline"]


def test_a_sample_of_an_archive():
    """Images are stored anew from the sample alone, whatever stands between the archive and decode."""
    with scratch() as folder:
        penstock("generate", "images", "--images", 60, "--size", 300, "-q", cwd=folder)
        subprocess.run(["tar", "-cf", "web.tar", "-C", "images", "--exclude=*.png", "."], cwd=folder, check=True)
        for text in ("decode | resize 32", "rename image photo | decode field=photo | resize 32 field=photo"):
            found = report("doctor", f"tar web.tar | {text} | batch 16", *BRIEF, cwd=folder)
            assert remedy(found, "resize-offline")["predicted"]["gain"] > 1, found["remedies"]


def test_damaged_images():
    """What is left out is said, and the command that stores the data leaves it out, too."""
    with scratch() as folder:
        penstock("generate", "photos", "--images", 40, "--size", 300, "-q", cwd=folder)
        paths = sorted(os.path.join(base, name) for base, _, names in os.walk(f"{folder}/photos") for name in names)
        for path in paths[::4]:
            with open(path, "rb+") as f:
                f.truncate(os.path.getsize(path) // 3)
        found = report("doctor", "folder photos | shuffle | decode | resize 32 | batch 4", "--bad", "skip", "--seconds", 3, cwd=folder)
        assert "25 % of the samples are left out" in found["verdict"]["sentence"], found["verdict"]
        resize = remedy(found, "resize-offline")
        assert resize["command"] == "penstock pack photos photos-32 --resize 32 --bad skip", resize
        subprocess.run(resize["command"].replace("penstock", PENSTOCK, 1) + " -q", shell=True, cwd=folder, env=environment(), check=True, timeout=HANG)


IDS = {"pack", "reshard", "resize-offline", "store-planes", "entropy-index", "cache-ram", "cache-disk", "more-workers", "larger-batch", "prefetch",
       "reorder", "quality-fast", "offline-augment", "native-op", "processes", "select-fields", "faster-storage", "more-machines", "faster-step",
       "pin-memory", "device-prefetch", "bytes-to-device", "smaller-batch", "mixed-precision", "separable-convolutions", "smaller-model", "compress"}


@examined
def test_apply_compare_and_page(patience):
    """The remedy for large images, from the diagnosis to the comparison afterwards."""
    with scratch() as folder:
        penstock("generate", "images", "--images", 20, "--size", 800, cwd=folder)
        text = "folder images | shuffle | decode | resize 48 | batch 8"
        refused = penstock("doctor", text, *length(2 * patience), "--json", "-q", "--html", "report.html", "--apply", "resize-offline", cwd=folder, code=1)
        assert "nothing was changed" in refused.err and not os.path.exists(os.path.join(folder, "images-48"))
        before = refused.out
        found = json.loads(before)
        assert found["verdict"]["cause"] == "large-images" and found["remedies"][0]["id"] == "resize-offline", found["verdict"]
        first = found["remedies"][0]
        assert first["command"] == "penstock pack images images-48 --resize 48" and first["price"]["disk_bytes"] > 0, first
        assert first["pipeline"] == "tfrecord images-48/ | shuffle | example | decode | resize 48 | batch 8"
        assert "- folder images" in first["diff"] and first["predicted"]["gain"] > 2 and first["price"]["psnr"] > 20
        for remedy in found["remedies"]:
            assert remedy["id"] in IDS and {"title", "command", "pipeline", "predicted", "measured", "price", "effort"} <= set(remedy), remedy
        offered = {r["id"]: r for r in found["remedies"]}
        assert not offered["compress"]["available"] and offered["more-machines"]["machines"] == 2, "a model is not known; machines only add up"
        assert found["remedies"][0]["id"] != "more-machines" and 1.9 < offered["more-machines"]["predicted"]["gain"] <= 2
        kept, = (r for r in found["remedies"] if r["id"] == "cache-disk")
        assert "| cache path=images-cache |" in kept["pipeline"] and kept["price"]["disk_bytes"] > 0 and kept["predicted"]["gain"] > 1, kept
        page = open(os.path.join(folder, "report.html")).read()
        assert "<html" in page and "resize-offline" in page and "<script" not in page
        penstock("doctor", text, *BRIEF, "-q", "--apply", "resize-offline", "--yes", cwd=folder)
        after = penstock("doctor", first["pipeline"], *length(patience), "--json", "-q", cwd=folder).out
        for name, content in (("a.json", before), ("b.json", after)):
            open(os.path.join(folder, name), "w").write(content)
        compared = json.loads(penstock("doctor", "--json", "--compare", "a.json", "b.json", cwd=folder).out)
        assert compared["gain"] > 1.5 and compared["before"]["cause"] == "large-images" != compared["after"]["cause"], compared
        assert "times as fast" in penstock("doctor", "--compare", "a.json", "b.json", cwd=folder).out.split("\n")[0]
        penstock("doctor", "--compare", "a.json", cwd=folder, code=2)
        open(os.path.join(folder, "c.json"), "w").write("{}")
        penstock("doctor", "--compare", "a.json", "c.json", cwd=folder, code=2)
        penstock("doctor", "--compare", "a.json", "none.json", cwd=folder, code=1)


@examined
def test_records_with_large_images(patience):
    """The command stores the data when a shell runs it; the answer has its order, its pictures and its machine."""
    with scratch() as folder:
        penstock("generate", "images", "--images", 20, "--size", 800, "-q", cwd=folder)
        penstock("pack", "images", "it's shards", "--shards", 1, "-q", cwd=folder)
        text = "tfrecord \"it's shards\" | shuffle | example | decode | resize 48 | batch 8"
        options = ["--seed", 7, "--samples", 5000, "--bad", "skip:20", "--cache", "kept here"]
        found = examine(text, *options, patience=2 * patience, cwd=folder)
        resize = remedy(found, "resize-offline")
        assert found["verdict"]["cause"] == "large-images" and found["remedies"][0] is resize, found["verdict"]
        assert resize["command"].startswith("penstock doctor 'tfrecord ") and "PIPELINE" not in resize["command"], resize
        assert "--seed 7 --bad skip:20 --cache 'kept here' --samples 5000 " in resize["command"], resize["command"]
        subprocess.run(resize["command"].replace("penstock", PENSTOCK, 1) + " --yes -q", shell=True, cwd=folder, env=environment(), check=True,
                       stdout=subprocess.DEVNULL, timeout=HANG)
        assert penstock("cat", resize["pipeline"], cwd=folder).out, "the data lies where the changed pipeline looks for it"
        for picture in found["images"]:
            assert picture["remedy"] in IDS and all(base64.b64decode(picture[when]).startswith(b"\x89PNG") for when in ("before", "after")), picture
        assert {picture["remedy"] for picture in found["images"]} >= {"resize-offline"}, [picture["caption"] for picture in found["images"]]
        assert found["machine"]["cores"] >= 1 and found["machine"]["system"].startswith("Linux") and found["machine"]["memory_bytes"] > 0
        rates = [found["now"]["samples_per_s"]] + [step["predicted"]["samples_per_s"] for step in found["path"]]
        assert len(rates) != 2 and all(after > 1.04 * before for before, after in zip(rates, rates[1:])), found["path"]
        answer = penstock("doctor", text, *length(2 * patience), "-q", cwd=folder).out
        assert "; effort medium; removes the cause, large-images\n" in answer and "; effort low" in answer and "e+0" not in answer, answer
        assert answer.count("$ penstock doctor 'tfrecord") == len([r for r in found["remedies"] if (r["command"] or "").startswith("penstock doctor")]), answer


@examined
def test_apply_an_index(patience):
    """The indexes of the shards get what the remedy says; options cannot be written anywhere, and the message names them."""
    with scratch() as folder:
        penstock("generate", "images", "--images", 24, "--size", 300, cwd=folder)
        penstock("pack", "images", "shards", "--shards", 2, cwd=folder)
        text = "tfrecord shards | shuffle | example | decode | random_resized_crop 64 | batch 8"
        assert "in the sidecars" not in penstock("plan", text, cwd=folder).out
        misled = penstock("doctor", text, *length(2 * patience), "-q", "--apply", "entropy-index", "--out", "elsewhere", "--yes", cwd=folder, code=1)
        assert "leave out --out" in misled.err and "in the sidecars" not in penstock("plan", text, cwd=folder).out, misled.err
        applied = penstock("doctor", text, *length(2 * patience), "-q", "--apply", "entropy-index", "--yes", cwd=folder)
        assert "added to the files beside the data" in applied.err and "wrote" not in applied.err and "in the sidecars" in penstock("plan", text, cwd=folder).out, applied.err
        refused = penstock("doctor", text, *length(2 * patience), "-q", "--workers", 1, "--apply", "more-workers", "--yes", cwd=folder, code=1)
        assert "use --workers" in refused.err, refused.err


@examined
def test_remedies_that_do_not_fit_on_the_disk(patience):
    """They say what is left, and count as dear."""
    with scratch() as folder:
        penstock("generate", "photos", "--images", 20, "--size", 200, "-q", cwd=folder)
        found = examine("folder photos | shuffle | decode | resize 16 | batch 4", "--samples", 10**15, patience=patience, cwd=folder)
        large = [remedy for remedy in found["remedies"] if (remedy["price"]["disk_bytes"] or 0) > 1e15]
        assert large, found["remedies"]
        for remedy in large:
            assert remedy["effort"] == "high" and remedy["price"]["note"].endswith("left"), remedy


@examined
def test_contract_sweep_and_real_size(patience):
    found = examine("range 100000 | batch 64", "--sweep", "batch", "--samples", 1281167, "--epoch-hours", 236, "--epochs", 90, patience=patience)
    sweep, = found["sweeps"]
    values = [point["value"] for point in sweep["points"]]
    assert sweep["by"] == "batch" and values[0] == 8 and sweep["recommended"] in values and sweep["reason"], sweep
    rates = {point["value"]: point["samples_per_s"] for point in sweep["points"]}
    assert rates[512] > rates[8]
    now = found["now"]
    assert abs(now["epoch_seconds"] * now["samples_per_s"] / 1281167 - 1) < 1e-6 and now["explained_share"] < 0.01
    assert found["schema"] == 1 and MEMBERS <= set(found) and VERDICT <= set(found["verdict"]), found
    assert found["verdict"]["class"] == "unknown" and found["verdict"]["wait_share"] is None and found["verdict"]["limit_step_ms"] > 0
    assert 0 < now["low"] <= now["samples_per_s"] <= now["high"]
    assert [stage["name"] for stage in found["stages"]][0] == "read"
    for stage in found["stages"]:
        assert {"name", "us_per_sample", "low", "high", "share", "cores"} <= set(stage)
    assert 0 < found["doctor_seconds"] < HANG


def remedy(found, name):
    return next(r for r in found["remedies"] if r["id"] == name)


@examined
def test_a_store(patience):
    """A store of 0.8 MB/s per connection: requests, bytes and connections are counted, and the cache is predicted and measured."""
    with scratch() as folder, serve() as (store, env):
        penstock("generate", f"{folder}/images", "--images", 120, "--size", 64, "--classes", 4, "-q")
        penstock("pack", f"{folder}/images", f"{folder}/shards", "--shards", 3, "-q")
        store.put_folder(f"{folder}/shards", "shards")
        store.latency, store.rate = 0.01, 800_000
        size = sum(len(data) for key, (data, _) in store.buckets["data"].items() if "-of-" in key and not key.endswith(".pidx"))
        text = "tfrecord s3://data/shards | shuffle | example | decode | resize 32 | batch 8"
        found = examine(text, "--verify", "--wish", 300, "--seed", 1, env=env, patience=1.5 * patience)
        remote = found["remote"]
        assert 9 < remote["latency_ms"] < 5000 and remote["connections"] == 8 and remote["limits"], remote
        assert 1e3 < remote["connection_bytes_per_s"] < 1.6e6 and remote["bytes_per_s"] < 8e6 and remote["requests_per_s"] < 900, remote
        assert abs(remote["epoch_gb"] * 1e9 / size - 1) < 0.2 and 3 <= remote["epoch_requests"] < 40, (remote, size)
        assert found["verdict"]["cause"] == "slow-storage" and found["verdict"]["bottleneck"] == "storage", found["verdict"]
        faster = remedy(found, "faster-storage")
        assert faster["predicted"]["gain"] > 1.5 and "a local disk" in faster["title"] and "requests and" in faster["price"]["note"], faster
        assert faster["measured"]["gain"] > 1.5 and faster["measured"]["now_samples_per_s"] < 8e6 / (size / 120), faster
        assert "ms per request" in penstock("doctor", text, *BRIEF, "-q", env=env).out


@examined
def test_shards_of_different_sizes(patience):
    """The store is measured where data are: no request begins behind the end of its object."""
    with scratch() as folder, serve() as (store, env):
        for name, images in (("large", 120), ("small", 2)):
            penstock("generate", f"{folder}/{name}-images", "--images", images, "--size", 96, "--classes", 2, "-q")
            penstock("pack", f"{folder}/{name}-images", f"{folder}/{name}", "--format", "raw", "--shards", 1, "-q")
            store.put_folder(f"{folder}/{name}", "shards")
        found = examine("tfrecord s3://data/shards | shuffle | batch 8", env=env, patience=patience)
        assert found["remote"]["latency_ms"] > 0 and found["remote"]["bytes_per_s"] > 0, found["remote"]
        sizes = {key: len(data) for key, (data, _) in store.buckets["data"].items()}
        asked = [(key, int(span.split("=")[1].split("-")[0])) for method, key, span in store.requests if method == "GET" and span]
        assert len({key for key, _ in asked if "-of-" in key and not key.endswith(".pidx")}) == 2, "both shards are asked for"
        behind = [(key, begin) for key, begin in asked if begin >= sizes[key]]
        assert not behind, behind[:5]


@examined
def test_a_full_cache(patience):
    """A cache without room for the data does not change, and has not the data."""
    with scratch() as folder, serve() as (store, env):
        penstock("generate", f"{folder}/images", "--images", 300, "--size", 64, "--classes", 4, "-q")
        penstock("pack", f"{folder}/images", f"{folder}/shards", "--shards", 3, "-q")
        store.put_folder(f"{folder}/shards", "shards")
        sizes = [len(data) for key, (data, _) in store.buckets["data"].items() if "-of-" in key and not key.endswith(".pidx")]
        text = "tfrecord s3://data/shards | shuffle | example | decode | resize 32 | batch 8"
        limited = {**env, "PENSTOCK_CACHE": f"{folder}/cache", "PENSTOCK_CACHE_BYTES": str(int(1.6 * max(sizes)))}
        penstock("bench", text, "--epochs", 1, env=limited)
        remote = examine(text, env=limited, patience=patience)["remote"]
        assert os.listdir(f"{folder}/cache") and not remote["cached"] and remote["later_epochs"] == "part", "the cache has one shard of three"
        roomy = {**env, "PENSTOCK_CACHE": f"{folder}/cache"}
        penstock("bench", text, "--epochs", 1, env=roomy)
        remote = examine(text, env=roomy, patience=patience)["remote"]
        assert remote["cached"] and remote["later_epochs"] == "cache", remote
        assert examine(text, env=env, patience=patience)["remote"]["later_epochs"] == "memory"
        assert "later epochs read copies in memory" in penstock("doctor", text, *length(patience), "-q", env=env).out


VERIFIED = ["doctor", "folder images | decode | resize 16 | normalize 0..1 | batch 8", "--model", "flatten | dense 10", *BRIEF, "-q", "--json", "--verify"]


@contextlib.contextmanager
def launcher(script):
    """A folder with images, and variables with which the doctor finds a shell script in place of mpirun; {folder} in it is that folder."""
    with scratch() as folder:
        penstock("generate", "images", "--images", 40, "--size", 16, cwd=folder)
        os.makedirs(f"{folder}/bin")
        with open(f"{folder}/bin/mpirun", "w") as f:
            f.write("#!/bin/sh\n" + script.replace("{folder}", folder))
        os.chmod(f"{folder}/bin/mpirun", 0o755)
        yield folder, {"PATH": f"{folder}/bin:{os.environ['PATH']}"}


def test_jobs_that_close_their_output():
    """A launcher that prints nothing more and does not end: Ctrl-C ends it, with what it started."""
    with launcher("exec >&-\nsleep 100000 & echo $! >{folder}/part\nmv {folder}/part {folder}/child\nwait\n") as (folder, env):
        env = environment(PENSTOCK_RANKS_SECONDS="100000", **env)
        with subprocess.Popen([PENSTOCK, *map(str, VERIFIED)], cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                wait_until(lambda: os.path.exists(f"{folder}/child"), "the launcher runs", process)
                child = int(open(f"{folder}/child").read())
                process.send_signal(signal.SIGINT)
                process.wait(HANG)
            finally:
                process.kill()
        assert process.returncode in (130, -signal.SIGINT), process.returncode
        wait_until(lambda: not os.path.exists(f"/proc/{child}") or "Z" in open(f"/proc/{child}/stat").read(), "the job's child ends")


def test_jobs_that_do_not_end():
    """A launcher that prints for ever and ignores SIGTERM is ended, with what it started."""
    script = "trap '' TERM\n(trap '' TERM; while :; do echo child; sleep 0.01; done) & echo $! >{folder}/child\nwhile :; do echo busy; sleep 0.01; done\n"
    with launcher(script) as (folder, env):
        for limit in ("4", "20", "60"):
            env["PENSTOCK_RANKS_SECONDS"] = limit
            done = subprocess.run([PENSTOCK, *map(str, VERIFIED)], cwd=folder, env=environment(**env), text=True, capture_output=True, timeout=HANG)
            assert done.returncode == 0, done.stderr
            assert remedy(json.loads(done.stdout), "more-machines")["measured"] is None
            if os.path.exists(f"{folder}/child"):
                break
            print(f"# one process alone took longer than {limit} s: the launcher was not called")
        child = int(open(f"{folder}/child").read())
        assert not os.path.exists(f"/proc/{child}") or "Z" in open(f"/proc/{child}/stat").read(), "the job's child still runs"


def test_jobs_get_the_options_of_the_pipeline():
    """What is said of bad records, memory and plug-ins holds for the jobs that the doctor starts."""
    with launcher("printf '%s\\n' \"$@\" >{folder}/said\nshift 2\nexec \"$@\"\n") as (folder, env):
        with open(f"{folder}/images/{sorted(os.listdir(f'{folder}/images'))[0]}/broken.jpg", "wb") as f:
            f.write(b"\xff\xd8\xff\xe0 not a photo")
        found = json.loads(penstock(*VERIFIED, "--bad", "skip", "--ram", "512M", "--seed", 7, "--no-fuse", cwd=folder, env=env).out)
        assert remedy(found, "more-machines")["measured"], "the job did not skip the photo that is broken"
        said = open(f"{folder}/said").read().splitlines()
        pairs = dict(zip(said, said[1:]))
        assert pairs["-n"] == "2" and pairs["--bad"] == "skip" and pairs["--ram"] == str(512 << 20) and pairs["--seed"] == "7", said
        assert "--no-fuse" in said and "--rank" not in said and "--workers" not in said, said


def check_step(found):
    step = found["step"]
    assert step["origin"] == "measured" and 0 < step["forward_ms"] < step["ms"] and step["backward_ms"] > 0 and step["optimizer_ms"] > 0
    layers = step["layers"]
    assert len(layers) >= 3 and layers[0]["name"].startswith("conv_1") and all(layer["backward_ms"] >= 0 < layer["forward_ms"] for layer in layers), step
    assert found["verdict"]["wait_share"] is not None
    command = remedy(found, "separable-convolutions")["command"]
    words = shlex.split(command)
    assert words[:2] == ["penstock", "train"] and words[2] == found["pipeline"] and words[3] == "--model" and "sepconv 24 3" in words[4], command


@examined
def test_model_and_machines(patience):
    """A step by its layers, and how many machines a wished rate takes; two processes are measured here, if mpirun is there. On a busy machine they wait less
    for each other than the threads of one: hence the wide bound."""
    with scratch() as folder:
        penstock("generate", "images", "--images", 60, "--size", 32, cwd=folder)
        text = "folder images | shuffle | decode | resize 32 | normalize 0..1 | batch 16"
        command = ["doctor", text, "--model", "conv 24 3 relu | conv 24 3 relu | globalavgpool | dense 10", "-q", "--json", "--link", "1G"]
        found = json.loads(penstock(*command, *length(patience), cwd=folder).out)
        check_step(found)
        one, two = found["now"]["samples_per_s"], remedy(found, "more-machines")
        assert two["machines"] == 2 and 1.2 < two["predicted"]["gain"] <= 2 and two["measured"] is None, two
        wish = 50 * one
        many = remedy(json.loads(penstock(*command, *length(patience), "--wish", wish, cwd=folder).out), "more-machines")
        assert many["machines"] > 2 and many["predicted"]["samples_per_s"] > 0.99 * wish and "GB/s" in many["predicted"]["basis"], many
        met = remedy(json.loads(penstock(*command, *BRIEF, "--wish", 0.01, cwd=folder).out), "more-machines")
        assert met["machines"] == 1 and not met["command"] and "by itself" in met["title"] and "assumed" not in met["predicted"]["basis"], met
        prefix = [LOOPBACK] if subprocess.run([LOOPBACK, "true"]).returncode != 77 else None
        plugin = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(PENSTOCK))), "src", "penstock-mpi-openmpi.so")
        if not prefix or not shutil.which("mpirun") or not os.path.exists(plugin):
            print("# not measured: no mpirun")
            return
        env = environment(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        done = subprocess.run([*prefix, PENSTOCK, *command, *map(str, length(patience)), "--verify"], cwd=folder, env=env, text=True, capture_output=True, timeout=HANG)
        assert done.returncode == 0, done.stderr
        measured = remedy(json.loads(done.stdout), "more-machines")["measured"]
        assert measured and 0.02 < measured["gain"] < 20 and measured["predicted_samples_per_s"] > 0, measured


def test_wrong_command_lines():
    assert "^" in penstock("doctor", "range 10 | bach 3", code=2).err
    refused = penstock("doctor", "range 10 | batch 3", "--step-ms", 5, "--step-rate", 6, code=2).err
    assert "--step-ms, --step-rate and --model exclude each other" in refused, refused
    penstock("doctor", code=2)
    assert "needs --rank" in penstock("doctor", "range 10 | batch 3", "--world", 2, code=2).err
    assert "--bad" in penstock("doctor", "range 10 | batch 3", "--bad", "maybe", code=2).err
    penstock("doctor", "no/such/folder", code=1)
    assert "no such file or folder, and no operation" in penstock("doctor", "nosuch", code=1).err
    with scratch() as folder:
        with open(f"{folder}/s.json", "w") as f:
            f.write("{}")
        refused = penstock("doctor", f"{folder}/s.json", code=2).err
        assert "not a TFRecord file" in refused and "a folder of images" in refused and "repair" not in refused, refused
    penstock("doctor", "range 10 | batch 3", "--sweep", "everything", code=2)


tap.main(globals())
