"""The Python module with JAX and Numba; type checkers on stubs, adapters and examples."""

import glob
import os
import subprocess
import sys

import jax
import numpy as np
import tap
from numba import carray, cfunc, types
from patience import memory_settles
from python_data import EXAMPLES, ROOT, example, image_shards, normalized

import penstock as ps
import penstock.jax


def test_no_copy():
    batch = next(iter(ps.from_arrays((np.ones((64, 8), np.float32), np.arange(64, dtype=np.int32))).batch(64)))
    for field in batch:
        assert penstock.jax.array(field).unsafe_buffer_pointer() == field.data_ptr()
        assert jax.numpy.from_dlpack(field).unsafe_buffer_pointer() == field.data_ptr()


def test_values():
    with image_shards() as (chain, pixels):
        for images, labels in penstock.jax.iterator(chain.normalize("imagenet").batch(16)):
            assert np.allclose(np.asarray(images), normalized(pixels[np.asarray(labels)]), atol=2e-6)
        for batch in penstock.jax.iterator(chain.cast("bf16").batch(16), as_dict=True, device=jax.devices()[0]):
            assert batch["image"].dtype == jax.numpy.bfloat16 and batch["image"].devices() == {jax.devices()[0]}


def test_elements_without_batch():
    for i, (data, label) in enumerate(penstock.jax.iterator(ps.from_files([__file__, __file__], [3, 4]), device=jax.devices()[0])):
        assert isinstance(data, bytes) and label.shape == () and int(label) == 3 + i


def test_no_leak():
    batches = penstock.jax.iterator(
        ps.from_arrays(np.ones((256, 1024), np.float32)).repeat().batch(32).with_options(prefetch=4)
    )

    def run(count):
        for _ in range(count):
            next(batches)

    run(1000)
    memory_settles(lambda: run(10000), 8 << 20)


@cfunc(types.int32(types.CPointer(types.voidptr), types.CPointer(types.voidptr), types.CPointer(types.int64)))
def softplus(inputs, outputs, sizes):
    x, y = carray(inputs[0], (sizes[0],), np.float32), carray(outputs[0], (sizes[0],), np.float32)
    for i in range(sizes[0]):
        y[i] = np.log1p(np.exp(x[i]))
    return 0


def test_numba():
    x = np.random.default_rng(1).normal(size=(100, 50)).astype(np.float32)
    ds = ps.from_arrays({"x": x}).map(softplus).batch(100)
    assert np.allclose(np.asarray(next(iter(ds))["x"]), np.log1p(np.exp(x)), rtol=1e-5) and "workers=compiled" in ds.plan()


def test_training():
    example("jax_loop.py")


def test_resume():
    assert "each once" in example("resume.py")


def check_types(python, paths):
    config = os.path.join(ROOT, "tests", "python", "mypy.ini")
    environment = dict(os.environ, MYPYPATH=f"{os.path.join(ROOT, 'python')}:{EXAMPLES}")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", config, "--python-executable", python, *paths],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_types_of_stubs_and_examples():
    stub = os.path.join(ROOT, "python", "penstock", "__init__.pyi")
    torches = [os.path.join(EXAMPLES, name) for name in ("torch_cnn.py", "before_and_after.py")]
    rest = sorted(set(glob.glob(os.path.join(EXAMPLES, "*.py"))) - set(torches))
    check_types(sys.executable, [stub, *rest])
    torch = os.environ.get("PENSTOCK_INTEROP_TORCH")
    if not torch:
        raise tap.Skip("no environment with PyTorch")
    check_types(torch, torches)


if __name__ == "__main__":
    tap.main(globals())
