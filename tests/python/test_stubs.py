"""The type stubs are those of this module: as python_stubs.py writes them, every name there, every signature alike."""

import ast
import inspect
import os
import subprocess
import sys

import penstock as ps
import tap

PYTHON = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")


def stub():
    with open(os.path.join(PYTHON, "penstock", "__init__.pyi")) as f:
        return f.read()


def test_stubs_are_up_to_date():
    made = subprocess.run(
        [sys.executable, os.path.join(PYTHON, "..", "scripts", "python_stubs.py")], check=True, capture_output=True, text=True
    ).stdout
    assert made == stub(), "run scripts/python_stubs.py again"


def names(function):
    arguments = function.args
    return [
        a.arg
        for a in arguments.posonlyargs
        + arguments.args
        + ([arguments.vararg] if arguments.vararg else [])
        + arguments.kwonlyargs
    ]


def check(node, found, place):
    if isinstance(node, ast.FunctionDef) and inspect.isfunction(found):
        signature = inspect.signature(found)
        real = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        if node.name != "__exit__" and len(real) == len(signature.parameters):
            assert names(node) == [p.name for p in real], f"{place}: {names(node)}, really {signature}"


def test_every_name_is_there():
    tree = ast.parse(stub())
    public = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            public.add(node.name)
            check(node, getattr(ps, node.name), node.name)
        elif isinstance(node, ast.ClassDef):
            public.add(node.name)
            kind = getattr(ps, node.name)
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and member.name not in ("__buffer__", "__iter__"):
                    check(member, getattr(kind, member.name), f"{node.name}.{member.name}")
    missing = {name for name in ps.__all__ if name not in public} - {"AUTOTUNE", "layers", "losses", "optimizers"}
    assert not missing, missing
    dataset = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Dataset")
    typed = {member.name for member in dataset.body if isinstance(member, ast.FunctionDef)}
    assert {name for name in vars(ps.Dataset) if not name.startswith("_")} <= typed | {"class_names"}


if __name__ == "__main__":
    tap.main(globals())
