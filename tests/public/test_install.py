"""What `make install` puts in place works from there: the tool finds its library, programs are built through pkg-config and CMake."""
import json
import os
import shutil
import subprocess
import tempfile

import tap

BUILD = os.environ["PENSTOCK_BUILD"]
PROGRAM = """#include <penstock/penstock.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
    pst_pipeline *p = NULL;
    pst_batch *batch = NULL;
    if (strcmp(pst_version(), PST_VERSION) != 0 || pst_pipeline_parse(&p, "range 10 | batch 4", NULL, NULL) < 0)
        return 1;
    while (pst_pipeline_next(p, &batch, NULL) == PST_OK) {
        printf("%zu ", pst_batch_size(batch));
        batch = pst_batch_unref(batch);
    }
    pst_pipeline_destroy(p);
    return 0;
}
"""
CMAKE = """cmake_minimum_required(VERSION 3.10)
project(consumer C)
find_package(penstock VERSION REQUIRED)
add_executable(consumer consumer.c)
target_link_libraries(consumer penstock::penstock)
"""
ENV = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH")}


def run(*words, **options):
    done = subprocess.run(words, capture_output=True, text=True, **{"env": ENV, **options})
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def option(name):
    with open(os.path.join(BUILD, "meson-info", "intro-buildoptions.json"), encoding="utf-8") as f:
        return next(o["value"] for o in json.load(f) if o["name"] == name)


class Installed:
    """An installation in a folder that the build does not know: everything has to be found relative to itself."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp()
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", os.path.join(self.folder, "dest"))
        self.prefix = os.path.join(self.folder, "moved")
        os.rename(os.path.join(self.folder, "dest") + option("prefix"), self.prefix)
        self.lib = os.path.join(self.prefix, option("libdir"))
        with open(os.path.join(self.folder, "consumer.c"), "w", encoding="utf-8") as f:
            f.write(PROGRAM)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)


def sanitized():
    return option("b_sanitize") not in ("none", [])


def test_the_tool_finds_its_library():
    with Installed() as here:
        said = run(os.path.join(here.prefix, option("bindir"), "penstock"), "version")
        assert said.startswith("penstock 0."), said
        libraries = run("ldd", os.path.join(here.prefix, option("bindir"), "penstock"))
        assert os.path.realpath(here.prefix) in os.path.realpath(next(line.split()[2] for line in libraries.splitlines()
                                                                      if "libpenstock" in line)), libraries


def test_pkg_config():
    if not shutil.which("pkg-config"):
        raise tap.Skip("there is no pkg-config here")
    if sanitized():
        raise tap.Skip("the library of a sanitized build does not go with a plain program")
    with Installed() as here:
        flags = run("pkg-config", "--define-variable=prefix=" + here.prefix, "--cflags", "--libs", "penstock",
                    env={**ENV, "PKG_CONFIG_PATH": os.path.join(here.lib, "pkgconfig")}).split()
        assert any(here.prefix in flag for flag in flags), flags
        program = os.path.join(here.folder, "consumer")
        run("cc", os.path.join(here.folder, "consumer.c"), *flags, "-o", program)
        assert run(program, env={**ENV, "LD_LIBRARY_PATH": here.lib}) == "4 4 2 "


def test_a_plugin():
    """examples/plugin_scale.c by the commands that it names, in the installed tool."""
    if not shutil.which("pkg-config"):
        raise tap.Skip("there is no pkg-config here")
    if sanitized():
        raise tap.Skip("the library of a sanitized build does not go with a plain program")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "plugin_scale.c")
    with Installed() as here:
        flags = run("pkg-config", "--define-variable=prefix=" + here.prefix, "--cflags", "--libs", "penstock",
                    env={**ENV, "PKG_CONFIG_PATH": os.path.join(here.lib, "pkgconfig")}).split()
        run("cc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", source, "-o", os.path.join(here.folder, "libscale.so"), *flags)
        said = run(os.path.join(here.prefix, option("bindir"), "penstock"), "cat", "--json", "--plugin", "libscale.so",
                   "range 4 | cast f32 value | scale_by value 0.5 | batch 4", cwd=here.folder)
        assert "1.5" in said, said


def test_cmake():
    if not shutil.which("cmake"):
        raise tap.Skip("there is no cmake here")
    if sanitized():
        raise tap.Skip("the library of a sanitized build does not go with a plain program")
    with Installed() as here:
        for version, found in (("0.1", True), ("99.0", False)):
            build = os.path.join(here.folder, "build-" + version)
            with open(os.path.join(here.folder, "CMakeLists.txt"), "w", encoding="utf-8") as f:
                f.write(CMAKE.replace("VERSION REQUIRED", version + " REQUIRED"))
            words = ["cmake", "-S", here.folder, "-B", build, "-DCMAKE_PREFIX_PATH=" + here.prefix]
            if not found:
                assert subprocess.run(words, env=ENV, capture_output=True).returncode != 0
                continue
            run(*words)
            run("cmake", "--build", build)
            assert run(os.path.join(build, "consumer")) == "4 4 2 "


tap.main(globals())
