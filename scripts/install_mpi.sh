#!/usr/bin/env bash
# Installs Open MPI and MPICH, which the tests of several ranks need, where they are missing; configure the build afterwards. Uses sudo when not root.
exec "$(dirname "$0")/install_packages.sh" libopenmpi-dev openmpi-bin libmpich-dev mpich iproute2
