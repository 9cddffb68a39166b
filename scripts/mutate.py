#!/usr/bin/env python3
"""Mutation run: changes one operator or constant of a room at a time and asks whether its tests notice.

    mutate.py ROOM… [--count N] [--seed N] [--folder DIR] [--only FILE…] [--report FILE]

Works in a copy of the tree (--folder, by default build-mutate), so the sources stay as they are. A mutant is
    killed    a test failed, crashed, or ran out of time
    same      the compiler makes the same object of it
    invalid   it does not compile
    survived  every test of the room passed: read it, and mend the tests unless the change makes no difference
The sample is drawn with --seed, evenly over the lines of the room. The report lists the survivors.
"""
import argparse
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Quick tests of each room, by their names in meson.
TESTS = {
    "flow": ["tune", "batch", "flow_failures", "flow_places", "flow_ranks", "order", "flow_stats", "cast", "ops", "sources",
             "flow_damage", "generator", "flow_corners", "flow", "entropy_flow", "flow_ops"],
    "lang": ["chain", "args", "lang", "ops", "flow_ops", "fuzz_pipeline_text"],
    "record": ["record", "damage", "index", "shard", "writer", "example", "schema", "sequence", "builder", "example_hostile",
               "entropy", "list_inference", "event_writer", "source_tfrecord", "source_stream", "source_damage", "source_guard", "inspect_damage", "repair", "fuzz_record",
               "fuzz_index", "fuzz_index_text", "fuzz_example", "fuzz_schema_text", "fuzz_sequence"],
}

SWAPS = {"==": ["!="], "!=": ["=="], "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "&&": ["||"], "||": ["&&"],
         "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["/"], "&": ["|"], "|": ["&"], "<<": [">>"], ">>": ["<<"],
         "+=": ["-=", "="], "-=": ["+="], "|=": ["="], "&=": ["="], "++": ["--"], "--": ["++"], "true": ["false"], "false": ["true"]}
# The style puts spaces around binary operators only, so that a pointer's star is not one.
BINARY = re.compile(r"(?<= )(==|!=|<=|>=|<<|>>|\|\||&&|\+=|-=|\|=|&=|[<>+\-*/%&|])(?= )")
UNARY = re.compile(r"\+\+|--|\btrue\b|\bfalse\b|(?<=[( ])!(?=[\w(*])")
NUMBER = re.compile(r"(?<![\w.])(0x[0-9a-fA-F]+|\d+)(?=[uUlL]*\b)(?!\.\d)")
HIDDEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def mask(text):
    """Comments and literals as blanks, at the same places."""
    return HIDDEN.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def mutants_of(path):
    """(line, column, old, new) of everything that may be changed in a file."""
    for number, line in enumerate(mask((ROOT / path).read_text(encoding="utf-8")).split("\n"), 1):
        if re.match(r"\s*(#\s*(include|if|else|endif|error|pragma)|assert\(|static_assert)", line):
            continue
        for found in BINARY.finditer(line):
            for new in SWAPS[found[1]]:
                yield number, found.start(), found[1], new
        for found in UNARY.finditer(line):
            for new in SWAPS.get(found[0], [""]):
                yield number, found.start(), found[0], new
        for found in NUMBER.finditer(line):
            value = int(found[1], 0)
            yield number, found.start(), found[1], str(value + 1)
            if value > 1:
                yield number, found.start(), found[1], str(value - 1)


def sample(room, count, seed, only):
    """At most one mutant per line, so that a line full of operators does not crowd out others."""
    lines = {}
    for path in sorted((ROOT / "src" / room).rglob("*.c")):
        path = path.relative_to(ROOT)
        if only and path.name not in only:
            continue
        for number, column, old, new in mutants_of(path):
            lines.setdefault((path, number), []).append((column, old, new))
    draw = random.Random(f"{room} {seed}")
    places = sorted(lines)
    draw.shuffle(places)
    return [(path, number, *draw.choice(lines[path, number])) for path, number in places[:count]]


def restrain():
    """In the child: a mutant may ask for any amount of memory or storage."""
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Tree:
    """A copy of the tree with a build folder, and the tests of one room in it."""

    def __init__(self, folder, room):
        self.folder = folder
        self.build = folder / "build"
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
        for name in filter(None, files):
            source, target = ROOT / name, folder / name
            if source.exists() and (not target.exists() or source.read_bytes() != target.read_bytes()):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
                shutil.copymode(source, target)
        if not (self.build / "meson-info/intro-tests.json").exists():
            subprocess.run(["meson", "setup", "-Dbuildtype=plain", "-Doptimization=1", "-Dpython=disabled", str(self.build)],
                           cwd=folder, check=True, stdout=subprocess.DEVNULL)
        self.tests = {test["name"]: test for test in json.loads((self.build / "meson-info/intro-tests.json").read_text())}
        self.names = [name for name in TESTS[room] if name in self.tests]
        if not self.make(*(self.program(name) for name in self.names), "tests/fuzz/seeds.stamp"):
            sys.exit(f"{folder}: does not build")
        self.limit = {}
        for name in self.names:
            begin = time.monotonic()
            if not self.passes(name, 600):
                sys.exit(f"{name} fails without a mutant")
            self.limit[name] = 10 + 4 * (time.monotonic() - begin)

    def program(self, name):
        return os.path.relpath(self.tests[name]["cmd"][0], self.build)

    def make(self, *targets):
        return subprocess.run(["ninja", "-j2", *targets], cwd=self.build, stdout=subprocess.DEVNULL, check=False).returncode == 0

    def passes(self, name, limit):
        test = self.tests[name]
        scratch = self.folder / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        with subprocess.Popen(test["cmd"], cwd=self.build, env={**os.environ, **test["env"], "TMPDIR": str(scratch)},
                              start_new_session=True, preexec_fn=restrain, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as run:
            try:
                return run.wait(limit) == 0
            except subprocess.TimeoutExpired:
                return False
            finally:
                try:
                    os.killpg(run.pid, signal.SIGKILL)  # its children too
                except ProcessLookupError:
                    pass

    def objects(self, path):
        """What the file compiles to: its target in ninja, and a digest of the bytes."""
        for name in self.build.glob(f"src/{path.parts[1]}/*.p/{'_'.join(path.parts[2:])}.o"):
            return os.path.relpath(name, self.build), hashlib.sha256(name.read_bytes()).hexdigest()
        sys.exit(f"{path}: no object")

    def order(self, path):
        """Tests that share a word with the file come first."""
        words = set(path.stem.split("_"))
        return sorted(self.names, key=lambda name: not words & set(name.split("_")))

    def judge(self, path, number, column, old, new):
        target = self.folder / path
        text = (ROOT / path).read_text(encoding="utf-8")
        lines = text.split("\n")
        line = lines[number - 1]
        lines[number - 1] = line[:column] + new + line[column + len(old):]
        target.write_text(text, encoding="utf-8")
        name = self.objects(path)[0]
        self.make(name)
        before = self.objects(path)[1]
        target.write_text("\n".join(lines), encoding="utf-8")
        try:
            if not self.make(name):
                return "invalid", ""
            if self.objects(path)[1] == before:
                return "same", ""
            for test in self.order(path):
                if not self.make(self.program(test)):
                    return "invalid", ""
                if not self.passes(test, self.limit[test]):
                    return "killed", test
            return "survived", ""
        finally:
            target.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="+", choices=sorted(TESTS))
    parser.add_argument("--count", type=int, default=100, help="mutants per room")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build-mutate")
    parser.add_argument("--only", nargs="*", default=[], metavar="FILE", help="names of files of the room")
    parser.add_argument("--report", type=pathlib.Path)
    options = parser.parse_args()
    report = open(options.report, "a", encoding="utf-8") if options.report else sys.stdout
    for room in options.rooms:
        tree = Tree(options.folder.resolve(), room)
        sums = dict.fromkeys(("killed", "survived", "same", "invalid"), 0)
        for path, number, column, old, new in sample(room, options.count, options.seed, options.only):
            verdict, by = tree.judge(path, number, column, old, new)
            sums[verdict] += 1
            if verdict == "survived" or options.report:
                source = (ROOT / path).read_text(encoding="utf-8").split("\n")[number - 1].strip()
                print(f"{verdict:8} {path}:{number}:{column + 1}: {old} -> {new or '(none)'}   {source}{'   # ' + by if by else ''}",
                      file=report, flush=True)
        print(f"{room}: " + ", ".join(f"{n} {verdict}" for verdict, n in sums.items()), flush=True)


if __name__ == "__main__":
    main()
