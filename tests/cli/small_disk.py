"""Runs a command that finds a small disk in the place of a folder: small_disk.py BYTES FOLDER COMMAND…. Exit 77: this machine does not allow it.

What of /tmp belongs to the test and to the tool stays visible under a new /tmp.
"""
import ctypes
import os
import sys

NEW_MOUNTS, NEW_USER, PRIVATE, BIND, RECURSIVE = 0x20000, 0x10000000, 1 << 18, 1 << 12, 1 << 14


def call(function, *arguments):
    if function(*arguments):
        sys.exit(77)


def main(size, folder, command):
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    call(libc.unshare, NEW_MOUNTS | (NEW_USER if user else 0))
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            with open(f"/proc/self/{name}", "w") as f:
                f.write(text)
    call(libc.mount, b"none", b"/", None, PRIVATE | RECURSIVE, None)
    os.chdir(folder)
    kept = [name for name in os.listdir(".") if any(word.startswith(f"{folder}/{name}/") for word in (*command, sys.prefix))]
    kept += [name for name in os.environ.get("PENSTOCK_KEEP", "").split() if os.path.isdir(name)]
    call(libc.mount, b"none", folder.encode(), b"tmpfs", 0, f"size={size}".encode())
    for name in set(kept):
        os.mkdir(f"{folder}/{name}")
        call(libc.mount, name.encode(), f"{folder}/{name}".encode(), None, BIND | RECURSIVE, None)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
