#!/usr/bin/env python3
"""Writes the list of operations from their files: src/ops/op_list.txt (what is built, and the order of the reference),
op_list.h (their declarations) and op_list.c (the table).

An operation is a file src/ops/op_NAME.c with a `const struct op_decl op_NAME`, or src/source/source_NAME.c with a
`const struct source_class source_NAME`. The order of op_list.txt is kept; a new operation goes to the end of its kind, and
its line may be moved within it. A source marked "unlisted" is built, and is in a table of its own: no text names it.

list_ops.py [SRC]            writes them
list_ops.py --check [SRC]    fails if they are not what it would write
"""
import argparse
import os
import re
import sys

HOME = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src")
KINDS = ["SOURCE", "ORDER", "SAMPLE", "BATCHING"]
DECLARED = re.compile(r"^const struct (op_decl|source_class) (\w+) = \{(.*)$", re.M)
KIND = re.compile(r"^    \.kind = PST_OP_(\w+),$", re.M)
MADE = "Written by scripts/list_ops.py (make generate); do not edit."


class Op:
    def __init__(self, src, path):
        with open(os.path.join(src, path)) as f:
            text = f.read()
        name = os.path.basename(path)[:-2]
        found = [d for d in DECLARED.finditer(text) if d[2] == name]
        if len(found) != 1:
            sys.exit(f"src/{path}: expected one declaration `const struct op_decl {name} = {{` (of a source: source_class)")
        kind = KIND.search(text, found[0].end())
        self.path, self.name, self.type = path, name, found[0][1]
        self.listed = "unlisted" not in text[found[0].start() :].split("    .", 1)[0]
        self.kind = "SOURCE" if self.type == "source_class" else kind[1] if kind else None
        joins = self.type == "op_decl" and "    .join = " in text[found[0].start() :]
        if self.kind not in KINDS or (self.kind == "SOURCE") != (self.type == "source_class" or joins):
            sys.exit(f"src/{path}: expected .kind = PST_OP_ORDER, PST_OP_SAMPLE or PST_OP_BATCHING (of a join: PST_OP_SOURCE)")


def find(src):
    for folder, start in (("source", "source_"), ("ops", "op_")):
        for name in sorted(os.listdir(os.path.join(src, folder))):
            if name.startswith(start) and name.endswith(".c") and name not in ("op_table.c", "op_list.c"):
                yield f"{folder}/{name}"


def ordered(ops, known):
    """By kind; within a kind as `known` has them, then the new ones by name."""
    place = {path: i for i, path in enumerate(known)}
    return sorted(ops, key=lambda o: (KINDS.index(o.kind), place.get(o.path, len(place)), o.path))


def header(ops):
    lines = [f"/* op_list.h: every operation by name. {MADE} */", "#ifndef OPS_OP_LIST_H", "#define OPS_OP_LIST_H", "",
             '#include "ops/op_decl.h"', '#include "source/source.h"', ""]
    lines += [f"extern const struct {o.type} {o.name};" for o in ops]
    return "\n".join(lines + ["", "#endif", ""])


def table(ops):
    lines = [f"/* op_list.c: the table of operations, in the order of the reference. {MADE} */", '#include "ops/op_list.h"',
             "", '#include "ops/op_table.h"', "", "const struct op_entry op_table[] = {"]
    lines += [f"    {{&{o.name}.op, {'&' + o.name if o.type == 'op_decl' else 'NULL'}}}," for o in ops if o.listed]
    lines += ["    {NULL, NULL},", "};", "", "const struct op_entry op_unlisted[] = {"]
    lines += [f"    {{&{o.name}.op, NULL}}," for o in ops if not o.listed]
    return "\n".join(lines + ["    {NULL, NULL},", "};", ""])


def written(path):
    if not os.path.exists(path):
        return ""
    with open(path) as f:
        return f.read()


def main():
    parser = argparse.ArgumentParser(description="Writes the list of operations from their files.")
    parser.add_argument("--check", action="store_true", help="fail if the list is not current; write nothing")
    parser.add_argument("src", nargs="?", default=HOME, help="the folder with ops/ and source/")
    given = parser.parse_args()
    at = {name: os.path.join(given.src, "ops", name) for name in ("op_list.txt", "op_list.h", "op_list.c")}
    ops = ordered([Op(given.src, path) for path in find(given.src)], written(at["op_list.txt"]).split())
    made = {"op_list.txt": "".join(o.path + "\n" for o in ops), "op_list.h": header(ops), "op_list.c": table(ops)}
    stale = [name for name, text in made.items() if written(at[name]) != text]
    if given.check and stale:
        sys.exit("src/ops: " + ", ".join(stale) + ": not current; run `make generate`")
    for name in stale:
        with open(at[name], "w") as f:
            f.write(made[name])


if __name__ == "__main__":
    main()
