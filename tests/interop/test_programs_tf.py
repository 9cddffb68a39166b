"""Random programs of structural operations against TensorFlow, element by element.

A program is a tree: a source of numbers, operations on one program (UNARY), joins of several (JOINS), and perhaps a batch at the
end (TAILS). To add an operation, add an entry to one of these tables: how its arguments are drawn, its text, and what it is in
TensorFlow. Every program has a seed, which a failure prints with the smallest program that still fails:

    PROGRAM_SEED=123 PROGRAMS=1 run.py test_programs_tf.py       runs one program again
"""
import atexit
import os
import random
import shutil
import tempfile
from collections import namedtuple

import numpy as np
import tensorflow as tf

import penstock as ps
import tap

PROGRAMS = int(os.environ.get("PROGRAMS", "2000"))
FIRST_SEED = int(os.environ.get("PROGRAM_SEED", "20260"))
FOLDER = tempfile.mkdtemp(prefix="programs-")  # of snapshots
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
MOST = 120  # elements that are compared; endless programs are cut off here

# draw(rng, program) gives the arguments, or None where the operation does not apply; text(args) the text of the operation;
# apply(dataset, args) the same in TensorFlow; adds: it adds a field.
Unary = namedtuple("Unary", "draw text apply adds", defaults=(False,))
Join = namedtuple("Join", "draw text apply together", defaults=(False,))


class Program:
    """`kind` names an entry of the tables, or is "range"; elements have the fields `fields`, in order."""

    def __init__(self, kind, args, children=(), fields=()):
        self.kind, self.args, self.children, self.fields = kind, args, tuple(children), tuple(fields)

    @property
    def endless(self):
        if self.kind == "repeat" and self.args == (-1,):
            return True
        if self.kind == "take" and self.args[0] >= 0:
            return False
        if self.kind == "zip":
            return all(child.endless for child in self.children)
        return any(child.endless for child in self.children)


# ---- The tables ----

PREDICATES = {  # over one field x of whole numbers
    "{x} % 3 == 1": lambda x: x % 3 == 1,
    "{x} > 4": lambda x: x > 4,
    "{x} in (0, 2, 5, 7, 11)": lambda x: tf.reduce_any(x == tf.constant([0, 2, 5, 7, 11], tf.int64)),
    "not ({x} // 2 == 1 or {x} < 1)": lambda x: not (x // 2 == 1 or x < 1),
    "{x} * {x} - 3 * {x} > 10": lambda x: x * x - 3 * x > 10,
}
FORMULAS = {
    "{x} * 2 + 1": lambda x: x * 2 + 1,
    "-{x} // 3": lambda x: -x // 3,
    "-{x} % 5": lambda x: -x % 5,
    "min({x}, 4) - max({x}, 2)": lambda x: tf.minimum(x, 4) - tf.maximum(x, 2),
}


def apply_filter(dataset, args):
    return dataset.filter(lambda e: PREDICATES[args[0]](e[args[1]]))


def apply_expr(dataset, args):
    return dataset.map(lambda e: {**e, args[2]: FORMULAS[args[0]](e[args[1]])})


def new_field(program):
    return f"f{len(program.fields)}"


UNARY = {
    "take": Unary(lambda r, p: (r.choice((-1, 0, 1, 2, 5, 9, 30)),), lambda a: f"take {a[0]}", lambda d, a: d.take(a[0])),
    "skip": Unary(lambda r, p: (r.choice((0, 1, 2, 4, 11)),), lambda a: f"skip {a[0]}", lambda d, a: d.skip(a[0])),
    "repeat": Unary(lambda r, p: (r.choice((0, 1, 2, 3, -1)),), lambda a: f"repeat {a[0]}", lambda d, a: d.repeat(a[0])),
    "shard": Unary(lambda r, p: (lambda n: (n, r.randrange(n)))(r.randint(1, 4)), lambda a: f"shard {a[0]} {a[1]}",
                   lambda d, a: d.shard(*a)),
    "filter": Unary(lambda r, p: None if p.endless else (r.choice(list(PREDICATES)), r.choice(p.fields)),
                    lambda a: f"filter '{a[0].format(x=a[1])}'", apply_filter),
    "enumerate": Unary(lambda r, p: (new_field(p), r.choice((0, 5, -2))), lambda a: f"enumerate {a[0]} start={a[1]}",
                       lambda d, a: d.enumerate(a[1]).map(lambda i, e: {**e, a[0]: i}), adds=True),
    "expr": Unary(lambda r, p: (r.choice(list(FORMULAS)), r.choice(p.fields), new_field(p)),
                  lambda a: f"expr '{a[0].format(x=a[1])}' {a[2]}", apply_expr, adds=True),
}


def apply_unique(dataset, args):
    return dataset.map(lambda e: e[args[0]]).unique().map(lambda value: {args[0]: value})


def apply_snapshot(dataset, args):
    """In one shard, which keeps the order."""
    return dataset.snapshot(f"{args[0]}-tf", shard_func=lambda e: tf.constant(0, tf.int64), reader_func=lambda shards: shards.interleave(lambda d: d, cycle_length=1))


# What begins a stream, or ends one; only at the root of a tree.
STREAMS = {
    "unique": Unary(lambda r, p: (p.fields[0],) if len(p.fields) == 1 and not p.endless else None, lambda a: f"unique {a[0]}", apply_unique),
    "snapshot": Unary(lambda r, p: None if p.endless else (os.path.join(FOLDER, f"{r.randrange(1 << 40):x}"),), lambda a: f"snapshot '{a[0]}'", apply_snapshot),
}


def zipped(datasets, args):
    return tf.data.Dataset.zip(tuple(datasets)).map(lambda *parts: {k: v for part in parts for k, v in part.items()})


def concatenated(datasets, args):
    whole = datasets[0]
    for dataset in datasets[1:]:
        whole = whole.concatenate(dataset)
    return whole


def interleaved(datasets, args):
    cycle, block = args
    nested = concatenated([tf.data.Dataset.from_tensors(dataset) for dataset in datasets], ())
    return nested.interleave(lambda dataset: dataset, cycle_length=cycle or len(datasets), block_length=block)


def chosen(datasets, args):
    numbers, stop = args
    used = sorted(set(numbers))  # TensorFlow waits for inputs that are never chosen
    places = {number: place for place, number in enumerate(used)}
    choices = tf.data.Dataset.from_tensor_slices(np.array([places[n] for n in numbers], np.int64)).repeat()
    return tf.data.Dataset.choose_from_datasets([datasets[n] for n in used], choices, stop_on_empty_dataset=stop == "first")


STEPS = {**UNARY, **STREAMS}

JOINS = {
    "zip": Join(lambda r, n: (), lambda a: "", zipped, together=True),
    "concatenate": Join(lambda r, n: (), lambda a: "", concatenated),
    "interleave": Join(lambda r, n: (r.choice((0, 1, 2, 3, 5)), r.choice((1, 2, 3))), lambda a: f"cycle={a[0]} block={a[1]}",
                       interleaved),
    "choose": Join(lambda r, n: ([r.randrange(n) for _ in range(r.randint(1, 5))], r.choice(("first", "all"))),
                   lambda a: f"list={','.join(map(str, a[0]))} stop={a[1]}", chosen),
}

# What may follow at the end, on batches: (draw, text, apply); the elements are then those of the batches.
TAILS = {
    "batch": (lambda r: (r.randint(1, 7), r.random() < 0.4),
              lambda a: f"batch {a[0]} drop_remainder={'true' if a[1] else 'false'}", lambda d, a: d.batch(a[0], drop_remainder=a[1])),
}


# ---- Programs ----

def draw_range(rng, field):
    start = rng.randint(-3, 20)
    return Program("range", (start, start + rng.choice((0, 1, 2, 3, 5, 8, 13)), rng.choice((1, 1, 2))), (), (field,))


def draw_program(rng, fields, depth):
    """A program whose elements have exactly these fields."""
    kinds = ["unary"] * 3 + (["join"] * 2 if depth > 0 else []) + (["zip"] if len(fields) > 1 and depth > 0 else [])
    if len(fields) == 1 and (depth == 0 or rng.random() < 0.25):
        return draw_range(rng, fields[0])
    kind = rng.choice(kinds) if depth > 0 or len(fields) == 1 else "adds"
    if kind == "zip":
        cut = rng.randint(1, len(fields) - 1)
        parts = [draw_program(rng, part, depth - 1) for part in (fields[:cut], fields[cut:])]
        return Program("zip", (), parts, fields)
    if kind == "join":
        name = rng.choice([name for name, join in JOINS.items() if not join.together])
        children = [draw_program(rng, fields, depth - 1) for _ in range(rng.randint(1, 4))]
        if name == "choose" and len(children) < 2:
            name = "concatenate"
        return Program(name, JOINS[name].draw(rng, len(children)), children, fields)
    adds = len(fields) > 1 and (kind == "adds" or rng.random() < 0.3) and fields[-1] == f"f{len(fields) - 1}"
    if kind == "adds" and not adds:  # names that only a join can give
        return Program("zip", (), [draw_range(rng, field) for field in fields], fields)
    child = draw_program(rng, fields[:-1] if adds else fields, max(0, depth - 1))
    name = rng.choice([name for name, op in UNARY.items() if op.adds == adds])
    args = UNARY[name].draw(rng, child)
    return child if args is None else Program(name, args, (child,), fields)


def draw_stream(rng, fields):
    """A tree, whose elements become a stream or a snapshot and go on: filters of streams, more of both."""
    p = draw_program(rng, fields, rng.randint(0, 2))
    for name in (rng.choice(list(STREAMS)), *rng.choices(("filter", "filter", "take", "skip", "repeat", "shard", *STREAMS), k=rng.randint(1, 3))):
        args = STEPS[name].draw(rng, p)
        p = p if args is None else Program(name, args, (p,), p.fields)
    return p


def text_of(p):
    if p.kind == "range":
        return f"range {p.args[0]} {p.args[1]} {p.args[2]} | rename value {p.fields[0]}"
    if p.kind in STEPS:
        return f"{text_of(p.children[0])} | {STEPS[p.kind].text(p.args)}"
    return f"{p.kind} {' '.join(f'({text_of(child)})' for child in p.children)} {JOINS[p.kind].text(p.args)}".rstrip()


def dataset_of(p):
    if p.kind == "range":
        return tf.data.Dataset.range(*p.args).map(lambda value: {p.fields[0]: value})
    if p.kind in STEPS:
        return STEPS[p.kind].apply(dataset_of(p.children[0]), p.args)
    return JOINS[p.kind].apply([dataset_of(child) for child in p.children], p.args)


# ---- Comparing ----

def ours(p, tail):
    text = f"{text_of(p)} | take {MOST}"
    text += f" | {TAILS[tail[0]][1](tail[1])}" if tail else " | batch 16"
    got = []
    with ps.pipeline(text, workers=2) as dataset:
        for batch in dataset:
            columns = {name: np.asarray(tensor).tolist() for name, tensor in batch.items()}
            rows = [{name: column[i] for name, column in columns.items()} for i in range(batch.size)]
            got += [columns] if tail else rows
    return text, got


def theirs(p, tail):
    dataset = dataset_of(p).take(MOST)
    if tail:
        dataset = TAILS[tail[0]][2](dataset, tail[1])
    return [{name: value.tolist() for name, value in element.items()} for element in dataset.as_numpy_iterator()]


def differs(p, tail):
    """None, or what differs."""
    try:
        text, got = ours(p, tail)
    except ps.Error as error:
        return f"{text_of(p)}: {error}"
    want = theirs(p, tail)
    return None if got == want else f"{text}\n  penstock    {got}\n  tensorflow  {want}"


def smaller(p):
    """Programs that are simpler than `p` and have the same fields."""
    for child in p.children:
        if child.fields == p.fields:
            yield child
    if p.kind in JOINS and p.kind not in ("zip", "choose"):
        for i in range(len(p.children)):
            if len(p.children) > 1:
                yield Program(p.kind, p.args, p.children[:i] + p.children[i + 1:], p.fields)
    for i, child in enumerate(p.children):
        for simple in smaller(child):
            yield Program(p.kind, p.args, p.children[:i] + (simple,) + p.children[i + 1:], p.fields)
    if p.kind == "range" and p.args[1] > p.args[0]:
        yield Program("range", (p.args[0], p.args[1] - 1, p.args[2]), (), p.fields)


def shrunk(p, tail, found):
    """The smallest program that still differs, by taking parts away as long as possible."""
    for _ in range(300):
        for simple in smaller(p):
            still = differs(simple, None) or differs(simple, tail)
            if still:
                p, found = simple, still
                break
        else:
            return found
    return found


def compare(programs, draw, wanted):
    """Draws programs with a seed each, compares them, and counts their operations."""
    tf.get_logger().setLevel("ERROR")
    print(f"# {programs} programs from seed {FIRST_SEED} on", flush=True)
    kinds = {}

    def count(p):
        kinds[p.kind] = kinds.get(p.kind, 0) + 1
        for child in p.children:
            count(child)

    for seed in range(FIRST_SEED, FIRST_SEED + programs):
        rng = random.Random(seed)
        fields = tuple(f"f{i}" for i in range(rng.choice((1, 1, 2, 3))))
        p = draw(rng, fields)
        tail = None
        if rng.random() < 0.3:
            name = rng.choice(list(TAILS))
            tail = (name, TAILS[name][0](rng))
        count(p)
        found = differs(p, tail)
        assert not found, f"PROGRAM_SEED={seed}: {shrunk(p, tail, found)}"
    assert programs < 200 or set(wanted) <= set(kinds), kinds
    print("#", ", ".join(f"{name} {n}" for name, n in sorted(kinds.items())))


def test_programs():
    compare(PROGRAMS, lambda rng, fields: draw_program(rng, fields, rng.randint(1, 3)), {"range", *UNARY, *JOINS})


def test_streams():
    """Streams and snapshots in the middle of a program, with filters after them."""
    compare(PROGRAMS // 8, draw_stream, {"range", *STREAMS, "filter", "take", "skip", "repeat"})


def test_sample_shares():
    """Ours is exact in every block; TensorFlow's has the same shares in the long run."""
    sets = [tf.data.Dataset.range(k * 1000, k * 1000 + 1000).repeat() for k in range(3)]
    weights = (0.5, 0.3, 0.2)
    mixed = tf.data.Dataset.sample_from_datasets(sets, weights, seed=3).take(3000)
    theirs_count = np.bincount([int(v) // 1000 for v in mixed.as_numpy_iterator()], minlength=3)
    text = "sample " + " ".join(f"(range {k * 1000} {k * 1000 + 1000} | repeat)" for k in range(3)) + \
        " weights=0.5,0.3,0.2 seed=3 | take 3000 | batch 100"
    values = np.concatenate([np.asarray(batch["value"]) for batch in ps.pipeline(text)])
    assert (np.bincount(values // 1000, minlength=3) == [1500, 900, 600]).all()
    assert (abs(theirs_count / 3000 - weights) < 0.05).all()
    for block in values.reshape(-1, 10):
        assert (np.bincount(block // 1000, minlength=3) == [5, 3, 2]).all()
    for k in range(3):  # elements of a branch keep their order
        part = values[values // 1000 == k] % 1000
        assert (part == np.arange(len(part)) % 1000).all()


if __name__ == "__main__":
    tap.main(globals())
