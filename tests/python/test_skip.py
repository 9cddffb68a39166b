"""Samples that are left out: bad ones by the policy, others on purpose by ps.Skip."""

import penstock as ps
import tap
from data import raises

SPEC = {"value": "int64"}


def odd(value):
    if value % 2 == 0:
        raise ps.Skip
    return value


def failing(value):
    if value % 10 == 3:
        raise KeyError("three")
    return value


def values(ds):
    return [v for batch in ds for v in batch[0].tolist()]


def test_skip_leaves_samples_out():
    for workers in ("thread", "process"):
        ds = ps.range(20).map(odd, spec=SPEC, workers=workers).batch(4)
        assert values(ds) == list(range(1, 20, 2)) == values(ds), workers
        assert ds.stats()["skipped"] == 20  # in two epochs
    ds = ps.range(20).map(odd, spec=SPEC).batch(4).with_options(bad="skip:1")  # none of them is bad
    assert values(ds) == list(range(1, 20, 2))
    assert values(ps.range(20).map(odd, spec=SPEC).batch(1)) == list(range(1, 20, 2))  # whole batches
    assert values(ps.range(8).map(odd, spec=SPEC).cache().batch(4)) == [1, 3, 5, 7]


def test_skip_of_the_first_element_needs_a_spec():
    with raises(ps.Error, "skips the first element", "spec="):
        list(ps.range(4).map(odd).batch(2))


def test_skip_in_functions_for_batches():
    def only(value):
        if value[0] == 4:
            raise ps.Skip
        return value

    for workers in ("thread", "process"):
        assert [batch[0].tolist() for batch in ps.range(8).batch(4).map(only, workers=workers)] == [[0, 1, 2, 3]]


def test_what_a_function_raises_is_a_bad_sample():
    for workers in ("thread", "process"):
        make = ps.range(40).map(failing, spec=SPEC, workers=workers).batch(5)
        with raises(ps.Error, "KeyError"):
            values(make)
        ds = make.with_options(bad="skip")
        assert values(ds) == [v for v in range(40) if v % 10 != 3] and ds.stats()["skipped"] == 4
        with raises(ps.Error, "the policy allows 2", "three"):
            values(make.with_options(bad="skip:2"))


def test_a_generator_that_raises_has_ended():
    def rows():
        yield {"value": 1}
        raise KeyError("no more")

    with raises(ps.Error, "no more"):
        values(ps.from_generator(rows, spec=SPEC).batch(1).with_options(bad="skip"))


tap.main(globals())
