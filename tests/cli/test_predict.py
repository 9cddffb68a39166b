"""`penstock predict` and MODEL: files that cannot be read, models that come from elsewhere, options that exclude each other."""
import json
import os
import re
import shutil

import tap
from store_server import serve
from tool import penstock, report, scratch

MODEL = "conv 8 3 pad=same relu | maxpool 2 | globalavgpool | dense 3 softmax"


def setting(folder):
    """Photos, and a run whose pipelines are in files beside them."""
    penstock("generate", f"{folder}/photos", "--images", 24, "--classes", 3, "--size", 20, "-q")
    with open(f"{folder}/size.pst", "w") as f:
        f.write("resize 16 # of the model\n")
    for name, rest in (("t", "shuffle | decode | @size.pst | normalize imagenet"), ("v", "decode |@size.pst|normalize imagenet")):
        with open(f"{folder}/{name}.pst", "w") as f:
            f.write(f"folder photos | {rest} | batch 12")
    penstock("train", "@t.pst", "--val", "@v.pst", "--model", MODEL, "--epochs", 1, "--out", "run", "-q", cwd=folder)


def rows(*arguments, **options):
    return [json.loads(line) for line in penstock("predict", *arguments, "--json", **options).out.splitlines()]


def with_preprocessing(path, to, text):
    """The ONNX file with another text of the same length in its metadata."""
    with open(path, "rb") as f:
        data = f.read()
    old = re.search(rb"folder photos \| decode[ -~]*batch 12", data).group()
    assert len(text) <= len(old)
    with open(to, "wb") as f:
        f.write(data.replace(old, text.encode().ljust(len(old))))


def test_models_are_complete_without_files():
    """A run, an ONNX file and a compressed model hold the whole text of pipelines that were read from files."""
    with scratch() as folder:
        setting(folder)
        state = json.load(open(f"{folder}/run/latest/state.json"))
        assert state["pipeline"].startswith("folder photos | shuffle | decode | resize") and "@" not in state["pipeline"] + state["validation"], state
        penstock("export", "run", "m.onnx", cwd=folder)
        penstock("compress", "run", "--quantize", "int8", "--out", "small", "-q", cwd=folder)
        want = [x["top"][0]["class"] for x in rows("run", "photos", cwd=folder)]
        for name in ("t", "v", "size"):
            os.remove(f"{folder}/{name}.pst")
        os.mkdir(f"{folder}/elsewhere")
        for model in ("../run", "../m.onnx"):
            assert [x["top"][0]["class"] for x in rows(model, "../photos", cwd=f"{folder}/elsewhere")] == want
        assert len(rows("../small", "../photos", cwd=f"{folder}/elsewhere")) == 24, "the folder of compress stands for the model in it"
        penstock("compress", "run", "--quantize", "weights-int8", "--out", "again", "-q", cwd=folder)
        penstock("train", "--resume", "run", "--epochs", 2, "-q", cwd=folder)


def test_hostile_preprocessing():
    """The metadata of an ONNX file names a file: it is not read, whatever it is."""
    with scratch() as folder:
        setting(folder)
        penstock("export", "run", "m.onnx", cwd=folder)
        with open(f"{folder}/secret", "w") as f:
            f.write("hunter2 | hunter3")
        os.mkfifo(f"{folder}/fifo")
        for text in (f"@{folder}/secret", "@secret", "folder x | @secret", "folder x |@secret", f"folder x | decode | @{folder}/fifo", "@fifo", "@/dev/zero",
                     "zip (@fifo) (@secret)", "folder x | #\n@fifo", "folder x | \t@/dev/stdin"):
            with_preprocessing(f"{folder}/m.onnx", f"{folder}/bad.onnx", text)
            said = penstock("predict", "bad.onnx", "photos", cwd=folder, code=1).err
            assert "hunter" not in said and "text of" in said, said
            assert len(rows("bad.onnx", "@v.pst", cwd=folder)) == 24  # the user's own text may
            penstock("model", "bad.onnx", cwd=folder)
            penstock("export", "bad.onnx", "again.onnx", "--force", cwd=folder)
        with_preprocessing(f"{folder}/m.onnx", f"{folder}/mail.onnx", "folder a@b | decode | resize 16 | normalize imagenet | batch 12")
        assert len(rows("mail.onnx", "photos", cwd=folder)) == 24, "an @ within a word is no file"


def test_files_that_cannot_be_read():
    """They are named, and the others are predicted."""
    with scratch() as folder:
        setting(folder)
        want = rows("run", "photos", cwd=folder)
        with open(f"{folder}/photos/a.jpg", "w") as f:
            f.write("no picture")
        shutil.copy(want[0]["path"] if os.path.isabs(want[0]["path"]) else f"{folder}/{want[0]['path']}", f"{folder}/photos/cut.jpg")
        os.truncate(f"{folder}/photos/cut.jpg", 200)
        found = rows("run", "photos", cwd=folder, code=3)
        assert [x for x in found if "top" in x] == want
        bad = {x["path"]: x["error"] for x in found if "error" in x}
        assert set(bad) == {"photos/a.jpg", "photos/cut.jpg"} and "not a jpeg" in bad["photos/a.jpg"]["message"], bad
        said = penstock("predict", "run", "photos", "--csv", "--top", 1, cwd=folder, code=3)
        assert len(said.out.splitlines()) == 24 and "photos/a.jpg" in said.err and "photos/cut.jpg" in said.err, said
        assert "photos/none.jpg" in penstock("predict", "run", "photos/none.jpg", cwd=folder, code=1).err
        os.mkdir(f"{folder}/empty")
        assert "empty" in penstock("predict", "run", "empty", cwd=folder, code=1).err


def test_files_in_a_store():
    """Folders and patterns stand for the same files as here, and the model may lie there, too."""
    with scratch() as folder, serve() as (store, env):
        setting(folder)
        names = [os.path.relpath(os.path.join(base, name), folder) for base, _, files in os.walk(f"{folder}/photos") for name in files]
        for name in names:
            with open(f"{folder}/{name}", "rb") as f:
                store.put(name, f.read())
        penstock("export", "run", "s3://data/m.onnx", cwd=folder, env=env)

        def found(model, *paths):
            return [(x["path"].removeprefix("s3://data/"), x["top"]) for x in rows(model, *paths, cwd=folder, env=env)]

        one = names[0]
        for paths in (["photos"], ["photos/*/*0*"], [one, "photos"]):
            assert found("s3://data/m.onnx", *(f"s3://data/{path}" for path in paths)) == found("run", *paths), paths
        assert len(found("run", "s3://data/photos/")) == 24
        for path in ("s3://data/none", "s3://data/photos/*.none"):
            assert path in penstock("predict", "run", path, cwd=folder, env=env, code=1).err


def test_options_and_models():
    with scratch() as folder:
        setting(folder)
        assert "exclude each other" in penstock("predict", "run", "photos", "--csv", "--json", cwd=folder, code=2).err
        assert "--fp32" in penstock("predict", "run", "photos", "--fp32", cwd=folder, code=2).err
        assert rows("run", "photos", "--small", cwd=folder) == rows("run", "photos", cwd=folder)
        penstock("export", "run", "M.ONNX", cwd=folder)
        assert len(rows("M.ONNX", "photos", cwd=folder)) == 24
        for command in (["predict", "t.pst", "photos"], ["eval", "t.pst", "@v.pst"], ["export", "t.pst", "x.onnx"], ["compress", "t.pst", "--prune", "0.5"]):
            said = penstock(*command, cwd=folder, code=2).err
            assert "t.pst" in said and "ONNX file" in said, said
        penstock("compress", "run", "--quantize", "int8", "--out", "small", "-q", cwd=folder)
        assert report("eval", "small", "@v.pst", cwd=folder)["samples"] == 24
        told = penstock("export", "small", "w.safetensors", cwd=folder).err
        assert "float32" in told, told
        assert "float32" not in penstock("export", "small", "w.onnx", cwd=folder).err
        assert "float32" not in penstock("export", "run", "r.safetensors", cwd=folder).err


tap.main(globals())
