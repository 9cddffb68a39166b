#!/usr/bin/env bash
# Installs Debian packages that the machine lacks: the ones that are named, or those that the build needs. Says what it does; uses sudo when not root.
set -euo pipefail

packages="${*:-gcc meson ninja-build pkg-config python3 libjpeg62-turbo-dev libpng-dev libwebp-dev libhdf5-dev zlib1g-dev libzstd-dev
          libxxhash-dev liburing-dev libcurl4-openssl-dev python3-dev}"

if ! command -v dpkg-query >/dev/null; then
    [ $# = 0 ] && command -v meson >/dev/null && exit 0
    echo "This is not a Debian machine. Install these, or what your system calls them, then run make again:" >&2
    echo $packages >&2
    exit 1
fi
missing=""
for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q "ok installed" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "Missing packages, and no sudo to install them:$missing" >&2; exit 1; }
    as_root=sudo
fi
echo "Installing Debian packages:$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{ $as_root apt-get update -q && $as_root apt-get install -y -q --no-install-recommends $missing; } >"$log" 2>&1 ||
    { cat "$log" >&2; exit 1; }
