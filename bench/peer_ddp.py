"""Data-parallel training of S1, S3 and M in PyTorch (DDP over gloo): the peer of bench_ranks, which see.

    python peer_ddp.py --model M --ranks 2 --batch 64 --threads 1 --seconds 6 [--gradients float16]

Prints one RESULT line of JSON: the median step with exchange and without it (no_sync), the all-reduce of the same bytes alone, images/s.
"""
import argparse
import contextlib
import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks


class Flatten(nn.Module):
    """In the order of the memory, which channels last makes a view: nn.Flatten would copy, and turn the layers before it around."""

    def forward(self, x):
        return x.permute(0, 2, 3, 1).flatten(1)


def model(name):
    def conv(i, o, pad=1):
        return [nn.Conv2d(i, o, 3, padding=pad), nn.ReLU()]

    def norm(channels):
        return [nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01), nn.ReLU6()]
    pool = [nn.MaxPool2d(2)]
    if name == "S1":
        return nn.Sequential(*conv(3, 32, 0), *pool, Flatten(), nn.Linear(32 * 111 * 111, 10)), 224
    if name == "S3":
        return nn.Sequential(*conv(3, 32), *conv(32, 32), *pool, *conv(32, 64), *conv(64, 64), *pool, *conv(64, 128), *pool, Flatten(),
                             nn.Linear(2048, 10)), 32
    layers, channels = [nn.Conv2d(3, 16, 3, 2, 1, bias=False), *norm(16)], 16
    for out, stride in [(32, 1), (64, 2), (64, 1), (128, 2), (128, 1), (256, 2)] + [(256, 1)] * 5 + [(512, 2), (512, 1)]:
        layers += [nn.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=False), *norm(channels),
                   nn.Conv2d(channels, out, 1, bias=False), *norm(out)]
        channels = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), Flatten(), nn.Linear(512, 10)), 96


def run(rank, a):
    torch.set_num_threads(a.threads)
    torch.set_flush_denormal(True)
    if a.ranks > 1:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        dist.init_process_group("gloo", init_method="tcp://127.0.0.1:%d" % a.port, rank=rank, world_size=a.ranks)
    torch.manual_seed(0)
    net, side = model(a.model)
    torch.manual_seed(rank)
    x, y = torch.rand(a.batch, 3, side, side), torch.randint(0, 10, (a.batch,))
    net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    size = sum(p.numel() for p in net.parameters()) * 4
    ddp = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True) if a.ranks > 1 else net
    if a.gradients == "float16" and a.ranks > 1:
        ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3, fused=True)

    def measure(sync, seconds):
        times = []
        while True:
            began = time.perf_counter()
            optimizer.zero_grad(set_to_none=True)
            with contextlib.nullcontext() if sync or a.ranks == 1 else ddp.no_sync():
                nn.functional.cross_entropy(ddp(x), y).backward()
            optimizer.step()
            times.append(time.perf_counter() - began)
            over = torch.tensor([float(sum(times) > seconds)])
            if a.ranks > 1:
                dist.all_reduce(over)
            if len(times) >= 5 and over.item() > 0:
                return sorted(times)[len(times) // 2]
    measure(True, 1)
    sync, nosync, alone = measure(True, a.seconds), measure(False, a.seconds), 0.0
    if a.ranks > 1:
        flat, times = torch.ones(size // 4, dtype=getattr(torch, a.gradients)), []
        for _ in range(15):
            dist.barrier()
            began = time.perf_counter()
            dist.all_reduce(flat)
            times.append(time.perf_counter() - began)
        alone = sorted(times)[7]
    if rank == 0:
        print("RESULT " + json.dumps({"model": a.model, "transport": "gloo", "gradients": a.gradients, "ranks": a.ranks, "threads": a.threads, "batch": a.batch, "mb": round(size / 1e6, 2),
                                      "step_ms": 1e3 * sync, "compute_ms": 1e3 * nosync, "exchange_ms": 1e3 * alone,
                                      "images_per_s": a.ranks * a.batch / sync}), flush=True)
    if a.ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default="S3", choices=["S1", "S3", "M"])
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--seconds", type=float, default=6)
    p.add_argument("--gradients", default="float32", choices=["float32", "float16"])
    p.add_argument("--port", type=int, default=29511)
    a = p.parse_args()
    if a.ranks == 1:
        run(0, a)
    else:
        torch.multiprocessing.spawn(run, (a,), nprocs=a.ranks)
