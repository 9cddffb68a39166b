"""Penstock in the peer benchmark. Variant nosync: publishes without fsync, as the peers write.

The benchmark finds the tool through PENSTOCK (default: the build folder of this clone).
"""
import json
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
TOOL = os.environ.get("PENSTOCK", os.path.join(HERE, "..", "build", "cli", "penstock"))


def version():
    return subprocess.run([TOOL, "version"], check=True, capture_output=True, text=True).stdout.strip()


def pack(files, out, variant):
    """5000 files of class folders into 8 shards, their bytes untouched, with key, label and size."""
    command = [TOOL, "pack", files, os.path.join(out, "packed"), "--shards", "8", "--json"]
    if variant == "nosync":
        command.append("--no-sync")
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return report["records"], report["source_bytes"]
