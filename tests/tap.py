"""Tests in Python speak TAP as the C ones do: functions named test_*, run in order of definition, filtered by
parts of their names in argv. A part that no name has lists the names and exits with 2."""
import sys
import traceback

import leftovers


class Skip(Exception):
    """Raised by a test that cannot run here; the text says why."""


def main(namespace):
    wanted = sys.argv[1:]
    tests = [(name, function) for name, function in namespace.items() if name.startswith("test_") and callable(function)]
    wrong = [word for word in wanted if not any(word in name for name, _ in tests)]
    if wrong:
        for word in wrong:
            print(f'{sys.argv[0]}: no test has "{word}" in its name', file=sys.stderr)
        print("the tests are:", *(name for name, _ in tests), sep="\n  ", file=sys.stderr)
        sys.exit(2)
    tests = [(name, function) for name, function in tests if not wanted or any(word in name for word in wanted)]
    failed = 0
    leftovers.mark("PENSTOCK_TEST_PROGRAM")
    for number, (name, function) in enumerate(tests, 1):
        try:
            function()
            print(f"ok {number} - {name}", flush=True)
        except Skip as why:
            print(f"ok {number} - {name} # SKIP {why}", flush=True)
        except Exception:
            failed += 1
            for line in traceback.format_exc().splitlines():
                print("# " + line)
            print(f"not ok {number} - {name}", flush=True)
    leftovers.end("PENSTOCK_TEST_PROGRAM")
    print(f"1..{len(tests)}")
    sys.exit(failed != 0)
