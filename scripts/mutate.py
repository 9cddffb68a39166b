#!/usr/bin/env python3
"""Mutation run: changes one operator or constant of a room at a time and asks whether a test notices.

    mutate.py ROOM… [--count N] [--seed N] [--folder DIR] [--only FILE…] [--tests PATTERN] [--report FILE] [--again REPORT]

Works in a copy of the tree (--folder, by default build-mutate), so the sources stay as they are. First every C test that takes
at most --longest seconds of a processor runs once in a build with gcov, which tells the lines that it reaches. A mutant is judged by the tests
that reach its line, the quickest first, up to the first one that fails. It is
    killed    a test failed, crashed, or ran out of time
    same      the compiler makes the same object of it
    invalid   it does not compile
    unreached no such test reaches its line (the tests of the tool and of Python may)
    survived  every test passed: read it, and mend the tests unless the change makes no difference
The sample is drawn with --seed, evenly over the lines of the room. The report lists the survivors. With --report FILE it lists every
mutant, and a run that was interrupted continues after those in the file.
"""
import argparse
import functools
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
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

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


@functools.cache
def source(path):
    """The text of a file when the run began: the tree may change meanwhile."""
    return (ROOT / path).read_text(encoding="utf-8")


def mutants_of(path):
    """(line, column, old, new) of everything that may be changed in a file."""
    for number, line in enumerate(mask(source(path)).split("\n"), 1):
        if re.match(r"\s*(#\s*(include|if|else|endif|error|pragma)|assert\(|static_assert)", line):
            continue
        for found in BINARY.finditer(line):
            for new in SWAPS[found[1]]:
                yield number, found.start(), found[1], new
        for found in UNARY.finditer(line):
            for new in SWAPS.get(found[0], [""]):
                yield number, found.start(), found[0], new
        for found in NUMBER.finditer(line):
            value = int(found[1], 8 if re.fullmatch("0\\d+", found[1]) else 0)
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


def listed(report, room):
    """The mutants of a room that a report calls survived or unreached."""
    for verdict, its_room, mutant in entries(report):
        if its_room == room and verdict in ("survived", "unreached"):
            yield mutant


def entries(report):
    """(verdict, room, mutant) of every line of a report."""
    pattern = re.compile(r"(\w+) +(src/(\w+)/\S+?):(\d+):(\d+): (\S+) -> (\S+) ")
    for found in filter(None, map(pattern.match, report.read_text(encoding="utf-8").splitlines())):
        verdict, path, room, number, column, old, new = found.groups()
        yield verdict, room, (pathlib.Path(path), int(number), int(column) - 1, old, "" if new == "(none)" else new)


def restrain():
    """In the child: a mutant may ask for any amount of memory or storage."""
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Build:
    """A build folder and the C tests in it."""

    def __init__(self, source, folder, wanted, *options):
        self.folder = folder
        if not (folder / "meson-info/intro-tests.json").exists():
            subprocess.run(["meson", "setup", "-Dbuildtype=plain", "-Doptimization=1", "-Dpython=disabled", *options, str(folder)],
                           cwd=source, check=True, stdout=subprocess.DEVNULL)
        if not self.make("build.ninja"):
            sys.exit(f"{folder}: meson fails")
        described = json.loads((folder / "meson-info/intro-tests.json").read_text())
        self.tests = {test["name"]: test for test in described
                      if test["cmd"][0].startswith(f"{folder}/tests/") and re.search(wanted, test["name"])
                      and not {"slow", "interop"} & {s.split(":")[-1] for s in test["suite"]}}

    def program(self, name):
        return os.path.relpath(self.tests[name]["cmd"][0], self.folder)

    def make(self, *targets):
        return subprocess.run(["ninja", "-j2", *targets], cwd=self.folder, stdout=subprocess.DEVNULL, check=False).returncode == 0

    def passes(self, name, limit):
        """Runs a test up to its first "not ok"."""
        test = self.tests[name]
        scratch = self.folder / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        with subprocess.Popen(test["cmd"], cwd=self.folder, env={**os.environ, **test["env"], "TMPDIR": str(scratch)},
                              preexec_fn=restrain, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as run:
            over = threading.Event()
            threading.Thread(target=watch, args=[run, limit, over]).start()
            try:
                if any(line.startswith(b"not ok") for line in run.stdout):
                    return False
                return run.wait() == 0
            finally:
                over.set()
                end(run)


def watch(run, limit, over):
    """Ends a test after so many seconds, not counting those in which this run was stopped."""
    while limit > 0:
        begin = time.monotonic()
        if over.wait(0.5):
            return
        limit -= min(time.monotonic() - begin, 1)
    end(run)


def end(run):
    """Kills a test and its children. They stay in the group of this run, so that it can be stopped and continued as a whole."""
    if run.poll() is not None:
        return
    parents = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parents.setdefault(int(entry.read_text().rsplit(")", 1)[1].split()[1]), []).append(int(entry.parent.name))
        except OSError:  # it has ended meanwhile
            pass
    waiting = [run.pid]
    for pid in waiting:
        waiting += parents.get(pid, [])
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def worked_seconds():
    """Processor time of all tests so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Reached:
    """The tests that reach a line, the quickest first."""

    def __init__(self):
        self.files = {}

    def add(self, path, number, test):
        tests = self.files.setdefault(path, {}).setdefault(number, [])
        if test and test not in tests:
            tests.append(test)

    def tests(self, path, number):
        lines = self.files.get(path, {})
        if number in lines:
            return lines[number]
        # gcov counts no line here, because a statement began above or the line is data: every test of the file.
        return list(dict.fromkeys(test for tests in lines.values() for test in tests))


class Tree:
    """A copy of the tree with two build folders: one for the mutants, one that counts lines."""

    def __init__(self, folder, longest, wanted):
        self.folder = folder
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
        for name in filter(None, files):
            source, target = ROOT / name, folder / name
            if source.exists() and (not target.exists() or source.read_bytes() != target.read_bytes()):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
                shutil.copymode(source, target)
        self.build = Build(folder, folder / "build", wanted)
        self.counted = Build(folder, folder / "build-lines", wanted, "-Db_coverage=true")
        for build in self.build, self.counted:
            if not build.make(*(build.program(name) for name in build.tests), "tests/fuzz/seeds.stamp"):
                sys.exit(f"{build.folder}: does not build")
        self.seconds = {}
        for name in self.build.tests:
            begin, worked = time.monotonic(), worked_seconds()
            passes = self.build.passes(name, 20 * longest)
            if passes and worked_seconds() - worked <= longest:
                self.seconds[name] = time.monotonic() - begin
            else:
                print(f"not used: {name} ({f'takes over {longest:g} s' if passes else 'fails'})", flush=True)

    def reached(self, rooms):
        found = Reached()
        counters = [self.counted.folder / "src" / room for room in rooms]
        for name in sorted(self.seconds, key=self.seconds.get):
            for old in [path for folder in counters for path in folder.rglob("*.gcda")]:
                old.unlink()
            self.counted.passes(name, 120)
            for path, number, count in self.lines(counters):
                found.add(path, number, name if count else None)
        return found

    def lines(self, counters):
        data = [str(path) for folder in counters for path in folder.rglob("*.gcda")]
        if not data:
            return
        listing = subprocess.run(["gcov", "--json-format", "--stdout", *data], cwd=self.counted.folder, capture_output=True, check=True)
        for text in listing.stdout.splitlines():
            for file in json.loads(text)["files"]:
                path = os.path.relpath(os.path.normpath(self.counted.folder / file["file"]), self.folder)
                for line in file["lines"]:
                    yield path, line["line_number"], line["count"]

    def objects(self, path):
        """What the file compiles to: its target in ninja, and a digest of the bytes."""
        for name in self.build.folder.glob(f"src/{path.parts[1]}/*.p/{'_'.join(path.parts[2:])}.o"):
            return os.path.relpath(name, self.build.folder), hashlib.sha256(name.read_bytes()).hexdigest()
        sys.exit(f"{path}: no object")

    def judge(self, tests, path, number, column, old, new):
        target = self.folder / path
        text = source(path)
        lines = text.split("\n")
        line = lines[number - 1]
        lines[number - 1] = line[:column] + new + line[column + len(old):]
        target.write_text(text, encoding="utf-8")
        name = self.objects(path)[0]
        self.build.make(name)
        before = self.objects(path)[1]
        target.write_text("\n".join(lines), encoding="utf-8")
        try:
            if not self.build.make(name):
                return "invalid", ""
            if self.objects(path)[1] == before:
                return "same", ""
            for test in tests:
                if not self.build.make(self.build.program(test)):
                    return "invalid", ""
                if not self.build.passes(test, 10 + 4 * self.seconds[test]):
                    return "killed", test
            return ("survived" if tests else "unreached"), ""
        finally:
            target.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="+", choices=sorted(path.name for path in (ROOT / "src").iterdir() if path.is_dir()))
    parser.add_argument("--count", type=int, default=100, help="mutants per room")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build-mutate")
    parser.add_argument("--only", nargs="*", default=[], metavar="FILE", help="names of files of the room")
    parser.add_argument("--longest", type=float, default=10, help="processor seconds that a test may take to be used")
    parser.add_argument("--tests", default="", metavar="PATTERN", help="only tests whose name matches this regular expression")
    parser.add_argument("--again", type=pathlib.Path, metavar="REPORT", help="judge only the survivors of a report again")
    parser.add_argument("--report", type=pathlib.Path)
    options = parser.parse_args()
    judged = {mutant: verdict for verdict, _, mutant in entries(options.report)} if options.report and options.report.exists() else {}
    report = open(options.report, "a", encoding="utf-8") if options.report else sys.stdout
    drawn = {
        room: list(listed(options.again, room)) if options.again else sample(room, options.count, options.seed, options.only)
        for room in options.rooms
    }
    tree = Tree(options.folder.resolve(), options.longest, options.tests)
    reached = tree.reached(options.rooms)
    for room, mutants in drawn.items():
        sums = dict.fromkeys(("killed", "survived", "unreached", "same", "invalid"), 0)
        for mutant in mutants:
            path, number, column, old, new = mutant
            if mutant in judged:
                sums[judged[mutant]] += 1
                continue
            verdict, by = tree.judge(reached.tests(str(path), number), path, number, column, old, new)
            sums[verdict] += 1
            if verdict in ("survived", "unreached") or options.report:
                line = source(path).split("\n")[number - 1].strip()
                print(f"{verdict:9} {path}:{number}:{column + 1}: {old} -> {new or '(none)'}   {line}{'   # ' + by if by else ''}",
                      file=report, flush=True)
        print(f"{room}: " + ", ".join(f"{n} {verdict}" for verdict, n in sums.items()), flush=True)


if __name__ == "__main__":
    main()
