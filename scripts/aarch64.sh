#!/usr/bin/env bash
# Builds for AArch64 and runs the C tests under qemu: aarch64.sh [BUILD [TEST…]], by default all in build-aarch64. Needs, on Debian:
#     dpkg --add-architecture arm64 && apt-get update
#     apt-get install gcc-aarch64-linux-gnu qemu-user-static {zlib1g,libzstd,libjpeg62-turbo,libpng,libwebp,libxxhash}-dev:arm64
# Ends with "N passed, N failed" (programs, not single tests); the output of those that failed is in BUILD/failed.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build-aarch64}
shift || true
if [ ! -e "$build/build.ninja" ]; then
    meson setup "$build" --cross-file scripts/aarch64.ini -Dpython=disabled -Dhdf5=disabled -During=disabled >/dev/null
fi
ninja -C "$build" | tail -n 1
mkdir -p "$build/failed"
passed=0 failed=0
tests=("$@")
[ ${#tests[@]} -gt 0 ] || mapfile -t tests < <(find "$build"/tests/{unit,kernels,model,train} -maxdepth 1 -name 'test_*' -type f -perm -u+x -printf '%f\n' | sort)
for name in "${tests[@]}"; do
    program=$(find "$build/tests" -name "$name" -type f -perm -u+x | head -n 1)
    if timeout 1200 qemu-aarch64-static "$program" >"$build/failed/$name" 2>&1; then
        passed=$((passed + 1))
        rm "$build/failed/$name"
    else
        failed=$((failed + 1))
        echo "FAILED $name"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
