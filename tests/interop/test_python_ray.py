"""penstock.ray and penstock.dask with the real ones: batches in order and bit-identical to in-process ones while workers are added, removed and
killed. Everything runs in a network namespace with loopback only: Ray listens on every interface."""
import os
import signal
import subprocess
import sys
import tempfile

LOOPBACK = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "loopback.sh")
if os.environ.get("PENSTOCK_LOOPBACK") != "1":
    if subprocess.run([LOOPBACK, "true"]).returncode == 77:
        print("1..0 # SKIP this machine does not allow a network namespace")
        sys.exit()
    os.environ["PENSTOCK_LOOPBACK"] = "1"
    os.execv(LOOPBACK, [LOOPBACK, sys.executable, *sys.argv])

os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_ENABLE_UV_RUN_RUNTIME_ENV="0", RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0", PYTHONWARNINGS="ignore")
import numpy as np
import tap

import penstock as ps

BATCHES = 24


def dataset(folder):
    """Images that are shuffled and augmented at random, with names: a field of bytes."""
    path = f"{folder}/image.npy"
    if not os.path.exists(path):
        rng = np.random.default_rng(3)
        np.save(path, rng.integers(0, 256, (BATCHES * 8 - 3, 12, 12, 3), dtype=np.uint8))
        np.save(f"{folder}/label.npy", np.arange(BATCHES * 8 - 3))
    return ps.pipeline(f"npy {path} {folder}/label.npy | shuffle | random_resized_crop 8 | flip | batch 8", seed=11)


def expected(data, epochs=1):
    return [[{name: np.array(np.asarray(value)) for name, value in batch.items()} for batch in data] for _ in range(epochs)]


def same(got, want):
    return got.keys() == want.keys() and all(got[name].dtype == want[name].dtype and np.array_equal(got[name], want[name]) for name in want)


def start_ray():
    import ray

    if not ray.is_initialized():
        ray.init(num_cpus=4, include_dashboard=False, object_store_memory=256 << 20, _node_ip_address="127.0.0.1", logging_level="ERROR",
                 log_to_driver=False)


def test_ray():
    """From 1 to 3 workers, one killed, back to 2; two epochs; a place that is loaded."""
    import penstock.ray

    start_ray()
    with tempfile.TemporaryDirectory() as folder:
        data = dataset(folder)
        want = expected(data, 2)
        assert len(want[0]) == BATCHES and not same(want[0][0], want[1][0])
        with penstock.ray.Loader(data, workers=1, ram=1 << 20) as loader:
            assert len(loader) == BATCHES
            for epoch in range(2):
                count = 0
                for k, batch in enumerate(loader):
                    assert same(batch, want[epoch][k]), (epoch, k)
                    count += 1
                    if epoch == 0 and k == 4:
                        loader.scale(3)
                    if epoch == 0 and k == 9:
                        os.kill(loader.processes()[0], signal.SIGKILL)
                    if epoch == 1 and k == 6:
                        loader.scale(2)
                assert count == BATCHES, count
            assert len(loader.processes()) == 2
            loader.load_state_dict({"epoch": 1, "next": 20})
            assert all(same(batch, want[1][20 + k]) for k, batch in enumerate(loader)) and loader.state_dict() == {"epoch": 2, "next": 0}


def only_here(process):
    """Unpickles in this process only."""
    if os.getpid() != process:
        raise RuntimeError("this worker lacks a file")
    return Local()


class Local:
    def __call__(self, label):
        return label + 1

    def __reduce__(self):
        return only_here, (os.getpid(),)


def test_workers_that_cannot_start():
    """The loader does not try for ever: it fails and says why."""
    import penstock.ray

    start_ray()
    with tempfile.TemporaryDirectory() as folder:
        data = dataset(folder).map(Local())
        with penstock.ray.Loader(data, workers=1) as loader:
            try:
                next(iter(loader))
                raise AssertionError("it delivered a batch")
            except ps.Error as error:
                assert "batch 0 of epoch 0 was lost" in str(error) and "this worker lacks a file" in str(error), error


def leave_out(label):
    if label[0] == 8:
        raise ps.Skip
    return label


def test_batches_that_are_left_out():
    import penstock.ray

    start_ray()
    data = ps.range(32).batch(8).map(leave_out)
    want = [batch["value"].tolist() for batch in data]
    assert len(want) == 3
    with penstock.ray.Loader(data, workers=1) as loader:
        assert [batch["value"].tolist() for batch in loader] == want


def test_a_cluster_of_its_own():
    """Without ray.init, it starts a cluster that listens on 127.0.0.1 only; everything else here is in a namespace."""
    import ray

    import penstock.ray

    ray.shutdown()
    with penstock.ray.Loader(ps.range(16).batch(8), workers=1) as loader:
        assert [batch["value"].tolist() for batch in loader] == [list(range(8)), list(range(8, 16))]
        assert all(node["NodeManagerAddress"] == "127.0.0.1" for node in ray.nodes()), ray.nodes()
    ray.shutdown()


def test_ram():
    """No more batches are under way than `ram` holds, but one."""
    import penstock.ray

    start_ray()
    with tempfile.TemporaryDirectory() as folder:
        data = dataset(folder)
        size = 8 * 8 * 8 * 3 + 8 * 8
        for ram, most in ((0, 1), (2 * size + 5, 2), (1 << 20, 4)):
            with penstock.ray.Loader(data, workers=2, ram=ram) as loader:
                for _ in loader:
                    assert len(loader._window) <= most, (ram, len(loader._window))
                    if loader._next > 6:
                        break


def test_ray_data():
    import ray

    import penstock.ray

    start_ray()
    with tempfile.TemporaryDirectory() as folder:
        data = dataset(folder)
        want = expected(data, 2)[1]
        context = ray.data.DataContext.get_current()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = False
        read = ray.data.read_datasource(penstock.ray.Source(data, epoch=1), override_num_blocks=5)
        rows = [batch for batch in read.iter_batches(batch_size=None)]
        for name in ("image", "label"):
            assert np.array_equal(np.concatenate([batch[name] for batch in rows]), np.concatenate([batch[name] for batch in want])), name


def test_dask():
    """Two workers, one killed, one more."""
    from distributed import Client, LocalCluster

    import penstock.dask

    with tempfile.TemporaryDirectory() as folder:
        data = dataset(folder)
        want = expected(data)[0]
        with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, memory_limit=0, silence_logs=50) as cluster:
            with Client(cluster) as client, penstock.dask.Loader(data, client, ram=1 << 20) as loader:
                count = 0
                for k, batch in enumerate(loader):
                    assert same(batch, want[k]), k
                    count += 1
                    if k == 5:
                        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
                    if k == 12:
                        cluster.scale(3)
                assert count == BATCHES, count


if __name__ == "__main__":
    tap.main(globals())
