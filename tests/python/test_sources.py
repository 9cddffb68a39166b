"""Sources of tables, text, records and tokens against the standard library: random tables beside the csv module, element by
element, in order, shuffled, resumed, by ranks, compressed. A failure prints its seed and the smallest table that shows it."""

import array
import contextlib
import csv
import gzip
import io
import math
import os
import random
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile

import penstock as ps
import tap

PROGRAMS = int(os.environ.get("PENSTOCK_PROGRAMS", "2000"))
SEED = 20240


@contextlib.contextmanager
def scratch():
    folder = tempfile.mkdtemp(prefix="penstock-sources-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def elements(dataset, batch=7):
    """Every element of an epoch, as a dict of plain values."""
    found = []
    for b in dataset.batch(batch):
        columns = {name: b[name].tolist() for name in b.keys()}
        found += [dict(zip(columns, values)) for values in zip(*columns.values())]
    return found


# ---- Random tables ----

WORDS = ["", "a", "plain", "two words", "com,ma", "semi;colon", 'quo"te', '""', "line\nbreak", "crlf\r\nbreak", "ünï", "tab\tbed", "a|b", " lead", "0x", "-"]


class Table:
    """A table that the csv module writes, and what every row of it means."""

    def __init__(self, seed, rows):
        r = random.Random(seed)
        self.delimiter = r.choice(",;\t|")
        self.header = r.random() < 0.7
        self.files = r.randint(1, 3)
        self.compressed = r.random() < 0.3
        self.types = [r.choice(["int64", "int32", "float", "float64", "bytes"]) for _ in range(r.randint(1, 6))]
        self.names = [f"n {i}" if r.random() < 0.1 else f"n{i}" for i in range(len(self.types))]
        self.defaults = [r.random() < 0.6 for _ in self.types]
        self.quoting = r.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
        self.end = r.choice(["\n", "\r\n"])
        self.blank = r.random() < 0.3
        self.last = r.random() < 0.7  # the last line has an end
        self.rows = [self.row(r) for _ in range(min(rows, r.randint(1, 40)))]
        self.parts = [self.rows[i::self.files] for i in range(self.files)]
        self.order = list(range(len(self.types)))
        r.shuffle(self.order)
        self.order = self.order[: r.randint(1, len(self.order))] if self.header else sorted(self.order)
        self.workers = r.choice([1, 2, 3])

    def row(self, r):
        row = []
        for kind, default in zip(self.types, self.defaults):
            missing = default and r.random() < 0.15
            if kind == "bytes":
                row.append(r.choice(WORDS) if r.random() < 0.7 else "".join(r.choice('ab,;"\n \té') for _ in range(r.randint(1, 9))))
            elif missing:
                row.append(r.choice(["", "NA", "null"]))
            elif kind in ("int64", "int32"):
                bits = 63 if kind == "int64" else 31
                row.append(str(r.choice([0, -1, r.randrange(-(1 << bits), 1 << bits), r.randrange(100)])))
            else:
                value = r.choice([r.uniform(-1, 1), r.uniform(-1e9, 1e9), r.gauss(0, 1) * 10 ** r.randint(-30, 30), float(r.randrange(1000))])
                row.append(r.choice([repr(value), f"{value:.3f}", f"{value:e}", f" {value:.6g}"]))
        return row

    def write(self, folder):
        paths = []
        for number, rows in enumerate(self.parts):
            text = io.StringIO()
            writer = csv.writer(text, delimiter=self.delimiter, quoting=self.quoting, lineterminator=self.end)
            if self.header:
                writer.writerow(self.names)
            for i, row in enumerate(rows):
                writer.writerow(row)
                if self.blank and i % 3 == 1 and len(row) > 1:
                    text.write(self.end)
            data = text.getvalue()
            if not self.last and data.endswith(self.end) and not data.endswith("\n" + self.end) and not data.endswith(self.end + self.end):
                data = data[: -len(self.end)]
            data = data.encode()
            path = f"{folder}/part{number}.csv" + (".gz" if self.compressed else "")
            with (gzip.open if self.compressed else open)(path, "wb") as f:
                f.write(data)
            paths.append(path)
        return paths

    def read(self, paths):
        """The rows as the csv module reads them back: what it leaves out (empty lines) is no row here either."""
        rows = []
        for path in paths:
            with (gzip.open if self.compressed else open)(path, "rt", newline="", encoding="utf-8") as f:
                found = [row for row in csv.reader(f, delimiter=self.delimiter) if row]
            rows += found[1:] if self.header else found
        return rows

    def value(self, k, text):
        kind = self.types[k]
        if kind == "bytes":
            return text.encode()
        missing = text.strip().lower() in ("", "na", "null", "none", "nan")
        if kind in ("int64", "int32"):
            return -5 if missing else int(text)
        value = 0.25 if missing else float(text)
        if kind == "float64":
            return value
        try:
            return struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            return math.copysign(math.inf, value)

    def columns(self):
        words = []
        for k in self.order:
            default = "" if self.types[k] == "bytes" or not self.defaults[k] else "=-5" if self.types[k].startswith("int") else "=0.25"
            words.append(f'"{self.names[k]}":{self.types[k]}{default}')
        return " ".join(words)

    def expected(self, rows):
        return [{self.names[k]: self.value(k, row[k]) for k in self.order} for row in rows]

    def dataset(self, paths):
        return ps.csv(*paths, columns=self.columns(), delimiter="tab" if self.delimiter == "\t" else self.delimiter,
                      header=self.header).with_options(workers=self.workers)


def check_table(seed, rows):
    with scratch() as folder:
        table = Table(seed, rows)
        paths = table.write(folder)
        want = table.expected(table.read(paths))
        dataset = table.dataset(paths)
        if not want:
            return
        assert elements(dataset) == want
        shuffled = elements(dataset.shuffle(1 << 20, seed=seed) if table.compressed else dataset.shuffle(seed=seed))
        assert sorted(map(repr, shuffled)) == sorted(map(repr, want))


def test_random_tables_beside_the_csv_module():
    print(f"# {PROGRAMS} tables, seeds {SEED} to {SEED + PROGRAMS - 1}")
    for seed in range(SEED, SEED + PROGRAMS):
        try:
            check_table(seed, 40)
        except Exception:
            for rows in range(1, 41):  # the smallest that fails
                try:
                    check_table(seed, rows)
                except Exception as why:
                    print(f"# seed {seed} fails with up to {rows} rows: {why}")
                    raise
            raise


def test_inferred_types():
    with scratch() as folder:
        path = f"{folder}/t.csv"
        with open(path, "w") as f:
            f.write("whole,real,text,gaps,zip,empty\n" + "".join(f"{i},{i / 2},w{i},{i if i % 2 else ''},0{i},\n" for i in range(10)))
        found = elements(ps.csv(path))
        assert found[3] == {"whole": 3, "real": 1.5, "text": b"w3", "gaps": 3.0, "zip": b"03", "empty": b""}
        assert math.isnan(found[2]["gaps"])
        assert list(elements(ps.csv(path, columns="text whole"))[0]) == ["text", "whole"]


# ---- Text, records, tokens ----

def test_the_first_bytes_of_zlib():
    """Text may begin with the two bytes of a zlib stream, and records with any bytes."""
    with scratch() as folder:
        with open(f"{folder}/x.csv", "w") as f:
            f.write("x^,y\n1,2\n")
        assert elements(ps.csv(f"{folder}/x.csv")) == [{"x^": 1, "y": 2}]
        for head in (b"\x78\x9c", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"):
            with open(f"{folder}/x.bin", "wb") as f:
                f.write(head.ljust(8, b"a"))
            assert [e["record"] for e in elements(ps.records(f"{folder}/x.bin", bytes=8))] == [head.ljust(8, b"a")]


def test_lines_and_records():
    r = random.Random(SEED)
    with scratch() as folder:
        for program in range(200):
            lines = [bytes(r.choice(b"ab \r\xff\0") for _ in range(r.randrange(6))).rstrip(b"\r") for _ in range(r.randint(1, 30))]
            data = b"".join(line + r.choice([b"\n", b"\r\n"]) for line in lines)
            if r.random() < 0.5 and lines[-1]:
                data = data.rstrip(b"\r\n") if not lines[-1].endswith((b"\r", b"\n")) else data
            size = r.randint(1, 9)
            skip, foot = r.randint(0, 3), r.randint(0, 3)
            records = bytes(skip) + bytes(r.randrange(256) for _ in range(size * r.randint(1, 20))) + bytes(foot)
            for packed in (False, True):
                ending = ".gz" if packed else ""
                for name, content in (("a.txt", data), ("b.bin", records)):
                    with (gzip.open if packed else open)(f"{folder}/{program}{name}{ending}", "wb") as f:
                        f.write(content)
                found = [e["line"] for e in elements(ps.lines(f"{folder}/{program}a.txt{ending}"))]
                assert found == lines, (program, lines, found)
                found = [e["line"] for e in elements(ps.lines(f"{folder}/{program}a.txt{ending}", skip_empty=True))]
                assert found == [line for line in lines if line], (program, lines, found)
                found = [e["record"] for e in elements(ps.records(f"{folder}/{program}b.bin{ending}", bytes=size, header=skip, footer=foot))]
                inner = records[skip:len(records) - foot]
                assert found == [inner[i:i + size] for i in range(0, len(inner), size)], program


def test_tokens():
    r = random.Random(SEED)
    codes = {"uint8": "B", "uint16": "H", "uint32": "I", "int32": "i", "int64": "q"}
    with scratch() as folder:
        for program in range(200):
            kind = r.choice(list(codes))
            tokens = [r.randrange(250) for _ in range(r.randint(20, 90))]
            path = f"{folder}/{program}.bin"
            with open(path, "wb") as f:
                array.array(codes[kind], tokens).tofile(f)
            n, stride, shifted = r.randint(1, 12), r.choice([0, 1, 3, 17]), r.random() < 0.5
            found = elements(ps.tokens(path, n=n, stride=stride, next="labels" if shifted else "", dtype=kind, to=r.choice(["int64", "int32"])))
            want = []
            for at in range(0, len(tokens) - n - shifted + 1, stride or n):
                want.append({"tokens": tokens[at:at + n]})
                if shifted:
                    want[-1]["labels"] = tokens[at + 1:at + n + 1]
            assert found == want, (program, kind, n, stride)


# ---- Streams, ranks, resuming ----

def test_ranks_cover_the_same_order():
    with scratch() as folder:
        for number in range(3):
            with open(f"{folder}/{number}.csv", "w") as f:
                f.write("id,x\n" + "".join(f"{number * 100 + i},{i / 4}\n" for i in range(17 + number)))
        for dataset in (ps.csv(folder).shuffle(seed=3).batch(2), ps.lines(f"{folder}/*.csv").batch(2)):
            whole = [b[0].tolist() for b in dataset]
            for world in (2, 4):
                parts = [[b[0].tolist() for b in dataset.with_options(rank=rank, world=world, uneven="allow")] for rank in range(world)]
                woven = [parts[i % world][i // world] for i in range(len(whole)) if i // world < len(parts[i % world])]
                assert woven == whole, (world, parts, whole)


def test_streams_resume_exactly():
    with scratch() as folder:
        with gzip.open(f"{folder}/t.csv.gz", "wt") as f:
            f.write("id\n" + "".join(f"{i}\n" for i in range(100)))
        make = lambda: ps.csv(f"{folder}/t.csv.gz").shuffle(8, seed=2).batch(5)
        whole = [b["id"].tolist() for b in make()]
        for at in (0, 1, 7, 19):
            first, second = make(), make()
            batches = iter(first)
            for _ in range(at):
                next(batches)
            second.load_state_dict(first.state_dict())
            assert [b["id"].tolist() for b in second] == whole[at:], at


def test_standard_input():
    code = "import penstock as ps\nprint([b['x'].tolist() for b in ps.csv('-').batch(4)])"
    done = subprocess.run([sys.executable, "-c", code], input="x,y\n1,a\n2,b\n", capture_output=True, text=True, check=True)
    assert done.stdout == "[[1, 2]]\n"
    code += "\nit = ps.csv('-')\nprint(list(it.batch(1)))"
    done = subprocess.run([sys.executable, "-c", code], input="x,y\n1,a\n", capture_output=True, text=True)
    assert done.returncode != 0 and "empty" in done.stderr, done.stderr


def test_floats_of_a_tar():
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(f"{folder}/x.tar", "w") as tar:
            for name, text in (("a.txt", b"0.5"), ("b.txt", b"1e39")):
                member = tarfile.TarInfo(name)
                member.size = len(text)
                tar.addfile(member, io.BytesIO(text))
        ds = ps.tar(f"{folder}/x.tar", fields="x=txt:float")
        assert [b["x"].tolist() for b in ds.take(1).batch(1)] == [[0.5]]
        try:
            list(ds.batch(1))
        except ps.Error as error:
            assert 'member .txt is "1e39", expected a number within float32' in str(error)
        else:
            raise AssertionError("1e39 was taken")


if __name__ == "__main__":
    tap.main(globals())
