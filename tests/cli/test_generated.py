"""What scripts/generate.sh writes is current: the list of operations here, docs/ops.md in test_ops.py, the stubs in
tests/python/test_stubs.py. Adding an operation means adding its file."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import tap

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
LIST = os.path.join(ROOT, "scripts", "list_ops.py")


def run(*args):
    return subprocess.run([sys.executable, LIST, *args], capture_output=True, text=True)


def copy(folder):
    src = os.path.join(folder, "src")
    for room in ("ops", "source"):
        shutil.copytree(os.path.join(ROOT, "src", room), os.path.join(src, room))
    return src


def read(src, name):
    with open(os.path.join(src, "ops", name)) as f:
        return f.read()


def write(src, name, text):
    with open(os.path.join(src, name), "w") as f:
        f.write(text)


def test_the_list_is_current():
    done = run("--check")
    assert done.returncode == 0, done.stderr


def test_the_page_on_scale_is_current():
    rows = subprocess.run([sys.executable, os.path.join(ROOT, "bench", "scale.py")], check=True, capture_output=True, text=True).stdout
    with open(os.path.join(ROOT, "docs", "scale.md"), encoding="utf-8") as f:
        assert rows in f.read(), "docs/scale.md: write what `bench/scale.py --plot docs/scale.svg` prints into it, and read its conclusions again\n" + rows


def test_the_engine_asks_facets():
    """No code recognises an operation or a source by its address: what it may do is in its declaration."""
    found = []
    for room in ("flow", "ops", "source"):
        for folder, _, names in os.walk(os.path.join(ROOT, "src", room)):
            for name in (n for n in names if n.endswith((".c", ".h"))):
                with open(os.path.join(folder, name)) as f:
                    found += [f"{name}:{i}: {line.strip()}" for i, line in enumerate(f, 1) if re.search(r"[!=]= &(source|op)_\w+", line)]
    assert not found, found


def test_a_new_file_is_a_new_operation():
    with tempfile.TemporaryDirectory() as folder:
        src = copy(folder)
        write(src, "ops/op_aaa.c", "const struct op_decl op_aaa = {\n    .op = {0},\n    .kind = PST_OP_SAMPLE,\n};\n")
        write(src, "source/source_bbb.c", "const struct source_class source_bbb = {\n};\n")
        assert run("--check", src).returncode != 0
        assert "op_aaa" not in read(src, "op_list.c"), "a check writes nothing"
        done = run(src)
        assert done.returncode == 0, done.stderr
        files, table = read(src, "op_list.txt").split(), read(src, "op_list.c")
        assert files.index("ops/op_aaa.c") + 1 == files.index("ops/op_cache.c"), "at the end of its kind, where nobody put it elsewhere"
        assert files.index("source/source_bbb.c") < files.index("ops/op_shuffle.c")
        assert "    {&op_aaa.op, &op_aaa},\n" in table and "    {&source_bbb.op, NULL},\n" in table
        listed, unlisted = table.split("op_unlisted")
        assert "source_generator" not in listed and "source_generator" in unlisted and "source/source_generator.c" in files
        assert "extern const struct op_decl op_aaa;\n" in read(src, "op_list.h")
        assert run("--check", src).returncode == 0


def test_the_order_is_ours_to_choose_within_a_kind():
    with tempfile.TemporaryDirectory() as folder:
        src = copy(folder)
        lines = read(src, "op_list.txt").split()
        take, skip = lines.index("ops/op_take.c"), lines.index("ops/op_skip.c")
        lines[take], lines[skip] = lines[skip], lines[take]
        lines.append(lines.pop(0))  # a source behind everything: back to its kind
        write(src, "ops/op_list.txt", "\n".join(lines))
        assert run(src).returncode == 0
        table = read(src, "op_list.c")
        assert table.index("op_skip") < table.index("op_take")
        assert table.index("source_arrays") < table.index("source_tfrecord") < table.index("op_shuffle")


def test_a_file_without_a_declaration_is_named():
    with tempfile.TemporaryDirectory() as folder:
        src = copy(folder)
        write(src, "ops/op_aaa.c", "const struct op_decl op_bbb = {\n    .kind = PST_OP_SAMPLE,\n};\n")
        done = run(src)
        assert done.returncode != 0 and "ops/op_aaa.c" in done.stderr and "op_aaa = {" in done.stderr, done.stderr
        write(src, "ops/op_aaa.c", "const struct op_decl op_aaa = {\n};\n")
        done = run(src)
        assert done.returncode != 0 and ".kind" in done.stderr, done.stderr


def test_layers_are_current():
    script = os.path.join(ROOT, "scripts", "list_layers.py")
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with open(os.path.join(ROOT, "docs", "layers.md")) as f:
        page = f.read()
    assert subprocess.run([os.environ["PENSTOCK"], "model", "--layers", "--markdown"], capture_output=True, text=True).stdout == page, "make generate"


if __name__ == "__main__":
    tap.main(globals())
