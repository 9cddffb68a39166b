"""The tool under test, a scratch folder for each test, and just enough of the file formats to make inputs and judge outputs.

The formats are written here a second time, from their descriptions, on purpose: a mistake in the library must not hide in the test.
"""
import contextlib
import hashlib
import json
import os
import shutil
import struct
import subprocess
import tempfile

import tap
from patience import HANG

PENSTOCK = os.environ["PENSTOCK"]
GOLDEN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "golden", "cli")


# ---- Running ----

class Result:
    def __init__(self, done, arguments):
        self.arguments, self.code = arguments, done.returncode
        self.out, self.err = (os.fsdecode(stream or b"") for stream in (done.stdout, done.stderr))

    def __str__(self):
        return f"penstock {self.arguments}: exit {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def environment(**extra):
    """What the tool sees of ours: no colours, no width, no language of the machine that happens to run the test."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "XDG_")) and name not in
            ("NO_COLOR", "COLUMNS", "TERM", "LANG", "LANGUAGE")}
    return {**kept, "LC_ALL": "C.UTF-8", **extra}


def penstock(*arguments, code=0, env=None, prefix=(), **options):
    """Runs the tool and returns what it said. Another exit code than `code` (None: any) is a failure that shows everything.
    `prefix` is a command that runs it: a tracer, or one that gives up rights."""
    options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    done = subprocess.run([*prefix, PENSTOCK, *map(os.fspath, map(_text, arguments))], env=environment(**(env or {})), timeout=HANG,
                          **options)
    result = Result(done, arguments)
    assert code is None or result.code == code, f"expected exit {code}\n{result}"
    return result


def _text(argument):
    return argument if isinstance(argument, (str, bytes, os.PathLike)) else str(argument)


def report(*arguments, code=0, **options):
    return json.loads(penstock(arguments[0], "--json", *arguments[1:], code=code, **options).out)


def unprivileged():
    """A prefix under which file permissions count: none for a user, setpriv for root."""
    if os.geteuid() != 0:
        return []
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if not shutil.which("setpriv") or penstock("version", prefix=prefix, code=None).code != 0:
        raise tap.Skip("root may do everything, and nobody may not run the tool here")
    return prefix


@contextlib.contextmanager
def scratch():
    folder = tempfile.mkdtemp(prefix="penstock-test-")
    os.chmod(folder, 0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def tree(folder):
    """Every file below `folder` with a digest of its bytes."""
    found = {}
    for base, _, names in os.walk(os.fsencode(folder)):
        for name in names:
            path = os.path.join(base, name)
            with open(path, "rb") as f:
                found[os.path.relpath(path, os.fsencode(folder))] = hashlib.sha256(f.read()).hexdigest()
    return found


def golden(name, text):
    """Compares with tests/golden/cli/NAME; PENSTOCK_GOLDEN=write makes it anew."""
    path = os.path.join(GOLDEN, name)
    if os.environ.get("PENSTOCK_GOLDEN") == "write":
        os.makedirs(GOLDEN, exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
    with open(path) as f:
        want = f.read()
    assert text == want, f"{name} differs\n--- expected\n{want}\n--- found\n{text}"


# ---- TFRecord ----

_TABLE = []
for _n in range(256):
    for _ in range(8):
        _n = _n >> 1 ^ (0x82F63B78 if _n & 1 else 0)
    _TABLE.append(_n)


def crc(data):
    c = 0xFFFFFFFF
    for byte in data:
        c = c >> 8 ^ _TABLE[(c ^ byte) & 255]
    c ^= 0xFFFFFFFF
    return ((c >> 15 | c << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frame(data):
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", crc(length)) + data + struct.pack("<I", crc(data))


def unframe(data):
    """The payloads of a TFRecord file. Lengths are checked; payloads are compared by their users."""
    records, at = [], 0
    while at < len(data):
        length, check = struct.unpack_from("<QI", data, at)
        assert check == crc(data[at:at + 8]), f"length crc at {at}"
        payload = data[at + 12:at + 12 + length]
        assert len(payload) == length, f"truncated at {at}"
        records.append(payload)
        at += 16 + length
    return records


# ---- tf.train.Example ----

def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def example(**features):
    entries = b""
    for name, values in features.items():
        if isinstance(values[0], bytes):
            kind = field(1, b"".join(field(1, value) for value in values))
        elif isinstance(values[0], float):
            kind = field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
        else:
            kind = field(3, field(1, b"".join(varint(value) for value in values)))
        entries += field(1, field(1, name.encode()) + field(2, kind))
    return field(1, entries)


def _fields(data):
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = number()
        if tag & 7 == 2:
            length = number()
            at += length
            yield tag >> 3, data[at - length:at]
        elif tag & 7 == 0:
            yield tag >> 3, number()
        else:
            raise AssertionError(f"wire type {tag & 7}")


def parse_example(data):
    result = {}
    for _, features in _fields(data):
        for _, entry in _fields(features):
            parts = dict(_fields(entry))
            (kind, values), = _fields(parts[2])
            values = [value for _, value in _fields(values)]
            if kind == 2:
                values = [value for chunk in values for value, in struct.iter_unpack("<f", chunk)]
            elif kind == 3:
                values = [value for chunk in values for value in _varints(chunk)]
            result[parts[1].decode()] = values
    return result


def _varints(data):
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value - (1 << 64) if value >> 63 else value
            value = shift = 0


def shards(folder, split=None):
    names = sorted(name for name in os.listdir(folder) if ".tfrecord-" in name and not name.endswith(".pidx"))
    return [os.path.join(folder, name) for name in names if split is None or f"-{split}." in name]


def read_examples(folder, split=None):
    """All Examples of a packed folder, in the order of its shards."""
    found = []
    for path in shards(folder, split):
        with open(path, "rb") as f:
            found += [parse_example(record) for record in unframe(f.read())]
    return found
