"""Class balance: the shares, which elements come, seeking, epochs, augmentation, and what is refused."""

import collections

import tap

import penstock as ps


def drawn(text, **options):
    return [v for batch in ps.pipeline(text, **options) for v in batch["value"].tolist()]


def refused(text):
    try:
        ps.pipeline(text).plan()
    except ps.Error as error:
        return str(error)
    raise AssertionError("it was accepted: " + text)


RARE = 'range 3000 | expr "value >= 2900" rare | '  # 2900 of one class, 100 of the other


def test_the_same_share_for_all():
    values = drawn(RARE + "resample rare | batch 64")
    assert len(values) == 3000 and "drawn by class" in str(ps.pipeline(RARE + "resample rare | batch 64").plan())
    for begin in range(0, 3000, 1000):
        assert sum(v >= 2900 for v in values[begin : begin + 1000]) == 500
    for begin in range(0, 3000, 100):  # shorter parts: nearly
        assert abs(sum(v >= 2900 for v in values[begin : begin + 100]) - 50) <= 4


def test_none_comes_twice_before_all_came():
    values = drawn(RARE + "resample rare length=8000 | batch 64")
    rare, others = [v for v in values if v >= 2900], [v for v in values if v < 2900]
    for begin in range(0, len(rare) - 99, 100):
        assert sorted(rare[begin : begin + 100]) == list(range(2900, 3000))
    assert sorted(others[:2900]) == list(range(2900)) and others[:2900] != sorted(others[:2900])
    assert rare[:100] != rare[100:200]


def test_target():
    text = 'range 1000 | expr "value % 3" class | resample class target=0.7,0.1,0.2 length=2000 | batch 50'
    for begin in (0, 1000):
        found = collections.Counter(v % 3 for v in drawn(text)[begin : begin + 1000])
        assert found == {0: 700, 1: 100, 2: 200}, found
    assert {v % 3 for v in drawn('range 99 | expr "value % 3" class | resample class target=1,0,1 | batch 9')} == {0, 2}


def test_few_elements():
    values = drawn('range 20 | expr "value > 17" rare | resample rare | batch 20')
    assert len(values) == 20 and abs(sum(v > 17 for v in values) - 10) <= 2, values


def test_epochs_and_seeds():
    dataset = ps.pipeline(RARE + "resample rare | batch 3000")
    first, second = ([b["value"].tolist() for b in dataset][0] for _ in range(2))
    assert first != second and sum(v >= 2900 for v in second) == 1500
    assert drawn(RARE + "resample rare seed=1 | batch 9") != drawn(RARE + "resample rare seed=2 | batch 9")
    assert drawn(RARE + "resample rare | batch 9", seed=1) != drawn(RARE + "resample rare | batch 9", seed=2)


def test_ranks():
    whole = [b["value"].tolist() for b in ps.pipeline(RARE + "resample rare | batch 50")]
    parts = [[b["value"].tolist() for b in ps.pipeline(RARE + "resample rare | batch 50", rank=r, world=2)] for r in (0, 1)]
    assert sorted(map(tuple, parts[0] + parts[1])) == sorted(map(tuple, whole))


def test_an_element_that_comes_again_is_changed_in_another_way():
    image = memoryview(bytes(range(12))).cast("B", (1, 2, 2, 3))
    label = memoryview(bytes(8)).cast("q")
    dataset = ps.from_arrays({"image": image, "label": label}).resample("label", length=40).flip().batch(40)
    looks = collections.Counter(str(picture) for batch in dataset for picture in batch["image"].tolist())
    assert len(looks) == 2 and min(looks.values()) > 5, looks


def test_mistakes():
    assert "2 classes" in refused(RARE + "resample rare target=0.2,0.3,0.5 | batch 4")
    assert "shares" in refused(RARE + "resample rare target=a,b | batch 4")
    assert "all shares are 0" in refused(RARE + "resample rare target=0,0 | batch 4")
    assert "remove" in refused(RARE + "shuffle | resample rare | batch 4")
    assert "remove" in refused(RARE + "resample rare | resample rare | batch 4")
    assert "before batch" in refused(RARE + "batch 4 | resample rare")
    assert "before repeat" in refused(RARE + "repeat | resample rare | batch 4")
    assert "classes" in refused("range 10000 | resample value | batch 4")
    assert "put filter before" in refused(RARE + 'resample rare | filter "value > 3" | batch 4')
    assert drawn("range 0 | resample value | batch 4") == []


if __name__ == "__main__":
    tap.main(globals())
