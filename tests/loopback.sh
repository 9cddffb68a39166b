#!/bin/sh
# Runs a command in a network namespace that has only loopback: loopback.sh COMMAND...
# MPI and Ray listen on every interface that there is. Exit 77: this machine does not allow it.
if [ "$(id -u)" = 0 ]; then own=-n; else own=-rn; fi
unshare $own true 2>/dev/null || exit 77
exec unshare $own sh -c 'ip link set lo up && exec "$@"' sh "$@"
