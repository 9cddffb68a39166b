"""Tests in Python speak TAP as the C ones do: functions named test_*, run in order of definition, filtered by argv."""
import sys
import traceback


class Skip(Exception):
    """Raised by a test that cannot run here; the text says why."""


def main(namespace):
    wanted = sys.argv[1:]
    tests = [(name, function) for name, function in namespace.items() if name.startswith("test_") and callable(function)]
    tests = [(name, function) for name, function in tests if not wanted or any(word in name for word in wanted)]
    failed = 0
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
    print(f"1..{len(tests)}")
    sys.exit(failed != 0)
