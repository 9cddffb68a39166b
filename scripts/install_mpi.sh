#!/usr/bin/env bash
# Installs Open MPI and MPICH, which the tests of several ranks need, where they are missing; configure the build afterwards. Uses sudo when not root.
set -euo pipefail
packages="libopenmpi-dev openmpi-bin libmpich-dev mpich iproute2"
missing=""
for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q "ok installed" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
as_root=""
[ "$(id -u)" = 0 ] || as_root=sudo
echo "Installing Debian packages:$missing"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -q >/dev/null && $as_root apt-get install -y -q --no-install-recommends $missing >/dev/null
