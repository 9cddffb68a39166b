"""Makes the seeds of the fuzz targets: make_corpus.py STAMP OUT TARGET…

Each target's seeds are what the function seeds_TARGET yields, written to OUT/TARGET/NN; a target without a function gets
an empty folder. Only the standard library is used, and the bytes are the same every time.
"""
import gzip
import io
import pathlib
import struct
import sys
import tarfile
import zipfile
import zlib


def seeds_csv():
    yield b"a,b,c\n1,2,3\n"
    yield b'name;"quoted ""text""";x\r\n"line\nbreak";;"" \r\n'
    yield b"a\tb\n\n1\t2\n"
    yield b'"never closed\n1,2\n'


def seeds_csv_rows():
    for first in (0, 0x11, 0x15, 0x22, 0x30, 0x13):
        for text in seeds_csv():
            yield bytes([first]) + text
        yield bytes([first]) + b'a,b,c\n1,2.5,x\n-7,1e5,"q ""q""\nz"\n\n,,\n999999999999999999999,nan,\n'


def seeds_tar_samples():
    for first, kind in enumerate((tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.PAX_FORMAT)):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=kind) as archive:
            for i in range(4):
                for extension, data in (("txt", b"hello"), ("cls", b"%d" % i), ("jpg", b"")):
                    member = tarfile.TarInfo(f"d/{'long' * 40 if i == 2 and kind else 's'}{i}.{extension}")
                    if kind == tarfile.USTAR_FORMAT:
                        member.name = member.name[-60:]
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))
        data = out.getvalue()
        yield bytes([first]) + data[: len(data.rstrip(b"\0")) // 512 * 512 + 1024]


def seeds_list():
    yield b"cat/1.jpg,cat\ndog/2.png,dog\n"
    yield b"label;image\r\n3;\"a \"\"b\"\".jpeg\"\r\n4;c.webp"
    yield b"x.jpg 1\ny.jpg 2\n"
    yield b"plain.txt\nother.txt\n"


def seeds_npy():
    def header(version, text):
        size = struct.pack("<H" if version == 1 else "<I", len(text))
        return b"\x93NUMPY" + bytes([version, 0]) + size + text

    yield header(1, b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }    \n") + bytes(48)
    yield header(2, b"{'descr': '>i2', 'fortran_order': True, 'shape': (5,), }\n") + bytes(10)
    yield header(3, b'{"shape":(),"fortran_order":False,"descr":"|S10"}') + bytes(10)
    yield header(1, b"{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,), }\n") + bytes(4)


def seeds_safetensors():
    def file(header, data):
        return struct.pack("<Q", len(header)) + header + data

    one = b'"%s":{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}'
    yield file(b"{" + one % (b"conv_1/kernel", b"F32", b"1,1,2", 0, 8) + b"," + one % (b"b", b"BF16", b"2", 8, 12) + b"}  ", bytes(12))
    yield file(b'{"__metadata__":{"format":"pt"},' + one % (b"a\\u00e9", b"I64", b"", 0, 8) + b"}", bytes(8))
    yield file(b"{" + one % (b"empty", b"F32", b"3,0", 0, 0) + b"}", b"")


def seeds_onnx():
    def varint(n):
        out = b""
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])

    def field(number, value):
        if isinstance(value, int):
            return varint(number << 3) + varint(value % (1 << 64))
        if isinstance(value, float):
            return varint(number << 3 | 5) + struct.pack("<f", value)
        value = value.encode() if isinstance(value, str) else value
        return varint(number << 3 | 2) + varint(len(value)) + value

    def attribute(name, value):
        if isinstance(value, (list, tuple)):
            return field(5, field(1, name) + b"".join(field(8, v) for v in value))
        return field(5, field(1, name) + field({int: 3, float: 2, str: 4}[type(value)], value))

    def node(op, inputs, out, **attributes):
        return field(1, b"".join(field(1, i) for i in inputs.split()) + field(2, out) + field(3, out) + field(4, op)
                     + b"".join(attribute(k, v) for k, v in attributes.items()))

    def tensor(name, dims, data, kind=1, number=9):
        return field(5, b"".join(field(1, d) for d in dims) + field(2, kind) + field(8, name) + field(number, data))

    def port(number, name, dims):
        shape = b"".join(field(1, field(1, d) if d > 0 else field(2, "N")) for d in dims)
        return field(number, field(1, name) + field(2, field(1, field(1, 1) + field(2, shape))))

    def model(*parts, opset=17):
        return field(1, 8) + field(8, field(2, opset)) + field(7, b"".join(parts)) + field(14, field(1, "classes") + field(2, '["a"]'))

    def floats(n):
        return struct.pack(f"<{n}f", *(i / n for i in range(n)))

    yield model(port(11, "x", (-1, 2, 5, 4)), port(12, "y", (-1, 3)), tensor("c.weight", (4, 1, 3, 3), floats(36)), tensor("w", (3, 80), floats(240)),
                tensor("b", (3,), floats(3), number=4), node("Conv", "x c.weight", "c", group=2, pads=(1, 1, 1, 1)), node("Clip", "c", "r", min=0.0, max=6.0),
                node("Add", "r c", "a"), node("Flatten", "a", "f"), node("Gemm", "f w b", "g", transB=1), node("Softmax", "g", "y", axis=-1), opset=10)
    yield model(port(11, "x", (-1, 5, 4, 2)), port(12, "y", (-1, 2)), tensor("two", (), floats(1)), tensor("k", (2, 2, 2, 2), floats(16)),
                tensor("pads", (8,), struct.pack("<8q", 0, 0, 0, 0, 0, 1, 1, 0), 7), tensor("s", (2,), bytes([0]) + b"\xff" * 9 + b"\x01", 7, 7),
                node("Mul", "x two", "m"), node("Pad", "m pads", "p"), node("Transpose", "p", "t", perm=(0, 3, 1, 2)),
                node("Conv", "t k", "c", auto_pad="VALID", strides=(2, 2)), node("Sigmoid", "c", "g"), node("Mul", "c g", "u"),
                node("MaxPool", "u", "q", kernel_shape=(2, 2), strides=(1, 1), ceil_mode=1), node("ReduceMean", "q", "e", axes=(2, 3), keepdims=1),
                node("Reshape", "e s", "y"))
    yield model(port(11, "x", (1, 3)), port(12, "y", (1, 6)), tensor("w", (3, 3), floats(9)), tensor("s", (3,), floats(3)), tensor("i", (1,), bytes(8), 7),
                node("MatMul", "x w", "m"), node("Add", "m s", "a"), node("BatchNormalization", "a s s s s", "n", epsilon=0.001),
                node("LeakyRelu", "n", "l", alpha=0.1), node("Tanh", "n", "h"), node("Shape", "l", "z"), node("Gather", "z i", "zz"),
                node("Concat", "l h", "y", axis=1))
    yield model(port(11, "x", (-1, 3)), port(12, "y", (-1, 2)), tensor("q", (3, 2), bytes(range(6)), 3), tensor("s", (2,), floats(2)), tensor("one", (), floats(1)),
                tensor("z", (), bytes([7]), 2), tensor("b", (2,), struct.pack("<2i", 5, -9), 6), tensor("t", (), struct.pack("<f", 0.25)),
                node("QuantizeLinear", "x t z", "xq"), node("DequantizeLinear", "xq t z", "xd"), node("DequantizeLinear", "q t", "w"),
                node("DequantizeLinear", "b t", "bd", axis=0), node("Gemm", "xd w bd", "g"), node("Relu", "g", "y"))
    outside = field(5, field(1, 3) + field(1, 2) + field(2, 1) + field(8, "w") + field(13, field(1, "location") + field(2, "../w.bin")) + field(14, 1))
    yield model(port(11, "x", (1, 3)), port(12, "y", (1, 2)), outside, node("MatMul", "x w", "y"))


def seeds_tar():
    for kind in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=kind) as archive:
            for name in ("a.txt", "folder/" * 10 + "b.jpg", "c" * 150 if kind != tarfile.USTAR_FORMAT else "c"):
                member = tarfile.TarInfo(name)
                member.size = 5
                archive.addfile(member, io.BytesIO(b"hello"))
            member = tarfile.TarInfo("link")
            member.type, member.linkname = tarfile.SYMTYPE, "d" * 120 if kind != tarfile.USTAR_FORMAT else "d"
            archive.addfile(member)
        data = out.getvalue()
        yield data[: len(data.rstrip(b"\0")) // 512 * 512 + 1024]


def seeds_zip():
    for method, comment, wide in ((0, b"", False), (8, b"a comment", False), (8, b"", True)):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as archive:
            for name in ("a.npy", "folder/b.npy"):
                info = zipfile.ZipInfo(name)
                info.compress_type = method
                with archive.open(info, "w", force_zip64=wide) as member:
                    member.write(b"some text " * 20)
            archive.comment = comment
        yield out.getvalue()


def seeds_stream():
    text = b"penstock feeds the turbine " * 20 + bytes(range(256))
    member = gzip.compress(text, mtime=0)
    # A frame of one raw and one repeated block, its size in the header: the standard library has no zstd.
    frame = bytes.fromhex("28b52ffd200d") + bytes.fromhex("280000") + b"hello" + bytes.fromhex("430000") + b"x"
    for kind, data in ((0, member), (0, member + member + bytes(20)), (1, zlib.compress(text)), (2, frame), (2, frame * 2)):
        yield bytes([kind]) + data
        yield bytes([kind + 3 * 6]) + data


def delimited(number, payload):
    """A length-delimited protobuf field with a short payload."""
    return bytes([number << 3 | 2, len(payload)]) + payload


def feature_entry(name, feature):
    return delimited(1, delimited(1, name) + delimited(2, feature))


FLOATS = delimited(2, delimited(1, struct.pack("<2f", 1.5, -2)))
INTEGER = delimited(3, delimited(1, b"\xac\x02"))
STRINGS = delimited(1, delimited(1, b"hello") + delimited(1, b""))


def seeds_example():
    yield delimited(1, feature_entry(b"x", FLOATS) + feature_entry(b"y", INTEGER) + feature_entry(b"s", STRINGS))
    mixed = delimited(2, b"\x0d\0\0\x80\x3f" + delimited(1, struct.pack("<2f", 3, 4)) + b"\x0d\0\0\0\x40")
    around = delimited(1, delimited(2, INTEGER) + delimited(1, b"y") + delimited(2, INTEGER))
    yield delimited(1, feature_entry(b"r", mixed) + around)
    negative = delimited(3, b"\x08" + b"\xff" * 9 + b"\x01")
    unknown = b"\x51" + bytes(8)
    yield delimited(1, feature_entry(b"d", negative + FLOATS) + b"\x48\x07") + unknown + delimited(1, feature_entry(b"x", FLOATS))
    yield delimited(1, feature_entry(b"image/encoded", STRINGS) + feature_entry(b"image/format", b"") + feature_entry(b"", STRINGS))


def seeds_sequence():
    def steps(name, *features):
        return delimited(1, delimited(1, name) + delimited(2, b"".join(delimited(1, feature) for feature in features)))

    lists = steps(b"f", FLOATS, FLOATS) + steps(b"i", INTEGER, b"", INTEGER)
    yield delimited(1, feature_entry(b"c", INTEGER)) + delimited(2, lists)
    yield delimited(2, steps(b"s", STRINGS, STRINGS) + steps(b"r", FLOATS)) + delimited(1, feature_entry(b"d", STRINGS))
    yield delimited(2, steps(b"f", INTEGER) + steps(b"f"))


seeds_list_inference = seeds_sequence


def seeds_schema_text():
    yield b"image:bytes label:int64 x:float[32] tags:bytes[*] boxes:float[*,4] w:float=1.5"
    yield b'"a b\\x00\\"":bytes=[a,"b c",\xc3\xa9] n:int64[2]=[-1, 9223372036854775807] e:float[2]=[]'
    yield b"x:float[ 2 , 3 ]=nan y:float=[1e-45,-inf,0x1p3]\n\tz:bytes[1,1,1,1,1,1,1,1]=\"\""


def seeds_pipeline_text():
    yield b"shuffle 64M seed=7 reshuffle=false # order\n| repeat -1 | take 1000 | skip 3 | shard 4 index=1 | batch 64 true | prefetch 4"
    yield b"example \"image:bytes \\\"b c\\\":int64[*]\" field='x y' | select image 'b c' \"\\x41\\n\" | drop a#b | rename a/b \"=\""
    yield b"cast bf16 field=x | one_hot classes=10 field=\"\" | cache bytes=1.5GiB | batch size=8 drop_remainder=on"
    yield b"shufle sed=7 | cast f33 | batch 0 x=1 |"
    yield b"tfrecord shards/*.tfrecord 'more data/' | decode image | resize 320x240 | normalize mean=0.5,0.5,0.5 std=1e-1,.25,2 | batch 8"


def seeds_expr():
    return [t.encode() for t in (
        "a < 10 and s match \"n0*\"", "b / 255 + mean(b)", "c in (1, 2, -3) or not a == 7", "min(a, 3) ** 2 // -4 % 5",
        "len(s) + sum(c) * any(b > 3)", "-(a - 1.5e3) <= max(b) and `a` != 0", "s in [\"x\", 'y'] or s not in (\"n\",)", "e + b",
        "((((a))))", "not not true", "round(sqrt(abs(b))) == int(2.5)", "s match \"[!a-m]*[0-9]?\"")]


def seeds_lang():
    yield b"conv 32 3 relu | residual( conv 16 3 stride=2 | relu )( conv 16 1 ) # a block\n| repeat 3 ( conv 8 1 name=w(1) | relu )"
    yield b"sum mean 'a(b' \")\" (say a(b)c )) (relu)(residual(repeat 2(sum)))| key name=\"\\x28\""
    yield b"residual(" * 33 + b"relu" + b")" * 33
    yield b"say ( ) (( a)b( | residual() ( relu | ) | repeat 3) (relu"


def seeds_events():
    when = b"\x09" + struct.pack("<d", 1700000000.25)

    def summary(tag, value):
        return delimited(5, delimited(1, delimited(1, tag) + value))

    tensor = b"\x08\x01" + delimited(2, b"") + delimited(5, struct.pack("<f", 0.5))
    yield when + delimited(3, b"brain.Event:2")
    yield when + b"\x10\x0a" + summary(b"loss", b"\x15" + struct.pack("<f", 0.75)) + summary(b"acc", delimited(8, tensor))
    yield when + summary(b"image", delimited(4, b"\x08\x02\x10\x02" + delimited(4, b"\x89PNG"))) + summary(b"h", delimited(5, b""))
    yield from seeds_sequence()


def record(payload):
    """A TFRecord: the payload in its frame."""
    def masked(data):
        crc = 0xFFFFFFFF
        for byte in data:
            crc ^= byte
            for _ in range(8):
                crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        crc ^= 0xFFFFFFFF
        return struct.pack("<I", (crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF)

    length = struct.pack("<Q", len(payload))
    return length + masked(length) + payload + masked(payload)


def seeds_record():
    shard = record(b"hello") + record(b"") + record(bytes(range(200))) + record(b"x")
    yield shard
    yield shard[:6] + b"\xff" + shard[7:]  # a damaged length
    yield shard[:30] + b"\xff" + shard[31:]
    yield shard[:-3]
    yield record(shard) + record(b"nested")
    yield gzip.compress(shard, mtime=0)
    yield zlib.compress(shard)
    yield bytes(100)


def seeds_index():
    entries = struct.pack("<10Q", 0, 37, 53, 0, 69, 120, 205, 1, 222, 300)
    for note, header in ((b"", 64), (b"a note", 64), (b"later", 80)):
        sections = ((b"RECS", entries), (b"LATR", b"12345678")) + (((b"NOTE", note),) if note else ())
        table, body, start = b"", b"", header + 32 * len(sections)
        for tag, data in sections:
            table += tag + bytes(4) + struct.pack("<3Q", start + len(body), len(data), 0)
            body += data
        fields = struct.pack("<4I3Q", 1, header, len(sections), 0, 5, 538, 77) + bytes(16)
        yield (b"PSTIDX1\n" + fields).ljust(header, b"\0") + table + body  # the target makes the checksums right


def seeds_region():  # those of image
    for path in sorted((pathlib.Path(__file__).parent / "corpus" / "image").iterdir()):
        yield path.read_bytes()


def seeds_quality():  # those of image and jpeg
    for name in ("image", "jpeg"):
        for path in sorted((pathlib.Path(__file__).parent / "corpus" / name).iterdir()):
            yield path.read_bytes()


def seeds_jpeg_points():  # images, their points as they are, and a few changes
    for path in sorted((pathlib.Path(__file__).parent / "corpus" / "jpeg").iterdir()):
        jpeg = path.read_bytes()
        for changes in (b"", bytes(10) + b"\x08", bytes(20) + b"\xff\xff" + bytes(4) + b"\x40", bytes(200)):
            yield struct.pack("<H", len(jpeg)) + jpeg + changes


def seeds_entropy():  # the target makes the checksums right; its image has four points
    for records in ((0, 1, 2), (0, 0, 3, 5), ()):
        entries, points = b"", b""
        for number, record in enumerate(records):
            entries += struct.pack("<Q2IQQ2IQ", record, 30, 100 + number, 7, 4 * number, 4, 0, 0)
            points += b"".join(struct.pack("<2H3h", 5000 + 800 * i, 0, i, -i, 0) for i in range(4))
        yield struct.pack("<2I7Q", 16, 48, len(records), 4 * len(records), len(records) + 2, 5000, 1, 1, 0) + entries + points


def seeds_index_text():
    yield b"0 53\n53 16\n69 136\n205 17\n222 316\n"
    yield b"0 53\r\n53\t16\r\n\n69 136 \n205 17\n222 316"
    yield b"0 18446744073709551615\n"


def main():
    stamp, out, targets = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    for target in targets:
        folder = out / target
        folder.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(globals().get("seeds_" + target, tuple)()):
            (folder / f"{number:02}").write_bytes(seed)
    stamp.write_text("\n".join(targets) + "\n")  # for the build: when this was done


if __name__ == "__main__":
    main()
