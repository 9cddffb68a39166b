"""Examples and SequenceExamples in thousands of encodings: our parser against TensorFlow's, values and verdicts.

TensorFlow has two readers: protobuf (`tf.train.Example.FromString`) and a fast parser of its own (`tf.io.parse_…`). Ours
follows protobuf. Every message is compared with our rules as proto.py spells them out, with protobuf, and with the fast
parser; a message with a trait listed below is not compared with the reader that goes its own way there. Each such way is
shown by a specimen in test_known_differences, so that the lists hold nothing that is not true.

EXAMPLE_DUMP is the program example_dump.c.
"""
import collections
import json
import math
import os
import struct
import subprocess

import tensorflow as tf

import proto
import tap
from proto import Damage, Writer, delimited
from tool import scratch

# Where protobuf for Python decides otherwise than our parser.
PROTOBUF = {
    "group": "skips groups; tf.train.Example has none, and we refuse them as the fast parser does",
    "key not UTF-8": "refuses the message; the fast parser and we take any bytes as a name",
    "unknown field in an entry": "drops the whole entry; protobuf for C++ and we skip the field",
    "damage in what is not declared": "reads every feature; the fast parser and we skip those that nobody asked for",
}

# Where the fast parser decides otherwise than protobuf and our parser.
FAST = {
    "entry of other parts": "refuses a map entry that is not two fields, key and value",
    "unknown field in features": "refuses it",
    "feature of several parts": "reads the first list of a Feature, and nothing behind it",
    "list of several parts": "reads the first packed chunk, and nothing behind it; refuses chunks behind single values",
    "padded tag": "knows tags in their shortest form only",
    "unset after set": "takes an earlier value where the last of a key is unset",
    "damage in what is replaced": "looks only at the last of a key",
    "cut short in example": "takes a length beyond the end if what is there is complete",
    "cut short in features": "the same",
    "cut short in feature": "the same",
    "cut short in list": "the same",
    "remainder in list": "ignores bytes behind the last whole float of a chunk",
    "field number 0 in example": "skips it",
    "long tag in example": "skips it, as field number 0",
    "long length": "takes lengths of up to ten bytes",
}

# The fast parser of SequenceExamples is another piece of code, stricter in some of this and laxer in more.
FAST_SEQUENCE = {trait: why for trait, why in FAST.items() if trait not in ("unset after set", "remainder in list")} | {
    "value before key": "wants the key first",
    "unknown field in a feature list": "refuses it",
    "context feature unset": "does not apply the default",
    "cut short in steps": "takes a length beyond the end if what is there is complete",
}
CRASHES = {"cut short in list"}  # the process may end here, so there is no specimen

TF_TYPES = {"bytes": tf.string, "float": tf.float32, "int64": tf.int64}
SCALAR = tf.TensorSpec([], tf.string)


# ---- Running the three readers ----

def dump(messages, *arguments):
    """What our parser prints for each message."""
    with scratch() as folder:
        path = os.path.join(folder, "messages.tfrecord")
        with tf.io.TFRecordWriter(path) as writer:
            for message in messages:
                writer.write(message)
        done = subprocess.run([os.environ["EXAMPLE_DUMP"], *arguments, path], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def comparable(kind, values):
    """Floats as four bytes, any NaN as "nan" (Python's floats lose its payload)."""
    if kind != "float":
        return values
    return ["nan" if math.isnan(*struct.unpack("<f", value)) else value for value in values]


def our_values(found):
    kind, values = found["kind"], found["values"]
    if kind == "float":
        values = [bytes.fromhex(value)[::-1] for value in values]
    elif kind == "bytes":
        values = [bytes.fromhex(value) for value in values]
    return comparable(kind, values)


def tensor_values(tensor):
    """The values of a tensor of any sort, flat."""
    if isinstance(tensor, tf.SparseTensor):
        tensor = tensor.values
    elif isinstance(tensor, tf.RaggedTensor):
        tensor = tensor.flat_values
    flat = tf.reshape(tensor, [-1]).numpy()
    return comparable("float", [value.tobytes() for value in flat]) if flat.dtype == "float32" else flat.tolist()


def protobuf_feature(feature):
    kind = feature.WhichOneof("kind")
    if kind is None:
        return None, []
    kind = kind.removesuffix("_list")
    values = list(getattr(feature, kind + "_list").value)
    return kind, comparable(kind, [struct.pack("<f", value) for value in values] if kind == "float" else values)


def protobuf_example(message):
    """{name: (kind, values)}, or None where protobuf refuses it."""
    try:
        example = tf.train.Example.FromString(message)
    except Exception as error:  # google.protobuf.message.DecodeError has no public home in TensorFlow
        assert type(error).__name__ == "DecodeError", repr(error)
        return None
    return {name.encode(): protobuf_feature(feature) for name, feature in example.features.feature.items()}


def refuses(function, *arguments):
    """The result, or None when TensorFlow refuses the input. It quotes the input, which may not be UTF-8."""
    try:
        return function(*arguments)
    except (tf.errors.InvalidArgumentError, UnicodeDecodeError):
        return None


def by_the_rules(message, declared):
    """What proto.py reads, or None, and the traits met."""
    traits = set()
    try:
        found = proto.read_example(message, declared, traits)
        return {name: (kind, comparable(kind, values)) for name, (kind, values) in found.items()}, traits
    except Damage as why:
        return None, traits | damage_traits(why)


def damage_traits(why):
    return {"group"} if why.why == "group" else {"long length"} if why.why == "long length" else {f"{why.why} in {why.level}"}


# ---- Schemas ----

class Declared:
    """A feature of a schema, for both sides. `count` None is variable; `inner` is the length of ragged rows."""

    def __init__(self, kind, count=None, shape=None, default=None, inner=None, ragged=False):
        self.kind, self.count, self.shape, self.default, self.inner, self.ragged = kind, count, shape, default, inner, ragged

    def text(self, name):
        text = f"{json.dumps(name)}:{self.kind}"
        if self.count is None:
            return text + (f"[*,{self.inner}]" if self.inner else "[*]")
        if self.shape:
            text += str(self.shape).replace(" ", "")
        return text + (f"={self.default}" if self.default is not None else "")

    def tensorflow(self):
        kind = TF_TYPES[self.kind]
        if self.count is None and self.inner:
            rows = tf.io.RaggedFeature.UniformRowLength(self.inner)
            return tf.io.RaggedFeature(kind, partitions=[rows], row_splits_dtype=tf.int64)
        if self.count is None:
            return tf.io.RaggedFeature(kind, row_splits_dtype=tf.int64) if self.ragged else tf.io.VarLenFeature(kind)
        default = None if self.default is None else tf.fill(self.shape or [], tf.constant(self.default, kind)).numpy()
        return tf.io.FixedLenFeature(self.shape or [], kind, default)

    def judge(self, kind, values):
        """The values that a parser must deliver, or None where it must refuse."""
        if kind is None:
            if self.count is None:
                return []
            if self.default is None:
                return None
            value = {"float": lambda v: struct.pack("<f", v), "bytes": str.encode, "int64": int}[self.kind](self.default)
            return [value] * self.count
        fits = self.inner is None or len(values) % self.inner == 0 if self.count is None else len(values) == self.count
        return values if kind == self.kind and fits else None


SCHEMAS = {
    "required": {"x": Declared("float", 2, [2]), "y": Declared("int64", 1), "s": Declared("bytes", 1)},
    "defaults": {"x": Declared("float", 4, [2, 2], 0.5), "y": Declared("int64", 1, None, -7),
                 "s": Declared("bytes", 2, [2], "none")},
    "variable": {"x": Declared("float"), "y": Declared("int64"), "s": Declared("bytes"), "": Declared("bytes")},
    "ragged": {"x": Declared("float", ragged=True), "y": Declared("int64", inner=2), "s": Declared("bytes", inner=3)},
}


def schema_text(schema):
    return " ".join(declared.text(name) for name, declared in schema.items())


def judge(schema, found):
    """{name: values} as a parser must deliver them, or None."""
    if found is None:
        return None
    values = {name: declared.judge(*found.get(name.encode(), (None, []))) for name, declared in schema.items()}
    return None if None in values.values() else values


def messages_for(schema, seed, count, odd, damaged):
    """Messages that mostly fit a schema, beside features that it does not know; many encodings, some damaged."""
    writer = Writer(seed, odd)
    r = writer.random
    names = list(schema) + ["undeclared", "image/encoded"]
    for _ in range(count):
        wanted = []
        for name in r.sample(names, r.randrange(len(names) + 1)) if r.random() < 0.4 else names:
            declared = schema.get(name, Declared("float", 3))
            kind = r.choice(["bytes", "float", "int64", None]) if r.random() < 0.06 else declared.kind
            size = declared.count if declared.count is not None else r.randrange(4) * (declared.inner or 1)
            wanted.append((name.encode(), kind, r.randrange(5) if r.random() < 0.06 else size))
        if wanted and r.random() < 0.1:
            wanted.append(r.choice(wanted))
        message = writer.message([(1, piece) for piece in writer.features(wanted)])
        yield writer.damage(message) if r.random() < damaged else message


def compare(what, message, ours, expected, traits=()):
    assert ours == expected, f"{what}: {message.hex()}\n  ours     {ours}\n  expected {expected}\n  traits   {sorted(traits)}"


# ---- The tests ----

def test_every_feature_against_protobuf():
    """Without a schema: all that is in a message, in odd encodings, a third of them damaged."""
    schema = SCHEMAS["variable"]
    messages = [message for odd in (0, 0.05, 0.2) for message in messages_for(schema, 1, 2000, odd, 0.33)]
    accepted, met = 0, collections.Counter()
    for message, line in zip(messages, dump(messages, "--walk"), strict=True):
        expected, traits = by_the_rules(message, None)
        ours = None
        if "error" not in line:
            ours = {bytes.fromhex(found["name"]): (found["kind"] if found["present"] else None, our_values(found))
                    for found in line["features"]}
        compare("the rules", message, ours, expected, traits)
        if not traits & PROTOBUF.keys():
            compare("protobuf", message, ours, protobuf_example(message), traits)
        accepted += ours is not None
        met.update(traits)
    rare = {"long length", "long tag in example", "field number 0 in example", "unset after set", "damage in what is replaced",
            "remainder in list", "padded tag", "damage in what is not declared"}
    assert 0.4 < accepted / len(messages) < 0.9, accepted
    assert all(met[trait] >= 10 for trait in (FAST.keys() | PROTOBUF.keys()) - rare), met


def test_schemas_against_the_fast_parser():
    """parse_single_example: fixed with and without defaults, variable, ragged."""
    for number, (name, schema) in enumerate(SCHEMAS.items()):
        spec = {key: declared.tensorflow() for key, declared in schema.items()}
        parse = tf.function(lambda message: tf.io.parse_single_example(message, spec), input_signature=[SCALAR])
        messages = [m for odd, count in ((0, 500), (0.08, 700)) for m in messages_for(schema, 10 + number, count, odd, 0.25)]
        compared = accepted = 0
        for message, line in zip(messages, dump(messages, schema_text(schema)), strict=True):
            found, traits = by_the_rules(message, {key.encode() for key in schema})
            expected = judge(schema, found)
            ours = None if "error" in line else dict(zip(schema, map(our_values, line["values"]), strict=True))
            compare(f"{name}: the rules", message, ours, expected, traits)
            if not traits & PROTOBUF.keys():
                compare(f"{name}: protobuf", message, ours, judge(schema, protobuf_example(message)), traits)
            if traits & FAST.keys():
                continue
            tensors = refuses(parse, tf.constant(message))
            theirs = tensors and {key: tensor_values(tensors[key]) for key in schema}
            compare(f"{name}: the fast parser", message, ours, theirs, traits)
            compared += 1
            accepted += ours is not None
        assert compared > len(messages) * 0.5 and 0.3 < accepted / compared < 0.95, (name, compared, accepted)


def row_splits(tensor, rows):
    if isinstance(tensor, tf.SparseTensor):
        per_row = collections.Counter(tensor.indices.numpy()[:, 0].tolist())
        splits = [0]
        for row in range(rows):
            splits.append(splits[-1] + per_row[row])
        return splits
    return tensor.row_splits.numpy().tolist()


def test_batches():
    """parse_example: dense values, and row splits of variable and ragged features."""
    for number, (name, schema) in enumerate(SCHEMAS.items()):
        spec = {key: declared.tensorflow() for key, declared in schema.items()}
        good = []
        for message in messages_for(schema, 20 + number, 900, 0.02, 0):
            found, traits = by_the_rules(message, {key.encode() for key in schema})
            if judge(schema, found) is not None and not traits & FAST.keys():
                good.append(message)
        assert len(good) > 300, (name, len(good))
        lines = dump(good, "--batch", "64", schema_text(schema))
        for at, line in zip(range(0, len(good), 64), lines, strict=True):
            batch = good[at:at + 64]
            tensors = tf.io.parse_example(tf.constant(batch), spec)
            for (key, declared), column in zip(schema.items(), line["columns"], strict=True):
                assert our_values(column) == tensor_values(tensors[key]), (name, key, at)
                assert column["rows"] == len(batch)
                if declared.count is None:
                    assert column["splits"] == row_splits(tensors[key], len(batch)), (name, key, at)


def feature(name, inside):
    return delimited(1, delimited(1, name) + delimited(2, inside))


def test_known_differences():
    """A specimen of each listed difference: what the other reader says, and what we say."""
    chunk, second = delimited(1, b"\x05"), delimited(1, b"\x06")
    five, more = delimited(3, chunk), delimited(3, second)
    y, plain = delimited(1, b"y") + delimited(2, five), delimited(1, feature(b"y", five))
    float_and_a_byte = feature(b"x", delimited(2, delimited(1, struct.pack("<f", 0.5) + b"?")))
    specimens = [  # trait, message, values of y or None as the other reader has it, as we have it
        ("group", plain + b"\x4b\x4c", [5], None),
        ("key not UTF-8", delimited(1, feature(b"\xff", five) + feature(b"y", more)), None, [6]),
        ("unknown field in an entry", delimited(1, delimited(1, y + b"\x48\x01")), [], [5]),
        ("damage in what is not declared", delimited(1, feature(b"y", five) + feature(b"z", b"\x1a\x7f")), None, [5]),
        ("entry of other parts", delimited(1, delimited(1, y + delimited(2, more))), None, [5, 6]),
        ("unknown field in features", delimited(1, feature(b"y", five) + b"\x48\x01"), None, [5]),
        ("feature of several parts", delimited(1, feature(b"y", five + more)), [5], [5, 6]),
        ("list of several parts", delimited(1, feature(b"y", delimited(3, chunk + second))), [5], [5, 6]),
        ("list of several parts", delimited(1, feature(b"y", delimited(3, b"\x08\x05" + second))), None, [5, 6]),
        ("padded tag", b"\x8a\x00" + plain[1:], [], [5]),
        ("unset after set", delimited(1, feature(b"y", five) + feature(b"y", b"")), [5], []),
        ("damage in what is replaced", delimited(1, feature(b"y", b"\x1a\x02\x08\x80") + feature(b"y", five)), [5], None),
        ("cut short in example", plain[:1] + bytes([plain[1] + 1]) + plain[2:], [5], None),
        ("cut short in features", plain[:3] + bytes([plain[3] + 1]) + plain[4:], [5], None),
        ("cut short in feature", delimited(1, feature(b"y", b"\x1a\x04" + five[2:])), [5], None),
        ("cut short in list", delimited(1, feature(b"y", delimited(3, b"\x0a\x02\x05"))), [5], None),
        ("remainder in list", delimited(1, float_and_a_byte + feature(b"y", five)), [5], None),
        ("field number 0 in example", b"\x00\x01" + plain, [5], None),
        ("long tag in example", plain + b"\x80\x80\x80\x80\x80\x00\x01", [5], None),
        ("long length", b"\x0a" + proto.varint(len(plain) - 2, 6) + plain[2:], [5], None),
    ]
    assert {trait for trait, *_ in specimens} == PROTOBUF.keys() | FAST.keys()
    spec = {"y": tf.io.VarLenFeature(tf.int64), "x": tf.io.VarLenFeature(tf.float32)}
    lines = dump([message for _, message, _, _ in specimens], "y:int64[*] x:float[*]")
    for (trait, message, theirs, ours), line in zip(specimens, lines, strict=True):
        _, traits = by_the_rules(message, {b"x", b"y"})
        assert trait in traits, (trait, traits)
        compare(f"{trait}: ours", message, None if "error" in line else our_values(line["values"][0]), ours, traits)
        if trait in PROTOBUF:
            found = protobuf_example(message)
            found = found if found is None else found.get(b"y", (None, []))[1]
        else:
            found = refuses(tf.io.parse_single_example, message, spec)
            found = found and tensor_values(found["y"])
        compare(f"{trait}: TensorFlow", message, found, theirs, traits)


def cpp_context(message, names):
    """The context of a SequenceExample, whose field 1 is an Example's, read by protobuf for C++; None: refused."""
    keys = list(names)
    result = refuses(lambda: tf.raw_ops.ParseSingleSequenceExample(
        serialized=message, feature_list_dense_missing_assumed_empty=tf.constant([], tf.string), context_sparse_keys=keys,
        context_dense_keys=[], feature_list_sparse_keys=[], feature_list_dense_keys=[], context_dense_defaults=[],
        debug_name="", context_sparse_types=[TF_TYPES[names[key]] for key in keys], feature_list_dense_types=[],
        context_dense_shapes=[],
        feature_list_sparse_types=[], feature_list_dense_shapes=[]))
    return result and {key: tensor_values(values) for key, values in zip(keys, result.context_sparse_values)}


def test_unknown_fields_of_entries_against_protobuf_for_cpp():
    """Where protobuf for Python goes its own way, protobuf for C++ is the judge."""
    schema = SCHEMAS["variable"]
    names = {key: declared.kind for key, declared in schema.items()}
    messages = []
    for message in messages_for(schema, 30, 3000, 0.2, 0):
        found, traits = by_the_rules(message, None)
        if found is not None and "unknown field in an entry" in traits and "key not UTF-8" not in traits:
            messages.append(message)
    messages, accepted = messages[:300], 0
    for message, line in zip(messages, dump(messages, schema_text(schema)), strict=True):
        ours = None if "error" in line else dict(zip(schema, map(our_values, line["values"]), strict=True))
        compare("protobuf for C++", message, ours, cpp_context(message, names))
        accepted += ours is not None
    assert len(messages) == 300 and 100 < accepted < 300, accepted


def test_built_examples():
    """What our builder writes from a walk, TensorFlow reads as the same Example, in the bytes that it would write."""
    messages = [message for message in messages_for(SCHEMAS["variable"], 40, 1500, 0.1, 0)]
    compared = 0
    for message, line in zip(messages, dump(messages, "--rebuild"), strict=True):
        found, traits = by_the_rules(message, None)
        if found is None or traits & {"key not UTF-8"}:
            continue
        built = bytes.fromhex(line["bytes"])
        expected = {name: value for name, value in found.items() if value[0] is not None}
        compare("built", message, protobuf_example(built), expected, traits)
        if len(expected) == 1:  # a map has no order, so only of one entry are the bytes known
            assert tf.train.Example.FromString(built).SerializeToString() == built, message.hex()
        compared += 1
    assert compared > 1000


def test_inferred_schema():
    for seed in range(5):
        messages, kinds, counts, seen = [], {}, {}, collections.Counter()
        for message in messages_for(SCHEMAS["required"], 50 + seed, 60, 0.02, 0):
            found = protobuf_example(message)
            present = {name: value for name, value in (found or {}).items() if value[0] is not None}
            _, traits = by_the_rules(message, None)
            if found is None or traits & PROTOBUF.keys() or any(kinds.get(n, k) != k for n, (k, _) in present.items()):
                continue
            messages.append(message)
            seen.update(present.keys())
            for name, (kind, values) in present.items():
                kinds[name] = kind
                counts.setdefault(name, set()).add(len(values))
        expected = []
        for name in sorted(kinds):
            fixed = seen[name] == len(messages) and len(counts[name]) == 1 and counts[name] != {0}
            count = next(iter(counts[name]))
            shape = "[*]" if not fixed else f"[{count}]" if count > 1 else ""
            expected.append(f"{name.decode() or json.dumps('')}:{kinds[name]}{shape}")
        lines = dump(messages, "--infer")
        assert len(lines) == len(messages) + 1 and lines[-1]["schema"] == " ".join(expected), (lines[-1], expected)


# ---- SequenceExample ----

CONTEXT = {"c": Declared("int64", 1, None, -7), "v": Declared("bytes")}
LISTS = {"f": Declared("float", 2, [2]), "g": Declared("int64", 1), "i": Declared("int64"), "s": Declared("bytes", ragged=True)}
OPTIONAL = {"g"}  # allow_missing


def lists_text():
    return " ".join(declared.text(name) + ("=[]" if name in OPTIONAL else "") for name, declared in LISTS.items())


def sequences(seed, count, odd, damaged):
    writer = Writer(seed, odd)
    r = writer.random
    for _ in range(count):
        context = [(name.encode(), d.kind if r.random() < 0.95 else r.choice(["float", "int64", None]), 1)
                   for name, d in CONTEXT.items() if r.random() < 0.9]
        lists = []
        for name, d in [*LISTS.items(), ("undeclared", Declared("float"))]:
            if r.random() < (0.05 if d.count else 0.2):
                continue
            steps = []
            for _ in range(r.randrange(4)):
                kind = r.choice(["bytes", "float", "int64", None]) if r.random() < 0.02 else d.kind
                steps.append((kind, r.randrange(4) if d.count is None or r.random() < 0.02 else d.count))
            lists.append((name.encode(), steps))
        if lists and r.random() < 0.1:
            lists.append(r.choice(lists))
        fields = [(1, piece) for piece in writer.features(context)] + [(2, piece) for piece in writer.lists(lists)]
        if writer.maybe():
            r.shuffle(fields)
        message = writer.message(fields)
        yield writer.damage(message) if r.random() < damaged else message


def judge_steps(name, steps):
    """(values, row splits) of a list, or None where it must be refused. `steps` None: the list is missing."""
    declared = LISTS[name]
    if steps is None:
        return None if declared.count is not None and name not in OPTIONAL else ([], [0])
    values, splits = [], [0]
    for kind, step in steps:
        row = step if kind is None and declared.count is None else None if kind is None else declared.judge(kind, step)
        if row is None:
            return None
        values += row
        splits.append(len(values))
    return values, splits


def judge_sequence(context, lists):
    values = judge(CONTEXT, context)
    columns = {name: judge_steps(name, lists.get(name.encode())) for name in LISTS}
    return None if values is None or None in columns.values() else (values, columns)


def sequence_by_the_rules(message):
    traits = set()
    try:
        context, lists = proto.read_sequence(message, {n.encode() for n in CONTEXT}, {n.encode() for n in LISTS}, traits)
    except Damage as why:
        return None, traits | damage_traits(why)
    if context.get(b"c") == (None, []):
        traits.add("context feature unset")
    context = {name: (kind, comparable(kind, values)) for name, (kind, values) in context.items()}
    lists = {name: [(kind, comparable(kind, values)) for kind, values in steps] for name, steps in lists.items()}
    return judge_sequence(context, lists), traits


def protobuf_sequence(message):
    try:
        sequence = tf.train.SequenceExample.FromString(message)
    except Exception as error:
        assert type(error).__name__ == "DecodeError", repr(error)
        return None
    return judge_sequence({name.encode(): protobuf_feature(value) for name, value in sequence.context.feature.items()},
                          {name.encode(): [protobuf_feature(value) for value in steps.feature]
                           for name, steps in sequence.feature_lists.feature_list.items()})


def list_splits(tensor, declared):
    """Row splits of a parsed list: dense rows, sparse rows or ragged rows."""
    if isinstance(tensor, tf.SparseTensor):
        return row_splits(tensor, int(tensor.dense_shape[0]))
    if isinstance(tensor, tf.RaggedTensor):
        return row_splits(tensor, None)
    return [row * declared.count for row in range(tensor.shape[0] + 1)]


def fast_sequence():
    context_spec = {name: declared.tensorflow() for name, declared in CONTEXT.items()}
    lists_spec = {name: declared.tensorflow() if declared.count is None else
                  tf.io.FixedLenSequenceFeature(declared.shape or [], TF_TYPES[declared.kind], allow_missing=name in OPTIONAL)
                  for name, declared in LISTS.items()}
    parse = tf.function(lambda message: tf.io.parse_single_sequence_example(message, context_spec, lists_spec),
                        input_signature=[SCALAR])

    def run(message):
        result = refuses(parse, tf.constant(message))
        if result is None:
            return None
        context, lists = result
        return ({name: tensor_values(context[name]) for name in CONTEXT},
                {name: (tensor_values(lists[name]), list_splits(lists[name], declared)) for name, declared in LISTS.items()})
    return run


def our_sequence(line):
    if "error" in line:
        return None
    return (dict(zip(CONTEXT, map(our_values, line["context"]), strict=True)),
            {name: (our_values(column), column["splits"]) for name, column in zip(LISTS, line["lists"], strict=True)})


def test_sequences():
    """parse_single_sequence_example: dense, sparse and ragged lists, missing ones, steps of the wrong kind or length."""
    fast = fast_sequence()
    messages = [m for odd, count in ((0, 700), (0.06, 900)) for m in sequences(60, count, odd, 0.2)]
    compared = accepted = 0
    for message, line in zip(messages, dump(messages, "--sequence", schema_text(CONTEXT), lists_text()), strict=True):
        expected, traits = sequence_by_the_rules(message)
        ours = our_sequence(line)
        compare("the rules", message, ours, expected, traits)
        if not traits & PROTOBUF.keys():
            compare("protobuf", message, ours, protobuf_sequence(message), traits)
        if traits & FAST_SEQUENCE.keys():
            continue
        compare("the fast parser", message, ours, fast(message), traits)
        compared += 1
        accepted += ours is not None
    assert compared > len(messages) * 0.4 and 0.3 < accepted / compared < 0.95, (compared, accepted, len(messages))


def test_known_differences_of_sequences():
    five, more = delimited(3, delimited(1, b"\x05")), delimited(3, delimited(1, b"\x06"))
    step = delimited(1, five)

    def entry(inside):
        return delimited(2, delimited(1, inside))

    def list_of(inside):
        return entry(delimited(1, b"y") + delimited(2, inside))

    plain = list_of(step)
    specimens = [  # trait, message, [context, values of the list] or None as the fast parser has it, as we have it
        ("value before key", entry(delimited(2, step) + delimited(1, b"y")), None, [[-7], [5]]),
        ("unknown field in a feature list", list_of(step + b"\x48\x01"), None, [[-7], [5]]),
        ("context feature unset", delimited(1, feature(b"c", b"")) + plain, None, [[-7], [5]]),
        ("field number 0 in example", b"\x00\x01" + plain, [[-7], [5]], None),
        ("cut short in example", plain[:1] + bytes([plain[1] + 1]) + plain[2:], [[-7], [5]], None),
        ("cut short in steps", list_of(b"\x0a\x06" + five), [[-7], [5]], None),
        ("cut short in features", plain[:3] + bytes([plain[3] + 1]) + plain[4:], [[-7], [5]], None),
        ("cut short in feature", list_of(delimited(1, b"\x1a\x04" + five[2:])), [[-7], [5]], None),
        ("entry of other parts", entry(delimited(1, b"y") + delimited(2, step) + delimited(2, step)), None, [[-7], [5, 5]]),
        ("unknown field in features", delimited(2, delimited(1, delimited(1, b"y") + delimited(2, step)) + b"\x48\x01"), None,
         [[-7], [5]]),
        ("feature of several parts", delimited(1, feature(b"c", delimited(2, b"") + five)) + plain, None, [[5], [5]]),
        ("list of several parts", list_of(delimited(1, delimited(3, delimited(1, b"\x05") + delimited(1, b"\x06")))), None,
         [[-7], [5, 6]]),
        ("padded tag", b"\x92\x00" + plain[1:], [[-7], []], [[-7], [5]]),
        ("damage in what is replaced", list_of(b"\x0a\x7f") + list_of(delimited(1, more)), [[-7], [6]], None),
        ("long tag in example", plain + b"\x80\x80\x80\x80\x80\x00\x01", [[-7], [5]], None),
        ("long length", b"\x12" + proto.varint(len(plain) - 2, 6) + plain[2:], [[-7], [5]], None),
    ]
    assert {trait for trait, *_ in specimens} == FAST_SEQUENCE.keys() - CRASHES
    context, lists = {"c": CONTEXT["c"].tensorflow()}, {"y": tf.io.VarLenFeature(tf.int64)}
    lines = dump([message for _, message, _, _ in specimens], "--sequence", "c:int64=-7", "y:int64[*]")
    for (trait, message, theirs, ours), line in zip(specimens, lines, strict=True):
        mine = None if "error" in line else [our_values(line["context"][0]), our_values(line["lists"][0])]
        compare(f"{trait}: ours", message, mine, ours)
        found = refuses(tf.io.parse_single_sequence_example, message, context, lists)
        compare(f"{trait}: TensorFlow", message, found and [tensor_values(found[0]["c"]), tensor_values(found[1]["y"])], theirs)


tap.main(globals())
