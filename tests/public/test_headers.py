"""Every public header compiles by itself, without a warning, as C and as C++."""
import os
import shutil
import subprocess
import tempfile

import tap

INCLUDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "include")
HEADERS = sorted(os.listdir(os.path.join(INCLUDE, "penstock")))
WARNINGS = ["-Wall", "-Wextra", "-pedantic", "-Werror"]


def compile_each(compiler, standard, ending, body=""):
    if not shutil.which(compiler):
        raise tap.Skip(f"there is no {compiler} here")
    assert "base.h" in HEADERS and len(HEADERS) >= 9, HEADERS
    with tempfile.TemporaryDirectory() as folder:
        for header in HEADERS:
            source = os.path.join(folder, "one." + ending)
            with open(source, "w", encoding="utf-8") as f:
                f.write(f"#include <penstock/{header}>\n#include <penstock/{header}>\n{body}")
            done = subprocess.run([compiler, standard, *WARNINGS, "-I", INCLUDE, "-c", source, "-o", os.path.join(folder, "one.o")],
                                  capture_output=True, text=True)
            assert done.returncode == 0, f"{header}: {done.stderr}"


def test_c():
    compile_each(os.environ.get("CC", "cc"), "-std=c11", "c", "int main(void) { return PST_OK; }\n")


def test_cplusplus():
    compile_each(os.environ.get("CXX", "g++"), "-std=c++17", "cc", "int main() { pst_error e; return pst_fail(&e, PST_OK, \"x\"); }\n")


tap.main(globals())
