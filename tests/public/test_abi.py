"""The symbols, layouts and values that compiled programs depend on are those that are written down in abi.txt."""
import difflib
import os
import platform
import subprocess
import sys

import tap

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
LIBRARY = os.environ["PENSTOCK_LIBRARY"]


def dump():
    if platform.machine() not in ("x86_64", "aarch64"):
        raise tap.Skip("abi.txt has the numbers of 64-bit Linux on x86-64 and AArch64")
    return subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "abi_dump.py"), LIBRARY], check=True, capture_output=True,
                          text=True).stdout


def test_the_abi_is_as_written_down():
    with open(os.path.join(HERE, "abi.txt"), encoding="utf-8") as f:
        want = f.read()
    change = "\n".join(difflib.unified_diff(want.splitlines(), dump().splitlines(), "abi.txt", "now", lineterm="", n=1))
    assert not change, "the ABI has changed; if it is meant to, run `make generate` and say so in CHANGELOG.md\n" + change


def test_the_list_is_whole():
    """What the headers declare is exported, and nothing else is."""
    lines = dump().splitlines()
    exported = {line.split()[1] for line in lines if line.startswith("symbol ")}
    declared = set()
    for name in os.listdir(os.path.join(ROOT, "include", "penstock")):
        with open(os.path.join(ROOT, "include", "penstock", name), encoding="utf-8") as f:
            text = f.read()
        for part in text.split("PST_API ")[1:]:
            declared.add(part.split("(")[0].split()[-1].lstrip("*"))
    declared.discard("__attribute__")
    assert {name for name in declared if name.startswith("pst_")} == exported, declared ^ exported
    structs = [line for line in lines if line.startswith("struct ")]
    assert len(structs) > 40 and "struct pst_bytes 16" in structs, structs
    assert "  PST_ESTALE -11" in lines and "constant PST_OP_RANDOM 1" in lines


tap.main(globals())
