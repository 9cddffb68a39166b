"""File names that hold anything a file system allows: packed as they are, printed without harm."""
import os

import tap
from tool import penstock, read_examples, report, scratch

HOSTILE = ["new\nline.jpg", "esc\033[31mred.jpg", "bell\a.jpg", "-dash.jpg", "--force.jpg", " space .jpg", "quote'\".jpg",
           "back\\slash.jpg", "tab\t.jpg", "ünï-日本.jpg", "star*?[a].jpg", "$(touch x).jpg", "%s%n.jpg", "\u202egpj.jpg",
           "x" * 251 + ".jpg"]
RAW = b"not-utf8-\xff\xfe.jpg"


def hostile_folder(folder, content=None):
    penstock("generate", f"{folder}/g", "--images", 2, "--classes", 2, "--size", 16, "--format", "jpeg", "-q")
    if content is None:
        with open(f"{folder}/g/circle/circle-00000.jpg", "rb") as f:
            content = f.read()
    os.makedirs(f"{folder}/in/class")
    for name in [os.fsencode(name) for name in HOSTILE] + [RAW]:
        with open(os.path.join(os.fsencode(folder), b"in/class", name), "wb") as f:
            f.write(content)
    return f"{folder}/in"


def harmless(text):
    for character in text:
        assert character == "\n" or (character.isprintable() and character != "\u202e"), repr(text)


def test_hostile_names_are_packed_as_they_are():
    with scratch() as folder:
        source = hostile_folder(folder)
        assert report("pack", source, f"{folder}/out")["records"] == len(HOSTILE) + 1
        keys = {e["key"][0] for e in read_examples(f"{folder}/out")}
        assert {b"class/" + os.fsencode(name) for name in HOSTILE} | {b"class/" + RAW} == keys


def test_hostile_names_are_printed_without_harm():
    with scratch() as folder:
        source = hostile_folder(folder, b"no image")
        with open(f"{source}/class/good.jpg", "wb") as f, open(f"{folder}/g/circle/circle-00000.jpg", "rb") as g:
            f.write(g.read())
        result = penstock("pack", source, f"{folder}/out", "--bad", "skip", "--resize", 16)
        harmless(result.out)
        assert "skipped 16:" in result.out
        result = penstock("pack", source, f"{folder}/out2", "--resize", 16, code=3)
        harmless(result.err)
        assert len(report("pack", source, f"{folder}/out3", "--bad", "skip", "--resize", 16)["skipped"]) == 16


def test_hostile_operands():
    with scratch() as folder:
        for name in HOSTILE:
            result = penstock("index", "--", f"{folder}/{name}", code=1)
            harmless(result.err)
            assert result.err.startswith("penstock: error: "), result
        harmless(penstock("frob\033[31m\n", code=2).err)
        harmless(penstock("pack", "--\033[31m\n", code=2).err)
        harmless(penstock("pack", "a", "b", "--quality", "\033[31m\n", code=2).err)


def test_hostile_outputs():
    with scratch() as folder:
        penstock("generate", f"{folder}/g", "--images", 4, "--classes", 2, "--size", 16, "-q")
        for number, name in enumerate(HOSTILE[:-1]):
            result = penstock("pack", f"{folder}/g", "--", f"{folder}/{number} {name}")
            harmless(result.out)
            assert len(read_examples(f"{folder}/{number} {name}")) == 4


tap.main(globals())
