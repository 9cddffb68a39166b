"""Loops of one's own, as articles on slow training write them for TensorFlow; with the standard library alone."""

import array
import math
import tempfile

import penstock as ps
import tap
from model_data import flat, points

TEXT = "dense 16 relu | dense 3 softmax"


def raises(kind, words, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except kind as error:
        assert words in str(error), f"{error}"
        return error
    raise AssertionError(f"no {kind.__name__}")


def batches(count=5, size=40):
    for i in range(count):
        values, labels = points(size, seed=i)
        yield values, labels


def test_the_loop_with_a_tape():
    """The article's train_step and its loop, with ps in place of tf; the weights are those of train_step."""
    model = ps.Model(TEXT, input=(2,), seed=1)
    plain = ps.Model(TEXT, input=(2,), seed=1, learning_rate=0.01)
    optimizer = ps.optimizers.Adam(learning_rate=0.01)
    loss_fn = ps.losses.SparseCategoricalCrossentropy()

    @ps.function
    def train_step(images, labels):
        with ps.GradientTape() as tape:
            predictions = model(images)
            loss = loss_fn(labels, predictions)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    for images, labels in batches():
        loss_value = train_step(images, labels)
        assert f"Loss: {loss_value}".startswith("Loss: 1.") or loss_value < 1.5
        assert loss_value == plain.train_step(images, labels)
    assert model.steps == 5 and {n: flat(v) for n, v in model.weights.items()} == {n: flat(v) for n, v in plain.weights.items()}


def test_a_tape_that_accumulates():
    """Several batches per update, of different sizes, by a tape: the same weights as by train_step."""
    model = ps.Model(TEXT, input=(2,), seed=1, accumulate=2)
    plain = ps.Model(TEXT, input=(2,), seed=1, accumulate=2, learning_rate=0.01)
    optimizer, loss_fn = ps.optimizers.Adam(learning_rate=0.01), ps.losses.SparseCategoricalCrossentropy()
    for i, size in enumerate([8, 80, 70, 9, 30]):
        images, labels = points(size, seed=i)
        with ps.GradientTape() as tape:
            loss = loss_fn(labels, model(images))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        plain.train_step(images, labels)
    assert model.steps == plain.steps == 2
    assert {n: flat(v) for n, v in model.weights.items()} == {n: flat(v) for n, v in plain.weights.items()}


def test_a_teacher():
    """fit learns from a model, its path, or a function; with alpha=0 from it alone; its own logits are what the loss is zero at."""
    teacher = ps.Model(TEXT, input=(2,), seed=7, learning_rate=0.05)
    values, labels = points(64, seed=3)
    for _ in range(60):
        teacher.train_step(values, labels)
    data = [(values, labels)]

    def taught(how, **options):
        model = ps.Model("dense 8 relu | dense 3 | softmax", input=(2,), seed=1, learning_rate=0.05, **options)
        history = model.fit(data, epochs=40, teacher=how)
        return [logs["loss"] for logs in history], {n: flat(v) for n, v in model.weights.items()}

    losses, by_model = taught(teacher, alpha=0.0, temperature=2.0)
    assert losses[-1] < 0.2 * losses[0], losses
    assert taught(lambda images: teacher.logits(images), alpha=0.0, temperature=2.0)[1] == by_model
    assert taught(None)[1] == taught(teacher, alpha=1.0)[1] != by_model
    twin = ps.Model(TEXT, input=(2,), seed=9, alpha=0.0)
    twin.weights.update(teacher.weights)
    assert abs(twin.train_step(values, labels, teacher=teacher.logits(values))) < 1e-9
    raises(ValueError, "row", twin.train_step, values, labels, teacher=values)


def test_zeros_are_zeros():
    """A rate, beta or decay of 0 is not the default."""
    values, labels = points(8)

    def trained(**options):
        model = ps.Model(TEXT, input=(2,), seed=1, loss="sparse", **options)
        for _ in range(3):
            model.train_step(values, labels)
        return {n: flat(v) for n, v in model.weights.items()}

    start = {n: flat(v) for n, v in ps.Model(TEXT, input=(2,), seed=1).weights.items()}
    assert trained(learning_rate=0.0) == start
    assert trained(beta1=0.0) != trained()
    assert trained(optimizer="adamw", weight_decay=0.0) == trained()
    assert trained(optimizer="adamw") == trained(optimizer="adamw", weight_decay=0.004) != trained()
    raises(ValueError, "epsilon", trained, epsilon=0.0)


def test_the_loop_with_scaled_loss():
    """The article's loop for mixed precision: without a policy the scale is 1."""
    model = ps.Model(TEXT, input=(2,), seed=2)
    optimizer = ps.optimizers.SGD(learning_rate=0.1, momentum=0.9)
    loss_fn = ps.losses.SparseCategoricalCrossentropy()
    first = last = None

    @ps.function(jit_compile=True)
    def train_step(images, labels):
        with ps.GradientTape() as tape:
            predictions = model(images)
            loss = loss_fn(labels, predictions)
            scaled_loss = optimizer.get_scaled_loss(loss)
        scaled_gradients = tape.gradient(scaled_loss, model.trainable_variables)
        gradients = optimizer.get_unscaled_gradients(scaled_gradients)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    for images, labels in batches(30):
        loss = train_step(images, labels)
        first, last = loss if first is None else first, loss
    assert last < 0.5 * first, (first, last)
    assert [v.name for v in model.trainable_variables][0] == "dense_1/kernel" and model.trainable_variables[0].shape == (2, 16)


def test_gradients_are_writable():
    """apply() takes gradients that were changed: zeros change nothing, a single one changes one weight."""
    model = ps.Model("dense 2", input=(2,), seed=3, optimizer="sgd", learning_rate=1.0, loss="mse")
    values = memoryview(array.array("f", [1, 2, 3, 4])).cast("B").cast("f", (2, 2))
    model.train_step(values, values, apply=False)
    before = {name: memoryview(value).tolist() for name, value in model.weights.items()}
    model.apply({"dense_1/kernel": memoryview(array.array("f", [0, 0, 0.5, 0])).cast("B").cast("f", (2, 2)), "dense_1/bias": array.array("f", [0, 0])})
    after = {name: memoryview(value).tolist() for name, value in model.weights.items()}
    assert after["dense_1/bias"] == before["dense_1/bias"] and after["dense_1/kernel"][0] == before["dense_1/kernel"][0]
    assert abs(after["dense_1/kernel"][1][0] - (before["dense_1/kernel"][1][0] - 0.5)) < 1e-6
    raises(KeyError, "dense_9", model.apply, {"dense_9/kernel": values})
    raises(ValueError, "shape", model.apply, {"dense_1/bias": values})


def test_mistakes():
    model = ps.Model(TEXT, input=(2,))
    values, labels = points(8)
    loss_fn = ps.losses.SparseCategoricalCrossentropy()
    tape = ps.GradientTape()
    old = loss_fn(labels, model(values))
    loss_fn(labels, model(values))
    raises(ValueError, "another loss", tape.gradient, old, model.trainable_variables)
    raises(TypeError, "penstock.losses", tape.gradient, 1.0, model.trainable_variables)
    raises(TypeError, "model(images)", loss_fn, labels, values)
    optimizer = ps.optimizers.Adam()
    raises(ValueError, "scaled", optimizer.get_unscaled_gradients, [])
    model.train_step(values, labels)
    gradients = model.gradients()
    pairs = [(gradients[v.name], v) for v in model.trainable_variables]
    raises(ValueError, "been trained with another", ps.optimizers.SGD().apply_gradients, pairs)


def test_fit_follows_the_validation():
    """A plateau of the validation loss lowers the rate; class weights count; names of classes are saved."""
    values, labels = points(120)
    data = ps.from_arrays({"x": values, "label": labels}).batch(40)
    rates = []

    class Watch:
        def on_batch_end(self, step, logs):
            rates.append(logs["learning_rate"])

    model = ps.Model(TEXT, input=(2,), learning_rate=1e-9, schedule="plateau", plateau_patience=1, gamma=0.5)
    far = array.array("q", [(label + 1) % 3 for label in labels])
    worse = ps.from_arrays({"x": values, "label": far}).batch(40)
    model.fit(data, epochs=4, validation=worse, callbacks=[Watch()])
    assert rates[0] == 1e-9 and min(rates) < 1e-9, rates
    plain, weighted = (ps.Model(TEXT, input=(2,), seed=1) for _ in range(2))
    plain.fit(data)
    weighted.fit(data, class_weight={0: 3.0, 2: 0.0})
    assert flat(plain.weights["dense_1/kernel"]) != flat(weighted.weights["dense_1/kernel"])
    with tempfile.TemporaryDirectory() as folder:
        weighted.class_names = ["ant", "bee", "cat"]
        weighted.save(f"{folder}/model")
        assert ps.Model.load(f"{folder}/model").class_names == ["ant", "bee", "cat"]
        again = ps.Model(TEXT, input=(2,), seed=9).load_weights(f"{folder}/model")
        assert flat(again.weights["dense_1/kernel"]) == flat(weighted.weights["dense_1/kernel"])


def test_accumulate():
    values, labels = points(80)
    halves, whole = ps.Model(TEXT, input=(2,), seed=4, accumulate=2), ps.Model(TEXT, input=(2,), seed=4)
    halves.fit(ps.from_arrays({"x": values, "label": labels}).batch(40))
    whole.fit(ps.from_arrays({"x": values, "label": labels}).batch(80))
    assert halves.steps == whole.steps == 1
    for a, b in zip(memoryview(halves.weights["dense_1/kernel"]).tolist(), memoryview(whole.weights["dense_1/kernel"]).tolist()):
        assert all(abs(x - y) < 1e-6 for x, y in zip(a, b))


def test_close_refuses_nan():
    values, labels = points(8)
    data = ps.from_arrays({"x": values, "label": labels}).batch(4)
    raises(ValueError, "timeout", data.close, math.nan)
    raises(ValueError, "timeout", data.close, -1)
    data.close(0)


if __name__ == "__main__":
    tap.main(globals())
