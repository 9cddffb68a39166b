"""`penstock generate`: the same images for the same seed, whole files, nobody's folder overwritten."""
import os
import signal
import subprocess

import tap
from patience import HANG, wait_until
from tool import PENSTOCK, environment, penstock, report, scratch, tree

SMALL = ["--size", "24", "--images", "40"]


def test_same_seed_same_images():
    with scratch() as folder:
        penstock("generate", f"{folder}/a", *SMALL, "--seed", 5)
        penstock("generate", f"{folder}/b", *SMALL, "--seed", 5)
        penstock("generate", f"{folder}/c", *SMALL, "--seed", 6)
        assert tree(f"{folder}/a") == tree(f"{folder}/b")
        a, c = tree(f"{folder}/a"), tree(f"{folder}/c")
        assert not set(a.values()) & set(c.values())


def test_an_image_does_not_depend_on_how_many_there_are():
    with scratch() as folder:
        penstock("generate", f"{folder}/a", "--size", 24, "--images", 10)
        penstock("generate", f"{folder}/b", "--size", 24, "--images", 40)
        assert tree(f"{folder}/a").items() <= tree(f"{folder}/b").items()


def test_classes_and_formats():
    with scratch() as folder:
        done = report("generate", f"{folder}/a", *SMALL, "--classes", 4)
        assert done["images"] == 40 and done["classes"] == 4
        classes = sorted(os.listdir(f"{folder}/a"))
        assert classes == ["circle", "square", "star", "triangle"]
        for name in classes:
            files = os.listdir(f"{folder}/a/{name}")
            assert len(files) == 10
            for file in files:
                with open(f"{folder}/a/{name}/{file}", "rb") as f:
                    head = f.read(8)
                assert head[:3] == b"\xff\xd8\xff" if file.endswith(".jpg") else head == b"\x89PNG\r\n\x1a\n", file
        kinds = {os.path.splitext(path)[1] for path in tree(f"{folder}/a")}
        assert kinds == {b".jpg", b".png"}
        penstock("generate", f"{folder}/b", *SMALL, "--format", "png")
        assert {os.path.splitext(path)[1] for path in tree(f"{folder}/b")} == {b".png"}
        penstock("generate", f"{folder}/c", *SMALL, "--classes", 16)
        assert len(os.listdir(f"{folder}/c")) == 16


def test_a_folder_that_is_not_empty_is_refused():
    with scratch() as folder:
        with open(f"{folder}/mine", "w"):
            pass
        result = penstock("generate", folder, *SMALL, code=1)
        assert "not empty" in result.err and "--force" in result.err
        assert os.listdir(folder) == ["mine"]
        penstock("generate", folder, *SMALL, "--force")
        assert "mine" in os.listdir(folder)


def test_a_place_that_is_no_folder():
    with scratch() as folder:
        with open(f"{folder}/file", "w"):
            pass
        result = penstock("generate", f"{folder}/file/x", *SMALL, code=1)
        assert "Not a directory" in result.err
        result = penstock("generate", f"{folder}/file", *SMALL, code=1)
        assert result.err.startswith("penstock: error: ")
        result = penstock("generate", f"{folder}/{'x' * 5000}", *SMALL, code=1)
        assert "too long" in result.err


def test_interrupted_then_completed():
    with scratch() as folder:
        arguments = ["generate", f"{folder}/a", "--size", "96", "--images", "800"]
        child = subprocess.Popen([PENSTOCK, *arguments], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True)
        wait_until(lambda: any(names for _, _, names in os.walk(f"{folder}/a")), "the first image is there", child)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=HANG)
        assert child.returncode == 130 and "--force completes the set" in err, err
        files = tree(f"{folder}/a")
        assert 0 < len(files) < 800 and not any(path.endswith(b".tmp") for path in files)
        penstock(*arguments, "--force", "-q")
        penstock("generate", f"{folder}/b", *arguments[2:], "-q")
        assert tree(f"{folder}/a") == tree(f"{folder}/b")


tap.main(globals())
