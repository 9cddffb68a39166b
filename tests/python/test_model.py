"""Models: built, trained, saved, loaded; with the standard library alone."""

import array
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

import penstock as ps
import tap
from patience import HANG

TEXT = "dense 16 relu | dense 3"


def points(count, seed=1):
    """Points of the plane in three classes: (values, labels)."""
    draw = random.Random(seed)
    values, labels = array.array("f"), array.array("q")
    for _ in range(count):
        label = draw.randrange(3)
        values.extend((draw.gauss((-2, 0, 2)[label], 0.5), draw.gauss((1, -2, 1)[label], 0.5)))
        labels.append(label)
    return memoryview(values).cast("B").cast("f", (count, 2)), labels


def dataset(count=600, batch=50):
    values, labels = points(count)
    return ps.from_arrays({"x": values, "label": labels}).shuffle().batch(batch)


def raises(kind, words, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except kind as error:
        assert words in str(error), f"{error}"
        return error
    raise AssertionError(f"no {kind.__name__}")


def flat(tensor):
    return memoryview(tensor).cast("B").tobytes()


def all_weights(model):
    return {name: flat(value) for name, value in model.weights.items()}


def test_fit_learns_and_reports():
    seen = []
    model = ps.Model(TEXT, input=(2,), seed=3, learning_rate=0.01)
    history = model.fit(dataset(), epochs=5, validation=dataset(200), callbacks=[seen.append])
    assert seen == history and [logs["epoch"] for logs in history] == [1, 2, 3, 4, 5] and model.steps == 60
    assert history[-1]["val_accuracy"] > 0.97 and history[-1]["loss"] < 0.3 * history[0]["loss"], history
    found = model.evaluate(dataset(200))
    assert found == {"samples": 200, **{name: history[-1][f"val_{name}"] for name in ("loss", "accuracy", "f1")}} and 0.9 < found["f1"] <= 1, found


def test_metrics_of_an_evaluation():
    """AUC and F1 of binary targets, mean absolute error and R² of numbers, against their definitions, over batches of different sizes."""
    def batches(target):
        for size, seed in ((40, 1), (7, 2), (64, 3)):
            values, _ = points(size, seed=seed)
            yield values, target(memoryview(values).cast("B").cast("f").tolist()[::2])

    def floats(tensor):
        return memoryview(flat(tensor)).cast("f").tolist()

    def labels(xs):
        return array.array("q", [int(x > 0.3) for x in xs])

    def numbers(xs):
        return array.array("f", [2 * x + 1 for x in xs])
    model = ps.Model("dense 1", input=(2,), seed=1, loss="binary", learning_rate=0.05)
    model.fit(list(batches(labels)), epochs=2)
    pairs = [(p, t) for x, y in batches(labels) for p, t in zip(floats(model.logits(x)), y)]
    right = [p for p, t in pairs if t]
    wrong = [p for p, t in pairs if not t]
    auc = sum((p > q) + 0.5 * (p == q) for p in right for q in wrong) / (len(right) * len(wrong))
    hits, misses = sum(p > 0 for p in right), sum(p > 0 for p in wrong) + sum(p <= 0 for p in right)
    found = model.evaluate(batches(labels))
    assert abs(found["auc"] - auc) < 1e-9 and abs(found["f1"] - 2 * hits / (2 * hits + misses)) < 1e-9 and found["samples"] == 111, (found, auc)
    model = ps.Model("dense 1", input=(2,), seed=1, loss="mse", learning_rate=0.05)
    history = model.fit(list(batches(numbers)), epochs=2, validation=list(batches(numbers)))
    pairs = [(p, t) for x, y in batches(numbers) for p, t in zip(floats(model.predict(x)), y)]
    mean = sum(t for _, t in pairs) / len(pairs)
    found = model.evaluate(batches(numbers))
    assert abs(found["mae"] - sum(abs(p - t) for p, t in pairs) / len(pairs)) < 1e-5 and "accuracy" not in found, found
    assert abs(found["r2"] - (1 - sum((p - t) ** 2 for p, t in pairs) / sum((t - mean) ** 2 for _, t in pairs))) < 1e-5 and history[-1]["val_r2"] == found["r2"]


def test_metrics_are_of_one_thread():
    """Another thread that asks for them while a batch is added is refused: their sums are in use."""
    model = ps.Model("dense 256 relu | dense 1", input=(2,), seed=1, loss="binary")
    values, labels = points(5000)
    labels = array.array("q", [int(label > 0) for label in labels])
    trainer, arguments = model._samples(values, labels, None, None)
    metrics, refused, stop = trainer.metrics(), threading.Event(), time.monotonic() + HANG

    def judge():
        while not refused.is_set() and time.monotonic() < stop:
            try:
                trainer.judge(metrics, *arguments)
            except RuntimeError:
                pass  # it is the other one's turn

    thread = threading.Thread(target=judge)
    thread.start()
    while not refused.is_set() and thread.is_alive():
        try:
            ps._core.metrics_judgement(metrics)
        except RuntimeError as error:
            assert "another thread" in str(error)
            refused.set()
    thread.join()
    assert refused.is_set() and 0 <= ps._core.metrics_judgement(metrics)["auc"] <= 1


def test_callbacks_stop_and_see_batches():
    class Watch:
        def __init__(self):
            self.steps = []

        def on_batch_end(self, step, logs):
            self.steps.append(step)
            assert logs["learning_rate"] == 0.001 and logs["loss"] > 0

        def on_epoch_end(self, epoch, logs):
            return epoch == 2

    watch = Watch()
    assert len(ps.Model(TEXT, input=(2,)).fit(dataset(), epochs=9, callbacks=[watch])) == 2
    assert watch.steps == list(range(1, 25))


def test_one_step_is_compute_and_apply():
    values, labels = points(32)
    whole, halves = (ps.Model(TEXT, input=(2,), seed=5) for _ in range(2))
    before = all_weights(halves)
    for _ in range(3):
        start = all_weights(halves)
        assert whole.train_step(values, labels) == halves.train_step(values, labels, apply=False)
        assert all_weights(halves) == start
        gradients = halves.gradients()
        assert gradients.keys() == before.keys() and any(flat(gradients["dense_2/bias"]))
        halves.apply()
        assert all_weights(whole) == all_weights(halves) != start


def test_a_seed_fixes_the_weights():
    first, same, other = (all_weights(ps.Model(TEXT, input=(2,), seed=seed)) for seed in (1, 1, 2))
    assert first == same != other


def test_weights_by_name():
    model = ps.Model(TEXT, input=(2,))
    assert list(model.weights) == ["dense_1/kernel", "dense_1/bias", "dense_2/kernel", "dense_2/bias"] and len(model.weights) == 4
    model.weights["dense_2/bias"] = array.array("f", [1, 2, 3])
    model.weights.update({"dense_2/kernel": memoryview(bytes(16 * 3 * 4)).cast("f", (16, 3))})
    assert model.predict(points(4)[0]).tolist() == [[1, 2, 3]] * 4
    raises(KeyError, "dense_1/kernel", lambda: model.weights["dense_3/kernel"])
    raises(ValueError, "another shape", model.weights.__setitem__, "dense_2/bias", array.array("f", [1]))


def test_set_weights_restart_the_moving_mean():
    model = ps.Model("dense 1", input=(2,), ema=0.9, loss="mse")
    model.weights["dense_1/kernel"] = memoryview(array.array("f", [1, 1])).cast("B").cast("f", (2, 1))
    model.weights["dense_1/bias"] = array.array("f", [5])
    assert model.predict(memoryview(array.array("f", [1, 2])).cast("B").cast("f", (1, 2))).tolist() == [[8]]


def test_save_and_load_continue():
    values, labels = points(32)
    model = ps.Model(TEXT, input=(2,), seed=7)
    for _ in range(3):
        model.train_step(values, labels)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "saved")
        model.save(path)
        model.save(path)  # replaces its own
        loaded = ps.Model.load(path)
        other = ps.Model.load(path, optimizer="sgd", momentum=0.9)
        raises(FileExistsError, "other files", model.save, folder)
        raises(ps.Error, "", ps.Model.load, folder + "/none")
    assert loaded.text == model.text and loaded.input == (2,) and loaded.steps == 3
    assert all_weights(loaded) == all_weights(model) == all_weights(other)
    assert loaded.train_step(values, labels) == model.train_step(values, labels) and all_weights(loaded) == all_weights(model)


def test_larger_batches_keep_the_state():
    values, labels = points(96)
    small, large = memoryview(values)[:32], labels[:32]
    model, same = (ps.Model(TEXT, input=(2,), seed=7) for _ in range(2))
    same._made(96, labels)
    for x, y in ((small, large), (values, labels), (small, large)):
        assert model.train_step(x, y) == same.train_step(x, y)
    assert all_weights(model) == all_weights(same) and model.steps == 3


def test_predict_arrays_and_datasets():
    values, labels = points(150)
    model = ps.Model(TEXT, input=(2,))
    rows = model.predict(values)
    assert rows.shape == (150, 3)
    assert rows.tolist() == model.predict(ps.from_arrays({"x": values, "label": labels}).batch(40)).tolist()
    classes = ps.Model(TEXT, input=(2,), loss="sparse").predict(values, probabilities=True).tolist()
    assert all(abs(sum(row) - 1) < 1e-5 for row in classes)
    assert len(model.predict(values[:0])) == 0


def test_losses_by_targets():
    values, labels = points(16)
    numbers = array.array("f", [0.5] * 16)
    for text, target, loss in (
        ("dense 3", labels, "sparse"),
        ("dense 1", numbers, "mse"),
        ("dense 1 | sigmoid", numbers, "binary"),
    ):
        model = ps.Model(text, input=(2,))
        model.train_step(values, target)
        assert model._planned[0] == loss, (text, model._planned)


def test_schedules_take_the_length_of_the_dataset():
    rates = []

    class Watch:
        def on_batch_end(self, step, logs):
            rates.append(logs["learning_rate"])

    ps.Model(TEXT, input=(2,), schedule="cosine").fit(dataset(), epochs=2, callbacks=[Watch()])
    assert rates[0] == 0.001 and abs(rates[12] - 0.0005) < 1e-9 and rates == sorted(rates, reverse=True) and rates[-1] < 2e-5


def test_mistakes():
    values, labels = points(8)
    raises(ps.Error, "convv", ps.Model, "convv 3", input=(8, 8, 3))
    raises(ValueError, "height, width, channels", ps.Model, TEXT, input=(8, 8))
    raises(ValueError, "expected one of adam, adamw, sgd, nesterov", ps.Model, TEXT, input=(2,), optimizer="adm")
    raises(ValueError, "0 or more", ps.Model, TEXT, input=(2,), learning_rate=-1)
    model = ps.Model(TEXT, input=(2,))
    assert raises(ps.Error, "label 7 is out of range", model.train_step, values, array.array("q", [1, 7] + [0] * 6)).record == 1
    image = ps.Model("flatten | dense 3", input=(4, 6, 3))
    transposed = memoryview(bytes(8 * 72)).cast("B", (8, 3, 4, 6))
    raises(ValueError, "samples of shape (3, 4, 6); the model takes (4, 6, 3)", image.train_step, transposed, labels)
    raises(ValueError, "no samples", model.fit, [])
    raises(ValueError, "fields=(INPUT, TARGET)", model.fit, [{"a": values, "b": values, "c": labels}])
    model.fit([{"a": values, "b": values, "c": labels}], fields=("b", "c"))
    model.weights["dense_2/bias"] = array.array("f", [float("nan"), 0, 0])
    raises(ps.Error, "not finite", model.train_step, values, labels)


def test_summary():
    text = ps.Model("resnet20", input=(32, 32, 3)).summary(batch=8)
    assert "conv_1" in text and "32×32×16" in text and "a step of 8 samples" in text, text


def test_threads_share_a_model():
    values, labels = points(64)
    model = ps.Model(TEXT, input=(2,))
    model.train_step(values, labels)
    threads = [threading.Thread(target=lambda: [model.train_step(values, labels) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert model.steps == 201


def test_a_fork_is_told():
    values, labels = points(8)
    model = ps.Model(TEXT, input=(2,))
    model.train_step(values, labels)
    child = os.fork()
    if child == 0:
        try:
            model.train_step(values, labels)
            os._exit(1)
        except ps.Error as error:
            os._exit(0 if "forked" in str(error) else 2)
    assert os.waitpid(child, 0)[1] == 0


def test_example():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    done = subprocess.run([sys.executable, os.path.join(root, "python", "examples", "train_cnn.py")], capture_output=True, text=True)
    assert done.returncode == 0 and "own loop, epoch 6" in done.stdout, done.stdout + done.stderr


def test_documentation():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    with open(os.path.join(root, "docs", "python.md")) as f:
        section = f.read().split("## Training\n")[1].split("\n## ")[0]
    values, labels = points(300)
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            names = {"points": values, "labels": labels, "print": lambda logs: None}
            exec(section.split("```python\n")[1].split("```")[0], names)
        finally:
            os.chdir(here)
    assert names["history"][-1]["val_accuracy"] > 0.9 and len(names["scores"]) == 300 and names["model"].steps == 36


def test_a_dataset_without_batches():
    """The remedy is named: batch()."""
    values, labels = points(6, seed=1)
    try:
        ps.Model("dense 2", input=(2,)).fit(ps.from_arrays({"x": values, "label": labels}))
    except ValueError as error:
        assert "add .batch()" in str(error), error
    else:
        raise AssertionError("samples without a batch were taken")


if __name__ == "__main__":
    tap.main(globals())
