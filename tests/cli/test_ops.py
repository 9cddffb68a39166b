"""The operations as the tool explains them: everything comes from the library's table, docs/ops.md too."""
import json
import os
import re

import tap
from tool import penstock

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "ops.md")


def names():
    return re.findall(r"^  (\w+)", penstock("ops").out, re.M)


def test_the_list_has_headings_and_a_sentence_each():
    text = penstock("ops").out
    for heading in ("Order", "Elements", "Batches and memory"):
        assert f"{heading}:\n" in text, text
    for name in ("shuffle", "example", "batch"):
        assert re.search(rf"^  {name}\s+\w.*", text, re.M), text
    assert len(names()) == len(set(names())) > 10


def test_every_operation_is_explained():
    for name in names():
        text = penstock("ops", name).out
        assert text.startswith(name) and "\nExample:\n  " in text, text
        signature = text.splitlines()[0].replace("...", "")
        for parameter in re.findall(r"[ \[](\w+)(?:=|$|[ \]])", signature[len(name):]):
            assert re.search(rf"^  {parameter}\s", text, re.M), f"{name}: {parameter}\n{text}"
        assert "required" in text or not re.search(r" \w+(\.\.\.)?( |$)", text.splitlines()[0]), text


def test_an_example_has_its_operation():
    for name in names():
        example = penstock("ops", name).out.split("\nExample:\n")[1]
        assert re.search(rf"(^\s*|\| ){name}\b", example), example


def test_a_wrong_name_gets_a_suggestion():
    result = penstock("ops", "shufle", code=2)
    assert result.out == "" and "unknown operation shufle" in result.err and "try: penstock ops shuffle" in result.err
    assert "try: penstock ops\n" in penstock("ops", "transmogrify", code=2).err


def test_wraps_at_the_width():
    for columns in (40, 60, 80, 100):
        for arguments in ([], ["shuffle"], ["cast"]):
            text = re.split("\n(?:Example|More about)", penstock("ops", *arguments, env={"COLUMNS": str(columns)}).out)[0]
            for line in text.splitlines()[1:]:
                assert len(line) < columns or len(line.split()) <= 2, (columns, line)


def test_the_page_is_what_the_tool_writes():
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    assert page == penstock("ops", "--markdown").out, "docs/ops.md is old; write it anew: penstock ops --markdown >docs/ops.md"


def test_the_page_has_every_operation():
    page = penstock("ops", "--markdown").out
    assert re.findall(r"^### (\w+)$", page, re.M) == names()
    for name in names():
        assert penstock("ops", "--markdown", name).out in page, name


def test_json():
    """The same table for programs."""
    every = json.loads(penstock("ops", "--json").out)
    assert {op["name"] for op in every} >= {"tfrecord", "shuffle", "decode", "batch"}
    shuffle = json.loads(penstock("ops", "shuffle", "--json").out)
    assert shuffle in every and shuffle["kind"] == "order"
    assert [p["name"] for p in shuffle["parameters"]] == ["buffer", "window", "seed", "reshuffle"]
    cast = json.loads(penstock("ops", "cast", "--json").out)
    assert cast["parameters"][0]["default"] is None and "f16" in cast["parameters"][0]["choices"]
    penstock("ops", "--json", "--markdown", code=2)


tap.main(globals())
