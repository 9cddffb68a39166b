#!/usr/bin/env python3
"""Checks the dependency law, which room of src/ may include which, and that the README of each room lists its files, and none that does not exist. Prints each breach; exit 1 if any."""
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


def room_folder(root, room):
    return os.path.join(root, room if room in ("cli", "python") else os.path.join("src", room))


def named(folder):
    """What the README of a room names, in backquotes: `file.c`, `file`, or a pattern such as `op_NAME.c` or `layer_*`."""
    with open(os.path.join(folder, "README.md")) as f:
        return [name for part in re.findall(r"`([^`\n]+)`", f.read()) for name in re.split(r"[,\s]+", part)]


def pattern_of(name):
    return re.sub("NAME|ISA", "[a-z0-9_-]+", re.escape(name).replace(r"\*", ".*"))


def unlisted(root):
    """Source files that the README of their room does not name."""
    for room in LAW:
        folder = room_folder(root, room)
        stems = [re.sub(r"\.[ch]$", "", os.path.basename(name)) for name in named(folder)]
        patterns = [pattern_of(stem) for stem in stems if re.fullmatch(r"[\w*-]*[a-z][\w*-]*", stem)]
        for name in sorted(os.listdir(folder)):
            stem = os.path.splitext(name)[0]
            kinds = (stem, re.sub(r"_(c|avx2|sse42|avx512|bmi2|vnni|x86)$", "", stem))  # one line for all instruction sets
            if name.endswith(".c") and not any(re.fullmatch(pattern, kind) for pattern in patterns for kind in kinds):
                yield f"{os.path.relpath(folder, root)}/README.md does not list {name}"


def missing(root):
    """Source files that the README of a room names and that do not exist, there or in another room."""
    known = {name for top in ("src", "cli", "python", "include", "tests", "bench") for _, _, names in os.walk(os.path.join(root, top)) for name in names}
    for room in LAW:
        folder = room_folder(root, room)
        for name in named(folder):
            pattern = pattern_of(os.path.basename(name))
            if re.fullmatch(r"[\w*/-]+\.c", name) and not any(re.fullmatch(pattern, one) for one in known):
                yield f"{os.path.relpath(folder, root)}/README.md names {name}, which does not exist"


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    rooms = set(os.listdir(os.path.join(root, "src"))) - {"README.md", "meson.build"}
    found = list(breaches(root)) + list(unlisted(root)) + list(missing(root)) + [f"src/{room}: not in the law of {sys.argv[0]}" for room in sorted(rooms - set(LAW))]
    print("\n".join(found) if found else "dependency law: kept; every file is listed")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
