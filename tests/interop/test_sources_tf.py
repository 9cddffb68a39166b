"""Tables, text and records beside TensorFlow's CsvDataset, TextLineDataset and FixedLengthRecordDataset, on random files.

What is deliberately not as in TensorFlow, and left out of the random files:
- lines: TextLineDataset drops every carriage return of a line; only the one before the line feed is dropped here.
- csv: an empty line is left out; CsvDataset reads it as a row with an empty first column. A missing number without a default is
  NaN or an error here; record_defaults decide there. Spaces around numbers are allowed by both.
"""

import contextlib
import csv
import gzip
import os
import random
import shutil
import tempfile

import h5py
import numpy as np
import tap
import tensorflow as tf

import penstock as ps

PROGRAMS = int(os.environ.get("PENSTOCK_PROGRAMS", "100"))
SEED = 4100
TYPES = {"int64": tf.int64, "int32": tf.int32, "float": tf.float32, "float64": tf.float64, "bytes": tf.string}


@contextlib.contextmanager
def scratch():
    folder = tempfile.mkdtemp(prefix="penstock-tf-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def columns_of(dataset, names):
    """All values of each column, in order."""
    found = {name: [] for name in names}
    for batch in dataset.batch(11):
        for name in names:
            found[name] += batch[name].tolist()
    return found


def random_rows(r, types):
    words = ["", "a", "two words", "com,ma", 'quo""te', "line\nbreak", "ünï"]
    make = {"int64": lambda: str(r.randrange(-(1 << 63), 1 << 63)), "int32": lambda: str(r.randrange(-(1 << 31), 1 << 31)),
            "float": lambda: f"{r.gauss(0, 1) * 10 ** r.randint(-20, 20):.7g}", "float64": lambda: repr(r.gauss(0, 1) * 10 ** r.randint(-90, 90)),
            "bytes": lambda: r.choice(words)}
    return [["" if kind != "bytes" and r.random() < 0.1 else make[kind]() for kind in types] for _ in range(r.randint(1, 40))]


def check_csv(seed):
    r = random.Random(seed)
    types = [r.choice(list(TYPES)) for _ in range(r.randint(2, 6))]
    delimiter = r.choice(",;|")
    header, packed = r.random() < 0.5, r.random() < 0.3
    names = [f"n{i}" for i in range(len(types))]
    with scratch() as folder:
        paths = []
        for part in range(r.randint(1, 3)):
            paths.append(f"{folder}/{part}.csv" + (".gz" if packed else ""))
            with (gzip.open if packed else open)(paths[-1], "wt", newline="", encoding="utf-8") as f:
                writer = csv.writer(f, delimiter=delimiter, lineterminator="\n", quoting=r.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
                if header:
                    writer.writerow(names)
                writer.writerows(random_rows(r, types))
        select = sorted(r.sample(range(len(types)), r.randint(1, len(types)))) if header else list(range(len(types)))
        defaults = [tf.constant([b"" if types[k] == "bytes" else 7], TYPES[types[k]]) for k in select]
        want = tf.data.experimental.CsvDataset(paths, defaults, header=header, field_delim=delimiter, select_cols=select,
                                               compression_type="GZIP" if packed else None)
        given = " ".join(f"{names[k]}:{types[k]}" + ("" if types[k] == "bytes" else "=7") for k in select)
        found = columns_of(ps.csv(*paths, columns=given, delimiter=delimiter, header=header), [names[k] for k in select])
        for k, values in zip(select, zip(*[[v.numpy() for v in row] for row in want])):
            mine = np.array(found[names[k]], dtype=object if types[k] == "bytes" else TYPES[types[k]].as_numpy_dtype)
            assert len(mine) == len(values) and all(a == b for a, b in zip(mine, values)), (names[k], types[k], mine, values)


def test_csv():
    print(f"# {PROGRAMS} tables, seeds {SEED} to {SEED + PROGRAMS - 1}")
    for seed in range(SEED, SEED + PROGRAMS):
        try:
            check_csv(seed)
        except Exception as why:
            print(f"# seed {seed}: {str(why)[:2000]}")
            raise


def test_lines():
    print(f"# {PROGRAMS} texts, seeds {SEED} to {SEED + PROGRAMS - 1}")
    for seed in range(SEED, SEED + PROGRAMS):
        r = random.Random(seed)
        packed = r.random() < 0.4
        with scratch() as folder:
            paths = []
            for part in range(r.randint(1, 3)):
                paths.append(f"{folder}/{part}.txt" + (".gz" if packed else ""))
                text = b"\n".join(bytes(r.choice(b"ab \xc3\0\t") for _ in range(r.randrange(9))) for _ in range(r.randint(0, 20)))
                with (gzip.open if packed else open)(paths[-1], "wb") as f:
                    f.write(text.replace(b"\n", b"\r\n") if r.random() < 0.3 else text)
            want = [line.numpy() for line in tf.data.TextLineDataset(paths, compression_type="GZIP" if packed else None)]
            assert columns_of(ps.lines(*paths), ["line"])["line"] == want, seed


def test_records():
    print(f"# {PROGRAMS} files, seeds {SEED} to {SEED + PROGRAMS - 1}")
    for seed in range(SEED, SEED + PROGRAMS):
        r = random.Random(seed)
        packed = r.random() < 0.4
        size, header, footer = r.randint(1, 20), r.choice([0, 3]), r.choice([0, 5])
        with scratch() as folder:
            paths = []
            for part in range(r.randint(1, 3)):
                paths.append(f"{folder}/{part}.bin" + (".gz" if packed else ""))
                with (gzip.open if packed else open)(paths[-1], "wb") as f:
                    f.write(bytes(r.randrange(256) for _ in range(header + footer + size * r.randint(1, 20))))
            want = [record.numpy() for record in tf.data.FixedLengthRecordDataset(
                paths, size, header_bytes=header, footer_bytes=footer, compression_type="GZIP" if packed else None)]
            assert columns_of(ps.records(*paths, bytes=size, header=header, footer=footer), ["record"])["record"] == want, seed


def test_hdf5():
    """Datasets that h5py writes: in one piece, in chunks, compressed, big-endian, texts."""
    r = np.random.default_rng(SEED)
    kinds = ["uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "float16", "float32", "float64", ">f4", ">i2", "bool"]
    with scratch() as folder:
        for program in range(20):
            path, rows, want = f"{folder}/{program}.h5", int(r.integers(1, 30)), {}
            with h5py.File(path, "w") as f:
                for k in range(int(r.integers(1, 5))):
                    shape = (rows, *(int(n) for n in r.integers(1, 4, int(r.integers(0, 3)))))
                    want[f"d{k}"] = r.integers(0, 100, shape).astype(kinds[int(r.integers(len(kinds)))])
                    options = [{}, {"chunks": True}, {"chunks": True, "compression": "gzip"}][int(r.integers(3))]
                    f.create_dataset(f"d{k}", data=want[f"d{k}"], **options)
                texts = [f"text {i} é" * int(r.integers(0, 3)) for i in range(rows)]
                f.create_dataset("text", data=texts, dtype=h5py.string_dtype())
                f.create_group("inner").create_dataset("y", data=np.arange(7))
            found = columns_of(ps.hdf5(path), [*want, "text"])
            assert found.pop("text") == [text.encode() for text in texts]
            for name, values in want.items():
                assert np.array_equal(np.array(found[name]), values.astype("uint8") if values.dtype == bool else values), name
            assert columns_of(ps.hdf5(path + ":/inner"), ["y"])["y"] == list(range(7))


def test_a_wrong_length_is_refused_by_both():
    with scratch() as folder:
        with open(f"{folder}/x.bin", "wb") as f:
            f.write(bytes(10))
        for read in (lambda: list(tf.data.FixedLengthRecordDataset(f"{folder}/x.bin", 3)), lambda: list(ps.records(f"{folder}/x.bin", bytes=3).batch(1))):
            try:
                read()
                raise AssertionError("accepted")
            except (tf.errors.InvalidArgumentError, ps.Error):
                pass


if __name__ == "__main__":
    tap.main(globals())
