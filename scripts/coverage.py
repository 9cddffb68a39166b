#!/usr/bin/env python3
"""Line coverage of src/ after the tests ran in a build folder made with -Db_coverage=true.

    coverage.py BUILD [--least PERCENT] [--list FILE]

Prints one row per room and the total. Kernels of instruction sets that this processor lacks (KERNELS) cannot be reached and are left
out, by name; those of other processors were not built. Writes the lines that no test reached to BUILD/uncovered.txt
(--list: elsewhere).
Exit code 1 when the total is below --least. Needs gcov only.
"""
import argparse
import collections
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Library of a kernel that few processors run: what it needs, in the words of /proc/cpuinfo.
KERNELS = {"libcrc32c_avx512": "avx512f vpclmulqdq", "libplane_vnni": "avx512_vnni", "libresize_vnni": "avx512_vnni"}


def out_of_reach():
    """The kernels that this processor cannot run."""
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    flags = {flag for line in text.splitlines() if line.startswith("flags") for flag in line.split()}
    return [name for name, needs in KERNELS.items() if not flags.issuperset(needs.split())]


def reports(build):
    """The parsed gcov report of every object file below BUILD/src."""
    absent = {f"{name}.a.p" for name in out_of_reach()}
    notes = [str(path.resolve()) for path in sorted(build.glob("src/**/*.gcno")) if path.parent.name not in absent]
    if not notes:
        sys.exit(f"{build}: no object was built for coverage; configure it with -Db_coverage=true")
    with tempfile.TemporaryDirectory() as folder:
        for number, note in enumerate(notes):  # one folder per object: names of reports repeat between rooms
            here = os.path.join(folder, str(number))
            os.mkdir(here)
            subprocess.run(["gcov", "--json-format", note], cwd=here, check=True, capture_output=True)
            for name in os.listdir(here):
                with gzip.open(os.path.join(here, name), "rt", encoding="utf-8") as f:
                    yield json.load(f)


def count(build):
    """{file in src/: {line: how often it ran}}; a header's line counts once, wherever it was included."""
    files = collections.defaultdict(collections.Counter)
    for report in reports(build):
        folder = report["current_working_directory"]
        for file in report["files"]:
            path = pathlib.Path(os.path.realpath(os.path.join(folder, file["file"])))
            if path.is_relative_to(ROOT / "src"):
                for line in file["lines"]:
                    files[path.relative_to(ROOT)][line["line_number"]] += line["count"]
    return files


def ranges(lines):
    """[3, 4, 5, 9] as "3-5, 9"."""
    runs = []
    for line in sorted(lines):
        if runs and line == runs[-1][1] + 1:
            runs[-1][1] = line
        else:
            runs.append([line, line])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def share(hit, lines):
    return 100 * hit / lines if lines else 100.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--least", type=float, default=0, metavar="PERCENT")
    parser.add_argument("--list", type=pathlib.Path, metavar="FILE")
    options = parser.parse_args()

    rooms = collections.defaultdict(lambda: [0, 0])
    missed = []
    for path, lines in sorted(count(options.build).items()):
        hit = sum(1 for times in lines.values() if times)
        rooms[path.parts[1]][0] += hit
        rooms[path.parts[1]][1] += len(lines)
        if hit < len(lines):
            missed.append(f"{path}: {ranges(line for line, times in lines.items() if not times)}")
    total = [sum(column) for column in zip(*rooms.values())]
    print(f"{'room':10} {'lines':>7} {'reached':>8} {'%':>6}")
    for room, (hit, lines) in [*sorted(rooms.items()), ("total", total)]:
        print(f"{room:10} {lines:7} {hit:8} {share(hit, lines):6.1f}")
    if out_of_reach():
        print(f"left out, because this processor cannot run them: {', '.join(out_of_reach())}")
    place = options.list or options.build / "uncovered.txt"
    place.write_text("\n".join(missed) + "\n", encoding="utf-8")
    print(f"the {total[1] - total[0]} lines that no test reached: {place}")
    if share(*total) < options.least:
        sys.exit(f"coverage is {share(*total):.1f} %, at least {options.least:g} % is expected")


if __name__ == "__main__":
    main()
