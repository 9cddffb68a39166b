#!/usr/bin/env python3
"""Checks the dependency law: which room of src/ may include which. Prints each breach as file:line; exit 1 if any."""
import os
import re
import sys

# room -> the rooms whose internal headers it may include, besides its own; everyone may include <penstock/…>
LAW = {
    "base": set(),
    "io": {"base"},
    "report": {"base"},
    "lang": {"base", "io"},
    "codec": {"base"},
    "image": {"base"},
    "record": {"base", "io", "codec"},
    "pack": {"base", "io", "codec", "image", "record"},
    "inspect": {"base", "io", "codec", "image", "record"},
    "source": {"base", "io", "codec", "image", "record"},
    "ops": {"base", "lang", "io", "codec", "image", "record", "source"},
    "flow": {"base", "lang", "io", "record", "source", "ops", "report"},
    "model": {"base", "lang"},
    "quant": {"base", "model"},
    "infer": {"base", "model", "quant"},
    "export": {"base", "io", "model", "quant"},
    "dist": {"base"},
    "train": {"base", "io", "record", "report", "model", "export", "infer", "quant", "dist"},
    "network": {"base", "io", "model", "quant", "infer", "export", "train"},
    "compress": {"base", "io", "report", "model", "quant", "infer", "export", "train", "network"},
    "doctor": {"base", "io", "codec", "report"},
    "cli": set(),
    "python": set(),
}
EXCEPTIONS = {("cli", "base/json.h"), ("cli", "base/nearest.h"), ("cli", "base/secret.h")}  # the tool compiles these files of base, which need nothing else
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def breaches(root):
    for room, allowed in LAW.items():
        folder = os.path.join(root, room if room in ("cli", "python") else os.path.join("src", room))
        for base, _, names in os.walk(folder):
            for name in sorted(names):
                if not name.endswith((".c", ".h")):
                    continue
                path = os.path.join(base, name)
                for number, line in enumerate(open(path), 1):
                    found = INCLUDE.match(line)
                    if not found or found[1] == "<" or found[2] == "config.h":
                        continue
                    target = found[2].split("/")[0] if "/" in found[2] else room
                    if target != room and target not in allowed and (room, found[2]) not in EXCEPTIONS:
                        yield f"{os.path.relpath(path, root)}:{number}: {room} may not include {found[2]}"


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    rooms = set(os.listdir(os.path.join(root, "src"))) - {"README.md", "meson.build"}
    found = list(breaches(root)) + [f"src/{room}: not in the law of {sys.argv[0]}" for room in sorted(rooms - set(LAW))]
    print("\n".join(found) if found else "dependency law: kept")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
