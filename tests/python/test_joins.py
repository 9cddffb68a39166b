"""Joins of datasets in Python: the same as their text."""
import json
import pickle

import penstock as ps
import tap


def rows(ds, field="value"):
    return [v for batch in ds.batch(7) for v in batch[field].tolist()]


def numbers(*arguments):
    return ps.range(*arguments)


def test_zip_and_concatenate():
    a, b = numbers(4), numbers(10, 20).rename("value", "other")
    got = [(x, y) for batch in a.zip(b).batch(3) for x, y in zip(batch["value"].tolist(), batch["other"].tolist())]
    assert got == [(0, 10), (1, 11), (2, 12), (3, 13)]
    assert rows(ps.zip(b, a), "other") == [10, 11, 12, 13]
    assert rows(numbers(3).concatenate(numbers(5, 7), numbers(1))) == [0, 1, 2, 5, 6, 0]
    assert rows(ps.concatenate(numbers(3).filter("value != 1"), numbers(5, 7))) == [0, 2, 5, 6]


def test_sample_choose_interleave():
    text = "sample (range 70) (range 100 130) weights=0.7,0.3 seed=3"
    assert rows(ps.sample([numbers(70), numbers(100, 130)], weights=[0.7, 0.3], seed=3)) == rows(ps.pipeline(text))
    mixed = rows(ps.sample([numbers(5), numbers(100, 130)], stop="all"))
    assert sorted(mixed) == [*range(5), *range(100, 130)]
    assert rows(ps.choose([numbers(10), numbers(100, 110)], [0, 1, 1]).take(6)) == [0, 100, 101, 1, 102, 103]
    index = numbers(6).expr("value % 2", "which")
    assert rows(ps.choose([numbers(10), numbers(100, 110)], index, field="which")) == [0, 100, 1, 101, 2, 102]
    three = [numbers(4), numbers(10, 13), numbers(20, 25)]
    assert rows(ps.interleave(three, cycle=2, block=2, num_parallel_calls=ps.AUTOTUNE)) == [
        0, 1, 10, 11, 2, 3, 12, 20, 21, 22, 23, 24]


def test_functions_and_arrays_in_branches():
    import array

    x = ps.from_arrays({"value": array.array("q", [7, 8, 9])}).map(lambda value: value * 2, spec={"value": ("int64", ())})
    assert rows(numbers(2).concatenate(x).shuffle(seed=1).shard(1, 0).take(5).repeat(1)) != []
    assert sorted(rows(numbers(2).concatenate(x))) == [0, 1, 14, 16, 18]
    assert rows(x.concatenate(x, numbers(1))) == [14, 16, 18, 14, 16, 18, 0]


def test_resume_copy_and_plan():
    ds = ps.sample([numbers(40).shuffle(), numbers(100, 160)], weights=[1, 2], seed=1).shuffle(seed=2).batch(4)
    whole = [batch["value"].tolist() for batch in ds]
    half = ps.sample([numbers(40).shuffle(), numbers(100, 160)], weights=[1, 2], seed=1).shuffle(seed=2).batch(4)
    loop = iter(half)
    for _ in range(3):
        next(loop)
    state = half.state_dict()
    other = pickle.loads(pickle.dumps(half))
    other.load_state_dict(state)
    assert [batch["value"].tolist() for batch in other] == whole[3:]
    plan = ds.plan()
    assert "branch 1 of sample: 40 elements" in plan and "branch 2 of sample: 60 elements" in plan, plan
    operations = json.loads(ds._engine().describe(True))["operations"]
    assert [len(branch) for branch in operations[0]["branches"]] == [2, 1]


def raises(kind, part, function):
    try:
        function()
    except kind as error:
        assert part in str(error), error
        return
    raise AssertionError(f"expected {kind.__name__} with {part!r}")


def test_mistakes():
    a, b = numbers(4), numbers(4)
    raises(ps.Error, "both have a field value", lambda: list(a.zip(b)))
    raises(ps.Error, "the weight of branch 2 is 0", lambda: list(ps.sample([a, b], weights=[1, 0])))
    raises(ps.Error, "branch 2 is empty", lambda: list(ps.sample([a, numbers(0)])))
    raises(ps.Error, "must have the same fields", lambda: list(a.concatenate(b.cast("f32", "value"))))
    raises(TypeError, "joins datasets", lambda: a.zip([1, 2]))
    raises(ValueError, "different options", lambda: a.with_options(seed=1).zip(b.with_options(seed=2)))
    raises(ValueError, "num_parallel_calls", lambda: ps.interleave([a], num_parallel_calls=-3))
    raises(ps.Error, "there is no field valu", lambda: list(a.filter("valu > 1")))


if __name__ == "__main__":
    tap.main(globals())
