"""The Python module with PyTorch: no copy, equal values, nothing leaks or is reused too early, loaders, ranks, training."""

import os

import numpy as np
import tap
import torch
from patience import memory_settles
from python_data import before_and_after, example, image_shards, normalized

import penstock as ps
from penstock.torch import Loader, tensor


def test_no_copy():
    batch = next(iter(ps.from_arrays((np.ones((64, 8), np.float32), np.arange(64))).batch(64)))
    for field in batch:
        for made in (
            torch.from_dlpack(field),
            torch.utils.dlpack.from_dlpack(field.__dlpack__()),
            torch.from_numpy(np.asarray(field)),
            torch.frombuffer(field, dtype=getattr(torch, field.dtype)),
        ):
            assert made.data_ptr() == field.data_ptr() == np.from_dlpack(field).ctypes.data and field.data_ptr() % 64 == 0
    torch.from_dlpack(batch["x"])[3, 4] = 5  # writable
    assert batch["x"][3][4] == 5
    copied = np.from_dlpack(batch["x"], copy=True)
    assert copied.ctypes.data != batch["x"].data_ptr() and np.array_equal(copied, np.asarray(batch["x"]))



def test_single_numbers_of_numpy():
    for value in (np.int64(3), np.float32(3), np.bool_(True), np.array(3)):
        for ds in (ps.from_generator(lambda: iter([{"x": value}] * 4)), ps.range(4).map(lambda value, one=value: {"x": one})):
            (batch,) = ds.batch(4)
            assert batch["x"].shape == (4,) and batch["x"].tolist() == [value] * 4, value


def test_files_unpack_to_image_and_label():
    chain = ps.from_files([__file__, tap.__file__], [3, 4]).batch(2)
    for images, labels in Loader(chain):
        assert labels.tolist() == [3, 4] and len(images) == 2
    assert [set(batch) for batch in Loader(chain, as_dict=True)] == [{"image", "label", "key"}]


def test_elements_without_batch():
    for i, element in enumerate(Loader(ps.from_files([__file__, tap.__file__], [3, 4]), as_dict=True)):
        assert element["label"].shape == () and element["label"].dtype == torch.int64 and int(element["label"]) == 3 + i
        assert isinstance(element["image"], bytes)


def test_every_type():
    for dtype in ("uint8", "int32", "int64", "float16", "float32", "float64"):
        (field,) = next(iter(ps.from_arrays(np.arange(6).astype(dtype).reshape(2, 3)).batch(2)))
        made = torch.from_dlpack(field)
        assert (
            str(made.dtype) == "torch." + dtype and made.tolist() == [[0, 1, 2], [3, 4, 5]] and np.asarray(field).dtype == dtype
        )
    (field,) = next(iter(ps.from_arrays(np.array([1, -2.5, 0.1], np.float32)).cast("bf16", field="x").batch(3)))
    assert torch.equal(torch.from_dlpack(field), torch.tensor([1, -2.5, 0.1]).bfloat16())


def test_values():
    with image_shards() as (chain, pixels):
        seen = []
        for images, labels in Loader(chain.normalize("imagenet").batch(16)):
            assert np.allclose(images.numpy(), normalized(pixels[labels.numpy()]), atol=2e-6)
            seen += labels.tolist()
        assert sorted(seen) == list(range(60)) != seen
        for images, labels in Loader(chain.layout("nchw").batch(16)):
            assert np.array_equal(images.permute(0, 2, 3, 1).numpy(), pixels[labels.numpy()])


def test_tensors_outlive_everything_and_are_not_reused():
    with image_shards() as (chain, pixels):
        held = []
        ds = chain.batch(4)
        for _ in range(20):
            held += [(images, labels) for images, labels in Loader(ds)]
        ds.close()
        del ds
        for images, labels in held:
            assert np.array_equal(images.numpy(), pixels[labels.numpy()])


def test_no_leak():
    x = np.ones((256, 1024), np.float32)
    batches = iter(Loader(ps.from_arrays((x, np.arange(256))).shuffle().repeat().batch(32).with_options(prefetch=4)))

    def run(count):
        for _ in range(count):
            a, b = next(batches)
            a += b[0]

    run(1000)
    memory_settles(lambda: run(10000), 4 << 20)


def test_odd_fields():
    rows = [np.arange(n, dtype=np.float32) for n in (2, 1, 3)]
    ds = ps.from_generator(
        lambda: ({"x": row, "s": "t"} for row in rows), spec={"x": ("float32", (None,)), "s": "bytes"}
    ).batch(3)
    x, s = next(iter(Loader(ds)))
    assert [row.tolist() for row in x.unbind()] == [row.tolist() for row in rows] and s == [b"t"] * 3
    assert tensor(np.ones(3)).shape == (3,)


def test_data_loader_and_resume():
    ds = ps.range(100).shuffle(seed=1).batch(8)
    loader = Loader(ds)
    assert len(loader) == 13
    whole = [values.tolist() for (values,) in torch.utils.data.DataLoader(loader, batch_size=None)]
    first = Loader(ps.range(100).shuffle(seed=1).batch(8))
    for i, _ in enumerate(first):
        if i == 4:
            break
    second = Loader(ps.range(100).shuffle(seed=1).batch(8))
    second.load_state_dict(first.state_dict())
    assert [values.tolist() for (values,) in second] == whole[5:]
    try:
        list(torch.utils.data.DataLoader(loader, batch_size=None, num_workers=2))
        raise AssertionError("no error")
    except RuntimeError as error:
        assert "has its own threads" in str(error)
    one = list(torch.utils.data.DataLoader(Loader(ps.range(100).shuffle(seed=1).batch(8)), batch_size=None, num_workers=1))
    assert [values.tolist() for (values,) in one] == whole  # in a fork: a fresh pool
    assert Loader(ds, as_dict=True).__iter__().__next__().keys() == {"value"}


def test_ranks():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29571")
    torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    try:
        assert len(Loader(ps.range(8).batch(2))) == 4
        os.environ.update(RANK="1", WORLD_SIZE="2")
        try:
            Loader(ps.range(8).batch(2))
            raise AssertionError("no error")
        except ValueError as error:
            assert "torch.distributed: rank 0 of 1" in str(error) and "rank 1 of 2" in str(error)
        assert [values.tolist() for (values,) in Loader(ps.range(8).batch(2), rank=1, world=2)] == [[2, 3], [6, 7]]
    finally:
        torch.distributed.destroy_process_group()
    assert [values.tolist() for (values,) in Loader(ps.range(8).batch(2))] == [[2, 3], [6, 7]]
    os.environ.pop("RANK"), os.environ.pop("WORLD_SIZE")


def test_numpy_functions():
    ds = ps.from_arrays({"x": np.arange(12, dtype=np.float32).reshape(4, 3), "y": np.arange(4)})
    for workers in ("thread", "process"):
        got = next(
            iter(
                ds.map(lambda x, y: (x.T[::-1] * 2, y.astype(np.int32) if hasattr(y, "astype") else y), workers=workers).batch(
                    4
                )
            )
        )
        assert np.array_equal(np.asarray(got["x"]), np.arange(12).reshape(4, 3)[:, ::-1] * 2)
    big = np.random.default_rng(1).random((20, 200, 100)).astype(np.float32)
    got = [np.asarray(b["x"]) for b in ps.from_arrays({"x": big}).map(lambda x: np.sqrt(x), workers="process").batch(5)]
    assert np.array_equal(np.concatenate(got), np.sqrt(big))
    mapped = list(ps.from_arrays({"x": big}).batch(5).map(lambda x: torch.from_numpy(x).mean((1, 2)), workers="thread"))
    assert np.allclose(np.concatenate([np.asarray(b["x"]) for b in mapped]), big.mean((1, 2)))


def test_training():
    example("torch_cnn.py")


def test_before_and_after():
    before_and_after(
        "import torch\n"
        "loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(40, 3)), batch_size=10)"
    )


if __name__ == "__main__":
    tap.main(globals())
