"""The protobuf wire format of Examples, written in all its legal (and some illegal) ways, and read back by the rules.

`Writer` makes random encodings. `read_example` and `read_sequence` say what an encoding means by the rules of protobuf as
our parser applies them, and collect `traits`: the constructs in which one of the real parsers is known to go its own way.
"""
import random
import struct

KINDS = {1: "bytes", 2: "float", 3: "int64"}
NUMBERS = {name: number for number, name in KINDS.items()}


def varint(value, pad=0):
    """In `pad` more bytes than needed, but not over ten."""
    value &= (1 << 64) - 1
    length = min(max(1, -(-value.bit_length() // 7)) + pad, 10)
    return bytes(value >> 7 * i & 0x7F | (0x80 if i < length - 1 else 0) for i in range(length))


def delimited(number, payload, pad=0):
    return varint(number << 3 | 2) + varint(len(payload), pad) + payload


class Writer:
    """Random encodings; `odd` is the share of choices that are not what every writer does."""

    def __init__(self, seed, odd):
        self.random = random.Random(seed)
        self.odd = odd

    def maybe(self, share=None):
        return self.random.random() < (self.odd if share is None else share)

    def unknown(self):
        r = self.random
        number = r.choice((4, 5, 9, 15, 16, 2000, 536870911))
        kind = r.choice((0, 1, 2, 5, 0, 1, 2, 5, 0, 1, 2, 5, 3, 4, 6, 7))
        data = r.randbytes(r.randrange(5))
        body = {0: varint(r.getrandbits(r.randrange(1, 65)), r.randrange(2)), 1: r.randbytes(8), 2: varint(len(data)) + data,
                3: varint(number << 3 | 4), 5: r.randbytes(4)}
        return varint(number << 3 | kind) + body.get(kind, b"")

    def with_unknown(self, parts):
        if self.maybe(self.odd / 3):
            parts.insert(self.random.randrange(len(parts) + 1), self.unknown())
        return b"".join(parts)

    def values(self, kind, count):
        r = self.random
        if kind == "bytes":
            return [r.randbytes(r.choice((0, 1, 3, 20))) for _ in range(count)]
        if kind == "float":
            special = (0.0, -0.0, 1.5, float("inf"), float("nan"))
            return [struct.pack("<f", r.choice((*special, r.uniform(-1e3, 1e3)))) for _ in range(count)]
        special = (0, 1, 127, 128, 300, -1, -(1 << 63), (1 << 63) - 1)
        return [varint(r.choice((*special, r.getrandbits(r.randrange(1, 64)))), self.pad()) for _ in range(count)]

    def pad(self):
        return self.random.randrange(3) if self.maybe() else 0

    def list(self, kind, values):
        """The inside of a BytesList, FloatList or Int64List."""
        if kind == "bytes":
            return self.with_unknown([delimited(1, value) for value in values])
        single = b"\x0d" if kind == "float" else b"\x08"
        parts = []
        style = self.random.choice(("single", "chunks", "mixed")) if self.maybe() else "packed"
        while values:
            n = {"single": 1, "packed": len(values)}.get(style) or self.random.randrange(1, len(values) + 1)
            chunk, values = values[:n], values[n:]
            alone = style == "single" or (style == "mixed" and n == 1)
            parts.append(single + chunk[0] if alone else delimited(1, b"".join(chunk), self.pad()))
        if self.maybe(self.odd / 4):
            parts.insert(self.random.randrange(len(parts) + 1), delimited(1, b""))
        return self.with_unknown(parts)

    def feature(self, kind, count):
        """A Feature of `count` values of `kind`; kind None is unset."""
        if kind is None:
            return self.with_unknown([])
        parts = []
        if self.maybe(self.odd / 3):  # something else first: the last kind wins
            other = self.random.choice(list(NUMBERS))
            parts.append(delimited(NUMBERS[other], self.list(other, self.values(other, self.random.randrange(3)))))
        pieces = [count]
        if self.maybe(self.odd / 3):
            first = self.random.randrange(count + 1)
            pieces = [first, count - first]
        parts += [delimited(NUMBERS[kind], self.list(kind, self.values(kind, n))) for n in pieces]
        return self.with_unknown(parts)

    def entry(self, name, values):
        """An entry of a map, around one or more pieces of its value."""
        parts = [delimited(1, name)] + [delimited(2, value) for value in values]
        if self.maybe():
            style = self.random.choice(("reversed", "reversed", "twice", "no key", "no value", "two keys"))
            if style == "reversed":
                parts.reverse()
            elif style == "twice":
                parts.append(parts[-1])
            elif style == "no key":
                parts = parts[1:]
            elif style == "no value":
                parts = parts[:1]
            else:
                parts.insert(0, delimited(1, b"other"))
        return delimited(1, self.with_unknown(parts))

    def features(self, wanted):
        """A Features message (or several pieces of one) of [(name, kind, count)]."""
        entries = [self.entry(name, [self.feature(kind, count)]) for name, kind, count in wanted]
        return self.pieces(entries)

    def lists(self, wanted):
        """A FeatureLists message of [(name, [(kind, count) of each step])]."""
        entries = []
        for name, steps in wanted:
            body = self.with_unknown([delimited(1, self.feature(kind, count)) for kind, count in steps])
            entries.append(self.entry(name, [body]))
        return self.pieces(entries)

    def pieces(self, entries):
        self.random.shuffle(entries)
        if self.maybe() and entries:
            at = self.random.randrange(len(entries))
            return [self.with_unknown(entries[:at]), self.with_unknown(entries[at:])]
        return [self.with_unknown(entries)]

    def message(self, fields):
        """[(number, piece)] as one message."""
        return self.with_unknown([delimited(number, piece) for number, piece in fields])

    def damage(self, message):
        """One fault: cut short, a flipped bit, a byte changed, or a byte too many."""
        r = self.random
        if not message:
            return message
        at = r.randrange(len(message))
        fault = r.randrange(4)
        if fault == 0:
            return message[:at]
        changed = message[at] ^ 1 << r.randrange(8) if fault == 1 else r.randrange(256)
        return message[:at] + bytes([changed]) + message[at + (fault != 3):]


# ---- Reading by the rules ----

class Damage(Exception):
    """Not a message: at a level (example, features, entry, feature, list, steps), for a reason."""

    def __init__(self, level, why):
        super().__init__(f"{why} in {level}")
        self.level, self.why = level, why


def read_varint(data, at, most, level, why):
    value = 0
    for i in range(most):
        if at + i >= len(data):
            raise Damage(level, "cut short")
        value |= (data[at + i] & 0x7F) << 7 * i
        if data[at + i] < 0x80:
            return value, at + i + 1
    raise Damage(level, why)


def fields(data, level, traits):
    """(number, wire type, payload) of each field."""
    at = 0
    while at < len(data):
        start = at
        if at > 0 and level == "feature":
            traits.add("feature of several parts")
        tag, at = read_varint(data, at, 5, level, "long tag")
        if tag >= 1 << 32:
            raise Damage(level, "long tag")
        if at - start != len(varint(tag)):
            traits.add("padded tag")
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise Damage(level, "field number 0")
        if kind == 0:
            start = at
            _, at = read_varint(data, at, 10, level, "long varint")
            yield number, kind, data[start:at]
            continue
        if kind == 2:
            length, at = read_varint(data, at, 5, level, "long length")
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            if kind == 3:
                traits.add("group")
            raise Damage(level, "group" if kind in (3, 4) else "wire type")
        if at + length > len(data):
            raise Damage(level, "cut short")
        yield number, kind, data[at:at + length]
        at += length


def read_numbers(data, level):
    at, values = 0, []
    while at < len(data):
        value, at = read_varint(data, at, 10, level, "long varint")
        value &= (1 << 64) - 1
        values.append(value - (1 << 64) if value >> 63 else value)
    return values


def read_part(kind, payload):
    if kind == "bytes":
        return [payload]
    if kind == "int64":
        return read_numbers(payload, "list")
    if len(payload) % 4:
        raise Damage("list", "remainder")
    return [payload[i:i + 4] for i in range(0, len(payload), 4)]


def read_list(kind, data, traits):
    values, form = [], []  # of the parts that are read
    try:
        for number, wire, payload in fields(data, "list", traits):
            known = number == 1 and (wire == 2 or (kind, wire) in (("float", 5), ("int64", 0)))
            part = read_part(kind, payload) if known else []
            form.append("unknown" if not known else "packed" if kind != "bytes" and wire == 2 else "single")
            values += part
    except Damage:
        form.append("damage")
        raise
    finally:
        if form != ["packed"] and ("unknown" in form or "packed" in form):
            traits.add("list of several parts")
    return values


def read_feature(pieces, traits):
    """(kind or None, values) of a Feature, of which there may be several pieces that merge."""
    kind, values = None, []
    for piece in pieces:
        for number, wire, payload in fields(piece, "feature", traits):
            if number not in KINDS or wire != 2:
                traits.add("feature of several parts")
                continue
            if KINDS[number] != kind:
                kind, values = KINDS[number], []
            values = values + read_list(kind, payload, traits)
    return kind, values


def is_utf8(data):
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def read_entry(data, traits):
    """(key, pieces of the value)"""
    key, pieces, form = b"", [], []
    for number, wire, payload in fields(data, "entry", traits):
        form.append(number if wire == 2 else 0)
        if wire == 2 and number == 1:
            key = payload
            if not is_utf8(key):
                traits.add("key not UTF-8")
        elif wire == 2 and number == 2:
            pieces.append(payload)
        else:
            traits.add("unknown field in an entry")
    if sorted(form) != [1, 2]:
        traits.add("entry of other parts")
    elif form != [1, 2]:
        traits.add("value before key")
    return key, pieces


def read_map(pieces, read, declared, traits):
    """{key: what `read` makes of its value}; the last of each key. `declared` None: all are read."""
    found, damages = {}, {}
    for piece in pieces:
        for number, wire, payload in fields(piece, "features", traits):
            if (number, wire) != (1, 2):
                traits.add("unknown field in features")
                continue
            key, parts = read_entry(payload, traits)
            inside = traits if declared is None or key in declared else set()
            if inside is traits and key in damages:
                traits.add("damage in what is replaced")
            try:
                value = read(parts, inside)
            except Damage as why:
                if inside is traits:
                    damages.setdefault(key, why)
                else:
                    traits.add("damage in what is not declared")
                continue
            if inside is traits and value == (None, []) and found.get(key, value) != value:
                traits.add("unset after set")
            found[key] = value
    for why in damages.values():
        raise why
    return found


def read_steps(pieces, traits):
    """[(kind or None, values) of each step]"""
    steps = []
    for piece in pieces:
        for number, wire, payload in fields(piece, "steps", traits):
            if (number, wire) == (1, 2):
                steps.append(read_feature([payload], traits))
            else:
                traits.add("unknown field in a feature list")
    return steps


def top_level(data, known, traits):
    pieces = {number: [] for number in known}
    for number, wire, payload in fields(data, "example", traits):
        if wire == 2 and number in pieces:
            pieces[number].append(payload)
    return pieces


def read_example(data, declared, traits):
    """{key: (kind or None, values)} of an Example; raises Damage."""
    return read_map(top_level(data, (1,), traits)[1], read_feature, declared, traits)


def read_sequence(data, context, lists, traits):
    pieces = top_level(data, (1, 2), traits)
    return read_map(pieces[1], read_feature, context, traits), read_map(pieces[2], read_steps, lists, traits)
