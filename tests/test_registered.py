"""Every test file is registered in a meson.build: a file that is not would pass by never running.

    test_registered.py BUILD [PATH…]    PATH: a file or folder of tests/ that this build cannot have

The lists of tests and targets are those that meson wrote into BUILD/meson-info.
"""
import json
import os
import pathlib
import sys

import tap

TESTS = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(sys.argv[1])
ABSENT = {(TESTS / path).resolve() for path in sys.argv[2:]}


def read(name):
    with open(BUILD / "meson-info" / f"intro-{name}.json", encoding="utf-8") as f:
        return json.load(f)


def registered():
    """The files that tests run: scripts named on their command lines, and the sources of the programs named there."""
    sources = {}
    for target in read("targets"):
        files = [file for group in target["target_sources"] for file in group.get("sources", [])]
        for program in target["filename"]:
            sources[os.path.realpath(program)] = [os.path.realpath(file) for file in files]
    found = set()
    for test in read("tests"):
        for word in test["cmd"]:
            path = os.path.realpath(word)
            found.update(map(pathlib.Path, sources.get(path, [path])))
    return found


def test_every_test_file_is_registered():
    files = {path.resolve() for end in ("c", "py") for path in TESTS.rglob(f"test_*.{end}")}
    assert len(files) > 100, files
    missing = [path for path in files - registered() if not ABSENT & {path, *path.parents}]
    names = ", ".join(sorted(str(path.relative_to(TESTS)) for path in missing))
    assert not missing, f"in no meson.build: {names}"


def test_absent_files_exist():
    for path in ABSENT:
        assert path.exists(), f"{path}: named as absent, but there is no such file"


del sys.argv[1:]
tap.main(globals())
