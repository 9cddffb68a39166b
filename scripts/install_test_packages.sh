#!/usr/bin/env bash
# Installs what some tests need and users do not, where it is missing: Open MPI and MPICH (several ranks; configure the build afterwards), Chromium
# (pages as a browser shows them). Uses sudo when not root.
exec "$(dirname "$0")/install_packages.sh" libopenmpi-dev openmpi-bin libmpich-dev mpich iproute2 chromium
