#!/usr/bin/env python3
"""Runs `meson test` on a build folder and counts the single tests inside the programs (they print TAP).

    run_tests.py BUILD [meson test options…]

The last line is "N passed, N failed" (", N skipped" where something could not run here); every failure is shown.
"""
import json
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests"))
import leftovers

LINE = re.compile(r"^(not )?ok \d+(?: - (.*?))?(?:\s*# SKIP (.*))?$")


def main():
    build, options = sys.argv[1], sys.argv[2:]
    log = os.path.join(build, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.remove(log)
    leftovers.mark("PENSTOCK_TEST_RUN")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        status = subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--timeout-multiplier", "10", *options],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    finally:
        leftovers.end("PENSTOCK_TEST_RUN")  # also of programs that were killed because they took too long
    if not os.path.exists(log):
        sys.exit(status.stdout)
    passed = failed = skipped = 0
    for program in map(json.loads, open(log)):
        text = program.get("stdout", "")
        results = [found.groups() for found in map(LINE.match, text.splitlines()) if found]
        bad = [name for refused, name, _ in results if refused]
        if not results and program["result"] == "OK":
            results = [(None, program["name"], None)]  # a program that is one test, judged by its exit code
        skips = [(name, why) for refused, name, why in results if not refused and why]
        broken = program["result"] in ("FAIL", "ERROR", "TIMEOUT") and not bad
        passed += len(results) - len(bad) - len(skips)
        failed += len(bad) + broken
        skipped += len(skips)
        print(f"{program['result']:8} {len(results) - len(skips):4} tests {program['duration']:7.2f} s  {program['name']}")
        for name, why in skips:
            print(f"         skipped {name}: {why}")
        if bad or broken:
            print("\n".join(text.splitlines()[-60:] + program.get("stderr", "").splitlines()[-40:]))
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(failed != 0 or passed == 0)


if __name__ == "__main__":
    main()
