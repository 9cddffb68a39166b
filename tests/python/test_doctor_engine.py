"""penstock.doctor of datasets of penstock: the engine's doctor examines their pipeline; the pipeline that it writes for other loaders."""

import os
import signal
import time

import tap
from data import images, raises, scratch
from doctor_data import check, pause
from patience import examined

import penstock as ps
from penstock import _core
from penstock._doctor import answer, engine, equivalent
from penstock._doctor.remedies import gain_of


@examined
def test_the_costs_of_a_pipeline(patience):
    """One worker that decodes and resizes images which are much too large."""
    with scratch() as folder:
        path = images(folder, count=24, size=256)
        dataset = ps.pipeline(f"folder {path} | shuffle | decode | resize 32 | batch 4", workers=1)
        values = check(ps.doctor(dataset, step=pause(0.3), data=path, seconds=2.5 * patience))
        verdict, remedies = values["verdict"], {one["id"]: one for one in values["remedies"]}
        assert verdict["class"] == "input-bound" and verdict["cause"] in ("large-images", "single-worker"), verdict
        assert values["remedies"][0]["id"] in ("resize-offline", "more-workers", "store-planes") and gain_of(values["remedies"][0]) > 1.15, remedies
        assert any("decode" in stage["name"] and stage["low"] is not None for stage in values["stages"]), values["stages"]
        assert remedies["more-workers"]["command"].startswith("dataset.with_options(workers=") and "native-op" not in remedies, remedies
        assert values["pipeline"].startswith("folder") and values["data"]["samples"] == 24 and values["limits"]["memory_available_bytes"], values["data"]


@examined
def test_functions_of_the_program(patience):
    def slow(value):
        time.sleep(0.001)
        return value

    dataset = ps.range(2000).map(slow).batch(8)
    values = check(ps.doctor(dataset, step=pause(0.5), seconds=2 * patience))
    assert values["verdict"]["cause"] == "python-function" and values["pipeline"] == "range start=2000 | map test_functions_of_the_program._locals_.slow | batch size=8", values
    assert "slow" in values["verdict"]["stage"] and any(stage["kind"] == "python" for stage in values["stages"]), values["stages"]


@examined
def test_sweeps(patience):
    values = check(ps.doctor(ps.range(100000).batch(64), seconds=2 * patience))
    sweeps = {sweep["by"]: sweep for sweep in values["sweeps"]}
    assert [point["value"] for point in sweeps["prefetch"]["points"]] == [1, 2, 4] and sweeps["workers"]["recommended"], sweeps
    assert "within 5 %" in sweeps["workers"]["reason"] and sweeps["prefetch"]["points"][0]["ram_bytes"] == 2 * 64 * 8, sweeps
    assert sweeps["prefetch"]["points"][0]["epoch_seconds"] > 0, sweeps


def test_tiny_batches():
    values = check(ps.doctor(ps.pipeline("range 1000000 | batch 1"), seconds=1))
    assert values["verdict"]["cause"] == "tiny-batch" and values["remedies"][0]["id"] == "larger-batch", values["verdict"]


def test_chains_as_texts():
    def double(value):
        return 2 * value

    text = "range 100 # numbers\n | batch 4"
    chains = (
        (ps.pipeline(text).take(3), "range start=100 | batch 4 | take count=3", set()),
        (ps.zip(ps.range(9), ps.range(9).rename("value", "other")).batch(3), None, set()),
        (ps.range(9).map(double).map(double).batch(3), "range start=9 | map test_chains_as_texts._locals_.double | map test_chains_as_texts._locals_.double_ | batch size=3",
         {Exception}),
        (ps.from_generator(lambda: ({"x": 1.0} for _ in range(9))).batch(3), None, {Exception}),
        (ps.from_arrays({"x": memoryview(bytes(36)).cast("B", (9, 4))}).batch(3), "from_arrays | batch size=3", {Exception}),
        (ps.concatenate(ps.range(9).map(double), ps.range(9).map(double)).batch(3), "joined | batch size=3", {Exception}),
    )
    for dataset, wanted, customs in chains:
        found, own = engine.describe(dataset)
        assert (own is not None) == bool(customs) and (wanted is None or found == wanted), (found, wanted)
        values, why = engine.examine(dataset, 1, 0.5, Wanted)
        assert values and not why and values["now"]["samples_per_s"] > 0, (found, why)
    for dataset, words in ((ps.range(9).batch(3).map(double), "whole batches"), (ps.range(9).map(double, workers="process").batch(3), "other processes")):
        values, why = engine.examine(dataset, 1, 0.5, Wanted)
        assert values is None and words in why, why
    assert "were not examined: it has functions for whole batches" in str(ps.doctor(ps.range(99).batch(3).map(lambda value: value), seconds=0.5))


class Wanted:
    epochs = samples = memory = None


def test_gains_in_the_loop():
    """A prediction of the engine is made anew for the loop: its ranges and times, too. What was measured on a sample stays that."""
    def one(id, predicted, measured=None):
        return {"id": id, "title": "try it", "command": "", "available": True, "predicted": predicted, "measured": measured}

    predicted = {"samples_per_s": 300.0, "gain": 3.0, "epoch_seconds": 10.0, "total_seconds": 40.0, "low": 240.0, "high": 900.0, "upper_bound": False}
    measured = {"samples_per_s": 9000.0, "gain": 9.0, "now_samples_per_s": 1000.0, "epoch_seconds": 7.5}
    found = {"now": {"samples_per_s": 100.0}, "data": {"samples": 3000}, "remedies": [one("pack", predicted, measured), one("cache-ram", None)]}
    pack, cache = engine.scaled(found, 50.0, 250.0, 6000, 2)
    assert cache["predicted"] is None and cache["measured"] is None, cache
    assert pack["predicted"] == {"samples_per_s": 150.0, "gain": 3.0, "epoch_seconds": 40.0, "total_seconds": 80.0, "low": 120.0, "high": 250.0, "upper_bound": False}, pack
    assert pack["measured"] == {**measured, "epoch_seconds": 6000 / 200.0}, pack
    assert gain_of(pack) == 3.0 and "measured on a sample" in answer._remedy_lines(pack)[0], pack
    bound = engine.scaled(found, 50.0, 100.0, None, 2)[0]["predicted"]
    assert (bound["samples_per_s"], bound["high"], bound["low"], bound["epoch_seconds"], bound["total_seconds"]) == (100.0, 100.0, 100.0, None, None), bound


def test_what_the_engine_does_not_know():
    """Data whose size only the caller knows stays too large for the memory."""
    values = {"limits": {}, "now": {}, "data": {"bytes": 9, "cold": True, "cache": "it does not fit"}}
    found = {"limits": {}, "now": {}, "data": {"bytes": None, "cold": False, "cache": "not known", "indexed": True}}
    assert engine.merge(values, found)["data"] == {"bytes": 9, "cold": True, "cache": "it does not fit", "indexed": True}, values
    found["data"]["bytes"] = 7
    assert not engine.merge(values, found)["data"]["cold"], values


def test_functions_that_fail():
    def fails(value):
        raise RuntimeError("planted")

    values, why = engine.examine(ps.range(9).map(fails, spec={"value": "int64"}).batch(3), 1, 0.5, Wanted)
    assert values is None and "planted" in why, why

    class Interrupting:
        def add(self, stage, pipeline):
            raise KeyboardInterrupt

        def is_python(self, stage):
            return True

    with raises(KeyboardInterrupt):
        _core.doctor_run("made | batch 3", Interrupting(), {}, seconds=0.5)
    with raises(ps.Error, "number from"):
        _core.doctor_run("range 9 | batch 3", None, {}, seconds=0.1)


def test_interrupted():
    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with raises(KeyboardInterrupt):
            _core.doctor_run("range 100000000 | batch 64", None, {}, seconds=1000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Rows:
    """An array that says its shape and type, as those of frameworks do."""

    def __init__(self, shape, dtype, values=()):
        self.shape, self.dtype, self.values = shape, dtype, values


def test_equivalent_or_none():
    with scratch() as folder:
        path = images(folder, count=8, size=32)
        labels = Rows((4,), "int64")
        text, why = equivalent.written(path, (Rows((4, 24, 24, 3), "uint8"), labels), 4)
        assert text == f"folder {path} | shuffle | decode | resize 24 | batch 4" and not why, why
        text, why = equivalent.written(path, (Rows((4, 24, 24), "uint8"), labels), 4)  # gray, without channels
        assert text == f"folder {path} | shuffle | decode channels=1 | resize 24 | batch 4" and not why, why
        with ps.pipeline(f"folder {path} | shuffle | decode | resize 24 | batch 4") as dataset:
            batch = next(iter(dataset))
            assert equivalent.written(path, batch, 4)[0] == f"folder {path} | shuffle | decode | resize 24 | batch 4"
        for wrong in ((Rows((4, 1728), "uint8"), labels), (Rows((4, 10), "int64"),)):
            text, why = equivalent.written(path, wrong, 4)
            assert text is None and f"{wrong[0].shape[1]} per sample" in why, (text, why)
        assert equivalent.written(path, [b"x"], 4) == (None, "the loader's batches hold no arrays")
        other = os.path.join(folder, "notes.md")
        open(other, "w").close()
        assert "neither" in equivalent.written(other, (labels,), 4)[1]


def test_of_another_loader():
    """A batch that no written pipeline makes: no remedy, but a reason."""
    with scratch() as folder:
        path = images(folder, count=8, size=32)
        rows = ps.from_arrays({"x": memoryview(bytes(64 * 3072)).cast("B", (64, 3072))}).batch(8)
        answer = ps.doctor([rows.at(0)] * 20, step=pause(1), data=path, seconds=1)
        values = check(answer)
    assert values["equivalent"]["pipeline"] is None and "3072 per sample" in values["equivalent"]["reason"], values["equivalent"]
    assert "native-op" not in {one["id"] for one in values["remedies"]} and "no equivalent pipeline" in str(answer), str(answer)


tap.main(globals())
