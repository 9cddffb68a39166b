#!/usr/bin/env python3
"""Prints what a compiled program depends on: the symbols of libpenstock, and the layout of every public struct and the value of
every public enumerator, as the C compiler sees them.

abi_dump.py LIBRARY      prints the list that tests/public/abi.txt holds (scripts/generate.sh writes it)

Names come from the headers, numbers from a small program that is compiled and run. The numbers are those of 64-bit Linux.
"""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEADERS = os.path.join(ROOT, "include", "penstock")
HEAD = """# The public ABI: symbols, layouts and values. Written by scripts/abi_dump.py (make generate); do not edit.
# A line that changes or goes breaks programs that were built before; lines that come do not, except within a struct without `size`.
"""


def text_of_headers():
    text = ""
    for name in sorted(os.listdir(HEADERS)):
        with open(os.path.join(HEADERS, name), encoding="utf-8") as f:
            text += f.read()
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return re.sub(r"^\s*#.*$", "", text, flags=re.M)


def members(body):
    """The names that a struct's body declares."""
    names = []
    for declaration in (part.strip() for part in body.split(";")):
        if not declaration:
            continue
        function = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", declaration)
        if function:
            names.append(function[1])
            continue
        for part in declaration.split(","):
            names.append(re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$", part)[1])
    return names


def program(text):
    lines = []
    for kind, body, name in re.findall(r"typedef\s+(struct|enum)\s+\w+\s*\{(.*?)\}\s*(\w+)\s*;", text, flags=re.S):
        if kind == "struct":
            lines.append(f'printf("struct {name} %zu\\n", sizeof({name}));')
            lines += [f'printf("  {m} %zu %zu\\n", offsetof({name}, {m}), sizeof((({name} *)0)->{m}));' for m in members(body)]
        else:
            lines.append(f'printf("enum {name} %zu\\n", sizeof({name}));')
            lines += [f'printf("  {e} %d\\n", (int){e});' for e in re.findall(r"^\s*(PST_\w+)|[,{]\s*(PST_\w+)", body, flags=re.M)
                      for e in e if e]
    for body in re.findall(r"(?<!\w)enum\s*\{(.*?)\}\s*;", text, flags=re.S):
        lines += [f'printf("constant {e} %d\\n", (int){e});' for e in re.findall(r"(PST_\w+)\s*=", body)]
    return "#include <penstock/penstock.h>\n#include <stdio.h>\nint main(void)\n{\n" + "\n".join(lines) + "\nreturn 0;\n}\n"


def layouts():
    with tempfile.TemporaryDirectory() as folder:
        source, binary = os.path.join(folder, "abi.c"), os.path.join(folder, "abi")
        with open(source, "w", encoding="utf-8") as f:
            f.write(program(text_of_headers()))
        subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-I", os.path.dirname(HEADERS), source, "-o", binary], check=True)
        return subprocess.run([binary], check=True, capture_output=True, text=True).stdout


def symbols(library):
    listing = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    names = sorted(line.split()[-1].split("@")[0] for line in listing.splitlines() if " T " in line or " D " in line or " R " in line)
    return "".join(f"symbol {name}\n" for name in names)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.stdout.write(HEAD + symbols(sys.argv[1]) + layouts())
