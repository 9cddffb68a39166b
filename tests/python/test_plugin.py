"""Plug-ins: examples/plugin_scale.c as a user builds it, in the tool and in Python; versions and names that do not fit."""

import os
import re
import subprocess
import tempfile

import tap

import penstock as ps

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def build(folder, name, change=lambda text: text):
    """Compiles the template, changed."""
    with open(os.path.join(ROOT, "examples", "plugin_scale.c")) as file:
        text = change(file.read())
    source, library = os.path.join(folder, name + ".c"), os.path.join(folder, name + ".so")
    with open(source, "w") as file:
        file.write(text)
    flags = ["-I", os.path.join(ROOT, "include")]
    shared = os.environ.get("PENSTOCK_LIBRARY")
    if not shared:
        raise tap.Skip("PENSTOCK_LIBRARY is not set")
    flags += [shared, f"-Wl,-rpath,{os.path.dirname(shared)}"]
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-Wall", "-Werror", source, "-o", library,
                    *flags], check=True)
    return library


def refused(call):
    try:
        call()
    except ps.Error as error:
        return str(error)
    raise AssertionError("it was accepted")


def test_a_plugin():
    with tempfile.TemporaryDirectory() as folder:
        library = build(folder, "scale")
        assert "scale_by" in refused(lambda: ps.pipeline("range 5 | scale_by value").plan())
        assert ps.load_plugin(library) == ("scale", "1.0") == ps.load_plugin(library)
        numbers = [batch["value"].tolist() for batch in ps.pipeline("range 5 | cast f32 value | scale_by value 0.5 | batch 5")]
        assert numbers == [[0, 0.5, 1, 1.5, 2]]
        numbers = [batch["value"].tolist() for batch in ps.range(3).cast("f32", "value").scale_by("value", 3).batch(3)]
        assert numbers == [[0, 3, 6]]
        assert "float32" in refused(lambda: list(ps.pipeline("range 5 | scale_by value 0.5")))


def test_what_does_not_fit():
    with tempfile.TemporaryDirectory() as folder:
        later = build(folder, "later", lambda text: text.replace(".abi = PST_PLUGIN_ABI", ".abi = PST_PLUGIN_ABI + 1"))
        assert "version 2" in refused(lambda: ps.load_plugin(later))
        taken = build(folder, "taken", lambda text: text.replace('"scale_by"', '"batch"'))
        assert "batch" in refused(lambda: ps.load_plugin(taken))
        twice = build(folder, "twice", lambda text: text.replace("{&scale_by, NULL}", "{&scale_by, &scale_by, NULL}").replace(
            '"scale_by"', '"scale_twice"'))
        assert "scale_twice already" in refused(lambda: ps.load_plugin(twice))
        none = build(folder, "none", lambda text: re.sub(r"\bpst_plugin_entry\b", "something", text))
        assert "pst_plugin_entry" in refused(lambda: ps.load_plugin(none))
        assert "cannot load" in refused(lambda: ps.load_plugin(os.path.join(folder, "absent.so")))


def test_structs_of_other_versions():
    sizes = {"older": ("40", "offsetof(pst_op_class, flags)"), "newer": ("sizeof(pst_plugin) + 64", "sizeof(pst_op_class)")}
    with tempfile.TemporaryDirectory() as folder:
        for name, (plugin, operation) in sizes.items():
            change = lambda text: (text.replace("sizeof(pst_plugin)", plugin).replace("sizeof(pst_op_class)", operation)
                                   .replace('"scale_by"', f'"scale_{name}"').replace("#include", "#include <stddef.h>\n#include", 1))
            assert ps.load_plugin(build(folder, name, change)) == ("scale", "1.0")
            (batch,) = ps.pipeline(f"range 3 | cast f32 value | scale_{name} value 3 | batch 3")
            assert batch["value"].tolist() == [0, 3, 6]
        short = build(folder, "short", lambda text: text.replace("sizeof(pst_plugin)", "32").replace('"scale_by"', '"scale_short"'))
        assert "no operations" in refused(lambda: ps.load_plugin(short))


def test_the_tool():
    penstock = os.environ.get("PENSTOCK")
    if not penstock:
        raise tap.Skip("PENSTOCK is not set")
    with tempfile.TemporaryDirectory() as folder:
        library = build(folder, "tool")
        text = "range 4 | cast f32 value | scale_by value 2 | batch 4"
        done = subprocess.run([penstock, "cat", "--plugin", library, text, "--json"], capture_output=True, text=True)
        assert done.returncode == 0 and "6" in done.stdout, done.stderr
        assert subprocess.run([penstock, "plan", text], capture_output=True).returncode == 2


if __name__ == "__main__":
    tap.main(globals())
