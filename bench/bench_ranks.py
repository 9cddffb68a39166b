#!/usr/bin/env python3
"""Training on two ranks beside PyTorch's DDP, and how much of the exchange of gradients a step hides over a slow link.

    bench_ranks.py BUILD [--torch PYTHON] [--models S3,M] [--seconds 5] [--parts link,peers,exact] [--mpi openmpi]

link: a namespace whose loopback is limited to 1 Gbit/s, 2 ranks × 1 thread: hidden share, and step / max(compute, exchange), with float32 and
float16 gradients, and DDP there. peers: one rank and two over the plain loopback, ours and DDP in turns, both kinds of gradients. exact: the price of
--exact-ranks.
Needs root, or a user who may make network namespaces; the machine should be idle.
"""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LOOPBACK = os.path.join(os.path.dirname(HERE), "tests", "loopback.sh")
SLOW = "tc qdisc add dev lo root tbf rate 1gbit burst 256kb latency 200ms && ip link set lo mtu 9000 && exec \"$@\""
BATCH = {"S1": 16, "S3": 64, "M": 64}
# PyTorch at its best: freed memory is kept, or every large tensor costs page faults anew; threads sleep at barriers.
KEEP = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184:glibc.malloc.top_pad=67108864",
        "OMP_WAIT_POLICY": "passive"}


def result(command, env=None):
    done = subprocess.run(command, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=280)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line[7:])
    sys.exit("no result of %s:\n%s%s" % (" ".join(command), done.stdout, done.stderr))


class Bench:
    def __init__(self, a):
        self.a = a

    def ours(self, model, ranks=2, slow=False, *options):
        a = self.a
        launch = [f"mpirun.{a.mpi}", "-n", str(ranks)]
        if a.mpi == "openmpi":
            launch += ["--oversubscribe", "--bind-to", "none"] + (["--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"] if slow else [])
        program = [f"{a.build}/bench/bench_ranks", "--model", model, "--batch", str(a.batch or BATCH[model]), "--seconds", str(a.seconds), *options]
        namespace = [LOOPBACK, "sh", "-c", SLOW, "sh"] if slow else [LOOPBACK]
        return result(namespace + (launch if ranks > 1 else []) + program, {"PENSTOCK_PLUGIN": f"{a.build}/src", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                                                                           "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})

    def peer(self, model, ranks, slow=False, *options):
        a = self.a
        namespace = [LOOPBACK, "sh", "-c", SLOW, "sh"] if slow else [LOOPBACK]
        return result(namespace + [a.torch, f"{HERE}/peer_ddp.py", "--model", model, "--ranks", str(ranks), "--batch", str(a.batch or BATCH[model]),
                                   "--seconds", str(a.seconds), *options], KEEP)

    def link(self, model):
        for gradients in ("float32", "float16"):
            r, peer = self.ours(model, 2, True, "--gradients", gradients), self.peer(model, 2, True, "--gradients", gradients)
            print("link   %-3s batch %3d %s %5.2f MB: step %7.1f ms, compute %7.1f, exchange %7.1f; hidden %3.0f %% (goal for M: >= 60), step / max %.2f "
                  "(goal <= 1.15); DDP: step %.1f ms, compute %.1f, exchange %.1f" %
                  (model, r["batch"], gradients, r["mb"], r["step_ms"], r["compute_ms"], r["exchange_ms"], 100 * r["hidden"],
                   r["step_ms"] / max(r["compute_ms"], r["exchange_ms"]), peer["step_ms"], peer["compute_ms"], peer["exchange_ms"]), flush=True)

    def peers(self, model):
        one, peer_one = self.ours(model, 1), self.peer(model, 1)
        lead_one = one["images_per_s"] / peer_one["images_per_s"]
        for gradients in ("float32", "float16"):
            two, peer_two = self.ours(model, 2, False, "--gradients", gradients), self.peer(model, 2, False, "--gradients", gradients)
            lead_two = two["images_per_s"] / peer_two["images_per_s"]
            print("peers  %-3s batch %3d %s images/s: one rank %.0f, torch %.0f (%.2f x); two ranks %.0f, DDP %.0f (%.2f x): %.2f of the lead of one rank "
                  "(goal >= 0.80)" % (model, one["batch"], gradients, one["images_per_s"], peer_one["images_per_s"], lead_one, two["images_per_s"],
                                      peer_two["images_per_s"], lead_two, lead_two / lead_one), flush=True)

    def exact(self, model):
        r = self.ours(model, 2, False, "--accumulate", "4", "--exact", "1")
        print("exact  %-3s batch %3d, 4 batches per rank: update %.1f ms, with --exact-ranks %.1f ms (%+.1f %%)" %
              (model, r["batch"], r["compute_ms"], r["step_ms"], 100 * (r["step_ms"] / r["compute_ms"] - 1)), flush=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("--torch", default="python3", help="the Python that has torch")
    p.add_argument("--models", default="S1,S3,M")
    p.add_argument("--parts", default="link,peers,exact")
    p.add_argument("--mpi", default="openmpi")
    p.add_argument("--batch", type=int, default=0)
    p.add_argument("--seconds", type=float, default=5)
    arguments = p.parse_args()
    arguments.build = os.path.abspath(arguments.build)
    bench = Bench(arguments)
    for part in arguments.parts.split(","):
        for name in arguments.models.split(","):
            getattr(bench, part)(name)
