"""Python functions and generators in pipelines: what they get and give, where they run, how they fail."""

import array
import ctypes
import os
import signal
import subprocess
import tempfile
import threading
import traceback

import penstock as ps
import tap
from data import child, raises
from patience import memory_settles
from penstock import _functions as functions
from penstock._process import Pool

PAIR = {"a": array.array("q", range(8)), "b": array.array("d", [i / 2 for i in range(8)])}


def rows(ds):
    return [{name: tensor.tolist() for name, tensor in batch.items()} for batch in ds]


def test_parameters_are_fields():
    ds = ps.from_arrays(PAIR).map(lambda a: 10 * a).batch(8)
    assert rows(ds) == [{"a": [10 * i for i in range(8)], "b": [i / 2 for i in range(8)]}]
    assert rows(ps.from_arrays(PAIR).map(lambda b, a: (b + 1, -a)).batch(8)) == [
        {"a": [-i for i in range(8)], "b": [i / 2 + 1 for i in range(8)]}
    ]
    assert rows(ps.from_arrays(PAIR).map(lambda x, y: (x, int(y)), spec={"a": "int64", "b": "int64"}).batch(4))[0]["b"] == [
        0,
        0,
        1,
        1,
    ]
    assert rows(ps.from_arrays(PAIR).map(lambda *all: all).batch(8)) == rows(ps.from_arrays(PAIR).batch(8))


def test_one_parameter_gets_everything():
    ds = ps.from_arrays(PAIR).map(lambda row: {"sum": row["a"] + row["b"], "text": f"{row['a']}"}).batch(3)
    assert ds.element_spec == {"sum": ((None,), "float32"), "text": ((None,), "bytes")}
    assert rows(ds)[1] == {"sum": [4.5, 6, 7.5], "text": [b"3", b"4", b"5"]}


def test_new_fields_and_types():
    ds = ps.range(1, 4).map(lambda value: {"list": [b"x"] * value, "half": value / 2, "odd": value % 2 == 1}).batch(3)
    assert rows(ds)[0] == {
        "value": [1, 2, 3],
        "list": [[b"x"], [b"x"] * 2, [b"x"] * 3],
        "half": [0.5, 1, 1.5],
        "odd": [1, 0, 1],
    }


def test_shapes_that_vary_are_declared():
    def tail(value):
        return array.array("f", range(value))

    ds = ps.range(4).map(lambda value: {"x": tail(value)}, spec={"x": ("float32", (None,))}).batch(4)
    assert rows(ds)[0]["x"] == [[], [0], [0, 1], [0, 1, 2]]
    with raises(ps.Error, "field x: float32 (1,), planned float32 (0,)", "spec="):
        rows(ps.range(4).map(lambda value: {"x": tail(value)}).batch(4))


def unnamed(count, itemsize):
    """A buffer of items that has no format, as an exporter in C may leave it."""

    class Buffer(ctypes.Structure):
        _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p)]
        _fields_ += [(name, ctypes.c_ssize_t) for name in ("len", "itemsize")]
        _fields_ += [(name, ctypes.c_int) for name in ("readonly", "ndim")]
        _fields_ += [(name, ctypes.c_void_p) for name in ("format", "shape", "strides", "suboffsets", "internal")]

    class Slot(ctypes.Structure):
        _fields_ = [("number", ctypes.c_int), ("function", ctypes.c_void_p)]

    class Spec(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char_p), ("basicsize", ctypes.c_int), ("itemsize", ctypes.c_int)]
        _fields_ += [("flags", ctypes.c_uint), ("slots", ctypes.POINTER(Slot))]

    memory, shape = ctypes.create_string_buffer(count * itemsize), ctypes.c_ssize_t(count)

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Buffer), ctypes.c_int)
    def get(owner, view, flags):
        fill = ctypes.pythonapi.PyBuffer_FillInfo
        fill.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_int]
        fill(view, owner, ctypes.addressof(memory), count * itemsize, 0, flags)
        view.contents.itemsize, view.contents.format, view.contents.shape = itemsize, None, ctypes.addressof(shape)
        return 0

    slots = (Slot * 2)(Slot(1, ctypes.cast(get, ctypes.c_void_p)), Slot(0, None))  # Py_bf_getbuffer
    make = ctypes.pythonapi.PyType_FromSpec
    make.restype, make.argtypes = ctypes.py_object, [ctypes.POINTER(Spec)]
    kind = make(Spec(b"test.Unnamed", object.__basicsize__, 0, 0, slots))
    unnamed.keep += [get, memory, shape, slots]
    return kind()


unnamed.keep = []


def test_buffers_without_a_format():
    """An error that shows the format must not fall over one that is not said."""
    with raises(ValueError, "an array of format B and 1 dimensions"):
        ps.from_arrays({"x": unnamed(4, 2)}).plan()
    if functions.numpy is not None:
        raise tap.Skip("NumPy takes such a buffer first")
    ds = ps.range(4).map(lambda value: {"x": unnamed(4, 2)}, spec={"x": ("float32", (2,))}).batch(4)
    with raises(ps.Error, "field x: B (4,), planned float32 (2,)"):
        rows(ds)


def test_order_threads_and_later_operations():
    def threads(value):
        seen.add(threading.get_ident())
        return value

    seen = set()
    one = rows(ps.range(500).map(threads).shuffle(seed=1).cast("f32", field="value").batch(7).with_options(workers=1))
    two = rows(ps.range(500).map(threads).shuffle(seed=1).cast("f32", field="value").batch(7).with_options(workers=2))
    assert one == two and threading.get_ident() not in seen - {threading.main_thread().ident} and len(seen) >= 2


def test_seeds_belong_to_samples_and_epochs():
    def draws(workers):
        ds = ps.range(100).map(lambda value, seed: {"seed": seed >> 1}).batch(10).with_options(workers=workers)
        return [rows(ds), rows(ds)]

    first, again = draws(1), draws(2)
    assert first == again and first[0] != first[1]
    assert len({seed for batch in first[0] for seed in batch["seed"]}) == 100


def test_seeds_belong_to_batches_and_epochs():
    def draws(**options):
        ds = ps.range(100).batch(10).map(lambda value, seed: {"seed": array.array("q", [seed >> 1])}).with_options(**options)
        return [[batch["seed"][0] for batch in ds] for _ in range(2)]

    first, again = draws(), draws()
    assert first == again and len({seed for epoch in first for seed in epoch}) == 20
    for world in (2, 3):  # a batch has its seed wherever it is delivered; two ranks never draw alike
        ranks = [draws(rank=rank, world=world, uneven="allow") for rank in range(world)]
        assert [[rank[epoch][i // world] for i, rank in zip(range(10), ranks * 10)] for epoch in range(2)] == first
    padded = draws(rank=0, world=3)[0] + draws(rank=1, world=3)[0] + draws(rank=2, world=3)[0]
    assert len(padded) == len(set(padded)) == 12


def fails(value):
    if value == 7:
        raise ZeroDivisionError("at seven")
    return value


def test_exceptions_tell_the_place_and_the_line():
    for workers in (1, 2):
        ds, seen = ps.range(20).map(fails).batch(3).with_options(workers=workers), []
        try:
            for batch in ds:
                seen += batch[0].tolist()
            raise AssertionError("no error")
        except ps.Error as error:
            assert str(error) == "record 7: map: fails: ZeroDivisionError: at seven" and (error.op, error.record) == ("map", 7)
            assert isinstance(error.__cause__, ZeroDivisionError)
            text = "".join(traceback.format_exception(error))
            assert 'raise ZeroDivisionError("at seven")' in text and seen == list(range(6)), text
        assert rows(ps.range(5).map(fails).batch(5)) == [{"value": [0, 1, 2, 3, 4]}]


def test_mistakes_show_at_the_plan():
    for function, words in (
        (lambda a, c, d: a, "are not among the fields (a, b)"),
        (lambda a, b: a, "return a tuple"),
        (lambda a: object(), "object: not an array of numbers"),
    ):
        with raises(ps.Error, words):
            ps.from_arrays(PAIR).map(function).plan()
    with raises(ValueError, "thread or process"):
        ps.range(3).map(fails, workers="gpu")
    with raises(ValueError, "sample or batch"):
        ps.range(3).map(fails, per="epoch")


def test_batches():
    def double(value):
        return array.array("q", [2 * v for v in value.tolist()])

    ds = ps.range(10).batch(4).map(double).prefetch(2)
    assert [batch["value"].tolist() for batch in ds] == [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18]]
    assert "one batch per call" in ds.plan() and "ms per batch in 3 batches" in ds.plan()
    (value,) = next(iter(ds))
    assert value.tolist() == [0, 2, 4, 6] and ds.element_spec == {"value": ((None,), "int64")} and len(ds) == 3
    twice = ps.range(10).batch(4).map(double).map(lambda value: {"more": double(value)})
    assert [batch["more"].tolist() for batch in twice][2] == [32, 36] and [len(batch) for batch in twice] == [2, 2, 2]
    with raises(ValueError, "spec is for functions that get samples"):
        ps.range(8).batch(4).map(double, spec={"value": ("int64", (None,))})
    with raises(ValueError, "before the map"):
        ds.cast("f32", field="value")
    text = ps.pipeline("range 10 | batch 4").map(double)
    assert [batch[0].tolist() for batch in text][0] == [0, 2, 4, 6]


def test_batches_resume_and_fail_in_order():
    def check(value):
        if value[0] == 8:
            raise KeyError("eight")
        return value

    seen = []
    with raises(ps.Error, "batch 2 of this iteration (records 8 to 11): ", "check: KeyError: 'eight'"):
        for batch in ps.range(20).batch(4).map(check):
            seen.append(batch["value"].tolist())
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7]]

    def make():
        return ps.range(40).shuffle(seed=5).batch(4).map(lambda value: value)

    whole = [batch[0].tolist() for batch in make()]
    ds = make()
    for i, _ in enumerate(ds):
        if i == 3:
            break
    again = make()
    again.load_state_dict(ds.state_dict())
    assert [batch[0].tolist() for batch in again] == whole[4:]


def test_batches_resume_where_a_function_failed():
    for bad in (0, 20):
        broken = True

        def check(value):
            if broken and value[0] == bad:
                raise OSError("not now")
            return value

        ds = ps.range(100).batch(10).map(check)
        with raises(ps.Error, "not now"):
            list(ds)
        broken, again = False, ps.range(100).batch(10).map(check)
        again.load_state_dict(ds.state_dict())
        assert next(iter(again))["value"].tolist()[0] == bad


def test_processes():
    def who(value):
        return {"value": value, "pid": os.getpid()}

    batches = rows(ps.range(40).map(who, workers="process").batch(10))
    pids = {pid for batch in batches for pid in batch["pid"]}
    assert [batch["value"] for batch in batches] == [list(range(i, i + 10)) for i in range(0, 40, 10)]
    assert os.getpid() not in pids and len(pids) <= len(os.sched_getaffinity(0))
    try:
        rows(ps.range(20).map(fails, workers="process").batch(3))
        raise AssertionError("no error")
    except ps.Error as error:
        text = "".join(traceback.format_exception(error))
        assert error.record == 7 and 'raise ZeroDivisionError("at seven")' in text and "RemoteTraceback" in text, text

    def dies(value):
        os._exit(3)

    with raises(ps.Error, "exit code 3"):
        rows(ps.range(4).map(dies, workers="process", spec={"value": "int64"}).batch(2))


def test_a_failure_that_is_asked_for_again():
    batches = iter(ps.range(7, 9).map(fails, spec={"value": "int64"}).batch(2))
    for _ in range(3):
        try:
            next(batches)
            raise AssertionError("no error")
        except ps.Error as error:
            assert error.errno is None and "Unknown" not in str(error) and isinstance(error.__cause__, ZeroDivisionError), error


def test_processes_raise_what_functions_raise():
    """Also what a process that ends looks like."""

    def fails(value):
        raise EOFError("the file is cut off")

    samples = ps.range(4).map(fails, workers="process", spec={"value": "int64"}).batch(2)
    for ds in (samples, ps.range(4).batch(2).map(fails, workers="process")):
        with raises(ps.Error, "EOFError: the file is cut off"):
            rows(ds)


def test_processes_that_were_killed_are_replaced():
    with tempfile.TemporaryDirectory() as folder:
        flag = os.path.join(folder, "kill")

        def killed(value):
            try:
                os.unlink(flag)
            except FileNotFoundError:
                return value
            os.kill(os.getpid(), signal.SIGKILL)

        open(flag, "w").close()
        ds = ps.range(100).map(killed, workers="process", spec={"value": "int64"}).batch(10)
        assert [v for batch in rows(ds) for v in batch["value"]] == list(range(100))  # the other calls of its message are repeated
        assert not os.path.exists(flag)
        ds.close()  # it is ahead, and would take the next flag

        pool = Pool(lambda value: {"value": killed(value)}, killed)
        for i in range(2 * len(os.sched_getaffinity(0)) + 1):
            open(flag, "w").close()
            with raises(RuntimeError, "exit code -9", "memory"):
                pool(i)
            assert pool(i) == {"value": i}
        pool.close()


def test_a_sample_that_ends_its_process_is_alone():
    def ends(value):
        if value in (3, 37, 38):
            os._exit(4)
        return value

    ds = ps.range(100).map(ends, workers="process", spec={"value": "int64"}).batch(20)
    try:
        rows(ds.with_options(prefetch=1))
        raise AssertionError("no error")
    except ps.Error as error:
        assert error.record == 3 and "exit code 4" in str(error), error
    skipping = ds.with_options(bad="skip")
    assert [v for batch in rows(skipping) for v in batch["value"]] == [v for v in range(100) if v not in (3, 37, 38)]
    assert skipping.stats()["skipped"] == 3


def test_samples_of_one_message_are_judged_one_by_one():
    def judge(value, text):
        if value % 7 == 3:
            raise ps.Skip
        if value % 7 == 5:
            raise LookupError(f"no {value}")
        if value % 7 == 6:
            return {"value": value, "text": None}  # not a text
        return {"value": value * 10, "text": text * 2}

    texts = [b"%d" % i for i in range(100)]
    source = ps.from_arrays({"value": memoryview(array.array("q", range(100))), "text": texts})
    want = [(v * 10, texts[v] * 2) for v in range(100) if v % 7 not in (3, 5, 6)]
    for workers in ("thread", "process"):
        ds = source.map(judge, workers=workers).batch(33).with_options(bad="skip", workers=2)
        found = [pair for batch in rows(ds) for pair in zip(batch["value"], batch["text"])]
        assert found == want, (workers, found)
        with raises(ps.Error, "no 5"):
            rows(source.map(judge, workers=workers).batch(33))


def test_seeds_are_those_of_threads():
    def draw(value, seed):
        return {"value": value, "drawn": seed >> 1}

    for chain in (lambda ds: ds, lambda ds: ds.shuffle()):
        thread, process = ([rows(chain(ps.range(50)).map(draw, workers=workers).batch(16)) for workers in ("thread", "process")])
        assert thread == process and len({v for batch in thread for v in batch["drawn"]}) == 50


class Demanding(Exception):
    """Pickles, but cannot be read: its arguments are not those of its constructor."""

    def __init__(self, code, place):
        super().__init__(f"code {code} at {place}")


def test_exceptions_that_cannot_be_sent():
    class Local(Exception):
        pass

    for error in (Demanding(7, "noon"), Local("code 7 at noon")):

        def fail(value):
            raise error

        for ds in (
            ps.range(4).map(fail, workers="process", spec={"value": "int64"}).batch(2),
            ps.range(4).batch(2).map(fail, workers="process"),
        ):
            try:
                rows(ds)
                raise AssertionError("no error")
            except ps.Error as failure:
                text = "".join(traceback.format_exception(failure))
                assert f"{type(error).__name__}: code 7 at noon" in str(failure) and "raise error" in text, text


def test_one_kind_of_exception():
    """Functions of samples and of batches, in threads and in processes: an Error that names the place, from what the function raised."""

    def fails(value):
        raise ZeroDivisionError("no way")

    for workers in ("thread", "process"):
        for ds in (ps.range(4).map(fails, workers=workers, spec={"value": "int64"}).batch(2), ps.range(4).batch(2).map(fails, workers=workers)):
            try:
                rows(ds)
                raise AssertionError("no error")
            except ps.Error as error:
                assert type(error.__cause__) is ZeroDivisionError and "ZeroDivisionError: no way" in str(error) and "record" in str(error), error


def test_three_thousand_workers():
    """More workers than the engine starts are refused, with the limit; the limit itself works."""
    with raises(ValueError, "workers=3000; expected 0 to 256"):
        rows(ps.range(10).batch(2).with_options(workers=3000))
    assert len(list(ps.range(10).batch(2).with_options(workers=256))) == 5


def test_messages_do_not_name_c_functions():
    """What people read who have never seen the C interface."""
    ds = ps.range(10).batch(2)
    state = ds.state_dict()
    for wrong in (lambda: ps.pipeline("arrays | batch 2").plan(), lambda: ds.load_state_dict({**state, "cursor": b"nonsense" * 9}), lambda: ps.pipeline("generator | batch 2").plan()):
        try:
            wrong()
        except (ps.Error, ValueError, TypeError) as error:
            assert "pst_" not in str(error), error
    tool = os.environ.get("PENSTOCK")
    if tool:
        text = subprocess.run([tool, "ops", "arrays"], capture_output=True, text=True).stdout
        assert "Arrays in memory" in text and "pst_" not in text, text


def test_results_that_cannot_be_sent():
    """The exception says so; the process stays, and the samples beside it have their results."""

    def odd(value):
        return {"value": open(os.devnull) if value == 5 else value, "process": os.getpid()}

    pool = Pool(odd, odd)
    try:
        results = pool.call_all([(value,) for value in (4, 5, 6)])
        assert results[0]["value"] == 4 and results[2]["value"] == 6, results
        assert isinstance(results[1].error, TypeError) and "cannot be sent from its process" in str(results[1].error), results[1].error
        assert "pickle" in str(results[1].error) and results[0]["process"] == results[2]["process"]
    finally:
        pool.close()


def test_groups_go_with_their_workers():
    """What the engine's workers have prepared is not kept after they are gone."""
    from penstock import _functions

    kept, made = [], _functions.SampleFunction.prepare

    def prepare(self, worker, place, values):
        kept.append(self)
        return made(self, worker, place, values)

    _functions.SampleFunction.prepare = prepare
    try:
        ds = ps.range(1000).map(lambda value: value + 1, workers="process", spec={"value": "int64"}).batch(10)
        for _ in range(4):
            next(iter(ds))
            state = ds.state_dict()
            ds.load_state_dict(state)  # the workers of before are gone
        groups = kept[-1].groups
        assert len(groups) <= 2 * os.cpu_count(), len(groups)
        ds.close()
        assert not groups, groups
    finally:
        _functions.SampleFunction.prepare = made


def test_processes_neither_mix_nor_change_arrays():
    """What a function gets lies in no memory that results, or the next call, are written to."""

    def table(first):
        return memoryview(array.array("f", range(first, first + 12000))).cast("B").cast("f", (4, 3000))

    a, b = table(0), table(20000)
    source, kept = ps.from_arrays({"a": a, "b": b}), []

    def swap(a, b):
        return b, a

    def keep(a, b):
        kept.append(a)
        return {"first": kept[0].tolist()[0], "pid": os.getpid()}

    for workers in ("thread", "process"):
        for ds in (source.map(swap, workers=workers).batch(4), source.batch(4).map(swap, workers=workers)):
            (batch,) = ds
            assert batch["a"].tolist() == b.tolist() and batch["b"].tolist() == a.tolist(), workers
        kept.clear()
        spec = {"first": "float32", "pid": "int64"}
        ds = source.repeat(50).map(keep, workers=workers, spec=spec).batch(1).with_options(workers=1)
        seen = {(row["pid"][0], row["first"][0]) for row in rows(ds)}
        assert len(seen) == len({pid for pid, _ in seen}), (workers, seen)


CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int64)
)


@CALLBACK
def triple(inputs, outputs, sizes):
    source, target = (ctypes.cast(p[0], ctypes.POINTER(ctypes.c_int64)) for p in (inputs, outputs))
    for i in range(sizes[0]):
        target[i] = 3 * source[i]
    return 1 if source[0] == 13 else 0


def test_compiled():
    ds = ps.range(6).map(triple).batch(6)
    assert rows(ds) == [{"value": [0, 3, 6, 9, 12, 15]}] and "workers=compiled" in ds.plan()
    with raises(ps.Error, "record 13", "returned 1"):
        rows(ps.range(20).map(triple).batch(2))


def test_generators():
    def count():
        for i in range(7):
            yield {"x": array.array("f", [i, i]), "y": i, "s": "ab" * i}

    ds = ps.from_generator(count).batch(3)
    assert ds.element_spec == {"x": ((None, 2), "float32"), "y": ((None,), "int64"), "s": ((None,), "bytes")}
    assert rows(ds)[2] == {"x": [[6, 6]], "y": [6], "s": [b"ab" * 6]} and len(rows(ds)) == 3
    assert rows(ps.from_generator(lambda: ((i, i / 2) for i in range(4))).batch(4)) == [
        {"x": [0, 1, 2, 3], "y": [0, 0.5, 1, 1.5]}
    ]
    shuffled = ps.from_generator(count).shuffle(seed=1).batch(7)
    first, second = rows(shuffled)[0]["y"], rows(shuffled)[0]["y"]
    assert sorted(first) == sorted(second) == list(range(7)) and first != second
    resumed = ps.from_generator(count).batch(3)
    next(iter(resumed))
    again = ps.from_generator(count).batch(3)
    again.load_state_dict(resumed.state_dict())
    assert rows(again)[0]["y"] == [3, 4, 5]
    with raises(TypeError, "unknown"):
        len(ds)

    with raises(TypeError, "expected a dict such as"):
        len(ps.from_generator(count, "y:int64").batch(1).plan())

    def broken():
        yield 1
        raise OSError("the disk is gone")

    with raises(ps.Error, "the disk is gone"):
        rows(ps.from_generator(broken).batch(1))
    with raises(ValueError, "empty"):
        ps.from_generator(lambda: ()).plan()


def test_inputs_may_be_kept():
    kept = []
    x = memoryview(array.array("f", range(3000))).cast("B").cast("f", (1000, 3))
    ds = ps.from_arrays({"x": x}).map(lambda x: kept.append(x) or x).batch(10)
    for _ in ds:
        pass
    assert {tuple(row.tolist()) for row in kept} == set(map(tuple, x.tolist()))


def test_no_leak():
    x = memoryview(array.array("f", range(3000))).cast("B").cast("f", (100, 30))
    ds = ps.from_arrays({"x": x}).map(lambda x: {"x": x, "t": "text"}).repeat().batch(10)
    batches = iter(ds)
    for _ in range(200):
        next(batches)
    memory_settles(lambda: [next(batches) and None for _ in range(1500)], 2 << 20)


def test_numbers_that_do_not_fit():
    fits = [("uint8", 0), ("uint8", 255), ("int32", -(2**31)), ("int32", 2**31 - 1), ("int64", -(2**63)), ("int64", 2**63 - 1)]
    beyond = [("uint8", 256), ("uint8", -1), ("int32", 2**31), ("int32", -(2**31) - 1), ("int64", 2**63), ("int64", 10**30)]
    chains = {
        "map": lambda dtype, n: ps.range(2).map(lambda value: {"x": n}, spec={"x": dtype}),
        "generator": lambda dtype, n: ps.from_generator(lambda: iter([n, n]), spec={"x": dtype}),
    }
    for make in chains.values():
        for dtype, n in fits:
            assert rows(make(dtype, n).batch(2))[0]["x"] == [n, n], (dtype, n)
        for dtype, n in beyond:
            with raises(ps.Error, "OverflowError", "field x", f"{n} does not fit {dtype}"):
                rows(make(dtype, n).batch(2))
        with raises(ps.Error, "TypeError", "field x", "0.5 for int32"):
            rows(make("int32", 0.5).batch(2))


def test_a_generator_without_memory():
    """Room for a copy of the list, but not for the engine's table of its strings."""
    done = child("""
import resource
import penstock as ps
COUNT = 8 << 20
def strings():
    yield {"x": [b""]}
    many = [b""] * COUNT
    with open("/proc/self/statm") as f:
        size = int(f.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 12 * COUNT, resource.RLIM_INFINITY))
    yield {"x": many}
batches = iter(ps.from_generator(strings, spec={"x": ("bytes", (None,))}).batch(1).with_options(workers=1))
next(batches)
try:
    next(batches)
except ps.Error as error:
    print(type(error.__cause__).__name__, flush=True)
""")
    assert (done.returncode, done.stdout) == (0, "MemoryError\n"), done


if __name__ == "__main__":
    tap.main(globals())
