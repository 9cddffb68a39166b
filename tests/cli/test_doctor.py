"""`penstock doctor`: the contract of its JSON, the answer as text, targets that are paths, wrong command lines."""
import json
import os

import tap
from tool import penstock, report, scratch

MEMBERS = {"schema", "verdict", "now", "limits", "step", "stages", "remedies"}
VERDICT = {"class", "wait_share", "bottleneck", "stage", "cause", "sentence"}


def examine(*arguments, **options):
    return report("doctor", "--quick", *arguments, **options)


def test_contract():
    found = examine("range 100000 | batch 64")
    assert found["schema"] == 1 and MEMBERS <= set(found) and VERDICT <= set(found["verdict"]), found
    assert found["verdict"]["class"] == "unknown" and found["verdict"]["wait_share"] is None and found["verdict"]["limit_step_ms"] > 0
    now = found["now"]
    assert 0 < now["low"] <= now["samples_per_s"] <= now["high"] and abs(now["epoch_seconds"] * now["samples_per_s"] / 100000 - 1) < 1e-6
    assert [stage["name"] for stage in found["stages"]][0] == "read"
    for stage in found["stages"]:
        assert {"name", "us_per_sample", "low", "high", "share", "cores"} <= set(stage)
    assert found["doctor_seconds"] < 20


def test_step():
    found = examine("range 100000 | batch 64", "--step-ms", 20, "--epochs", 3)
    assert found["verdict"]["class"] == "consumer-bound" and found["verdict"]["cause"] == "consumer", found["verdict"]
    assert found["step"]["ms"] == 20 and abs(found["now"]["samples_per_s"] / 3200 - 1) < 0.2
    assert abs(found["now"]["total_seconds"] / found["now"]["epoch_seconds"] - 3) < 1e-6


def test_a_folder_is_enough():
    with scratch() as folder:
        penstock("generate", "images", "--images", 60, "--size", 48, cwd=folder)
        result = penstock("doctor", "images", "--quick", "-q", cwd=folder)
        first, rest = result.out.split("\n", 1)
        assert first.endswith(".") and "folder images | shuffle | decode | random_resized_crop 48" in rest and "decode" in rest, result.out
        penstock("pack", "images", "shards", "--shards", 1, cwd=folder)
        assert "tfrecord shards | shuffle | example | decode" in examine("shards", cwd=folder)["pipeline"]
        os.mkdir(os.path.join(folder, "empty"))
        assert "neither images nor" in penstock("doctor", "empty", cwd=folder, code=1).err


def test_wrong_command_lines():
    assert "^" in penstock("doctor", "range 10 | bach 3", code=2).err
    penstock("doctor", "range 10 | batch 3", "--step-ms", 5, "--step-rate", 6, code=2)
    penstock("doctor", code=2)
    penstock("doctor", "no/such/folder", code=2)


tap.main(globals())
