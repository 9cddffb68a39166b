"""Every public header compiles by itself, without a warning, as C and as C++, and says in a comment what each name is."""
import os
import re
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


def text_of(header):
    with open(os.path.join(INCLUDE, "penstock", header), encoding="utf-8") as f:
        return f.read()


def without_comment(text):
    """The lines that declare a type, a member, a value or a function without a comment above or beside them."""
    lines = text.split("\n")
    blank = re.sub(r"/\*.*?\*/", lambda found: re.sub(r"[^\n]", "\0", found[0]), text, flags=re.S).split("\n")  # comments as NULs
    depth, open_since, found = 0, None, []
    for i, line in enumerate(blank):
        code = line.replace("\0", "").strip()
        if not code or code.startswith(("#", 'extern "C"')) or (depth == 0 and code == "}"):
            continue
        if open_since is None:
            open_since = i
        so_far = "".join(blank[open_since : i + 1])
        ends = code.endswith(("{", "}", ";", ",")) and so_far.count("(") == so_far.count(")")
        if not ends and not (depth and blank[i + 1].strip(" \0").startswith("}")):  # the last value of an enum has no comma
            continue
        first = blank[open_since].replace("\0", "").strip()
        declares = not first.startswith("}") and (depth > 0 or first.startswith("PST_API") or "{" in so_far)
        above = open_since > 0 and blank[open_since - 1].endswith("\0") and not blank[open_since - 1].strip(" \0")
        if declares and not above and "\0" not in so_far:
            found.append(lines[open_since])
        depth += so_far.count("{") - so_far.count("}")
        open_since = None
    return found


def test_every_name_has_a_comment():
    for header in HEADERS:
        bare = without_comment(text_of(header))
        assert not bare, f"{header}: {bare}"
    told = "/* A. */\ntypedef enum a {\n    X = 0, /* X. */\n    Y\n} a;\nPST_API int f(int a,\n              int b);\n"
    assert without_comment(told) == ["    Y", "PST_API int f(int a,"]


def test_comments_of_members_are_sentences():
    for header in HEADERS:
        for comment in re.findall(r"[,;] */\*(.*?)\*/", text_of(header), flags=re.S):
            assert comment.rstrip().endswith((".", "…")), f"{header}: {comment}"


tap.main(globals())
