#!/usr/bin/env python3
"""Writes src/model/layer_list.inc, the list of layers, from their files: every `REAL(layer_NAME) = {` in src/model/layer_*.c, and those that
a macro ACTIVATION(NAME, …) makes. The order of the list is kept; a new layer goes to its end, and its line may be moved.

list_layers.py            writes it
list_layers.py --check    fails if it is not what it would write
"""
import os
import re
import sys

SRC = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src", "model")
LIST = os.path.join(SRC, "layer_list.inc")
DECLARED = re.compile(r"^const struct layer_class REAL\(layer_(\w+)\) = \{", re.M)
MADE = re.compile(r"^ACTIVATION\((\w+)", re.M)


def found():
    names = []
    for file in sorted(os.listdir(SRC)):
        if file.startswith("layer_") and file.endswith(".c") and file != "layer_list.c":
            with open(os.path.join(SRC, file)) as f:
                text = f.read()
            names += DECLARED.findall(text) + MADE.findall(text)
    return names


def main():
    with open(LIST) as f:
        old = f.read()
    known = re.findall(r"^LAYER\((\w+)\)", old, re.M)
    names = found()
    if len(set(names)) != len(names):
        sys.exit("two layers have the same name")
    new = "".join(f"LAYER({name})\n" for name in [n for n in known if n in names] + sorted(n for n in names if n not in known))
    if "--check" in sys.argv[1:]:
        sys.exit(f"{LIST} is not current: make generate" if new != old else 0)
    if new != old:
        with open(LIST, "w") as f:
            f.write(new)


main()
