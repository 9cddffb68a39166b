#!/usr/bin/env bash
# libFuzzer with ASan and UBSan on every target, FUZZ_SECONDS (default 30) each: fuzz.sh BUILD [TARGET…]
# Finds are left in BUILD/finds; corpora grow in BUILD/corpus.
set -euo pipefail
build=$1; shift
[ -d "$build" ] || CC=clang meson setup "$build" -Dfuzz=true -Dbuildtype=debugoptimized -Db_sanitize=address,undefined -Db_lundef=false >/dev/null
ninja -C "$build" | tail -n 1
mkdir -p "$build/finds"
[ $# -gt 0 ] || set -- $(cd "$build/tests/fuzz" && find . -maxdepth 1 -name 'fuzz_*' -type f -executable -printf '%f\n' | sort)
for target in "$@"; do
    corpus=$build/corpus/$target
    seeds=$build/tests/fuzz/corpus/${target#fuzz_}
    mkdir -p "$corpus"
    [ -d "$seeds" ] || seeds=""
    echo "== $target"
    "$build/tests/fuzz/$target" -max_total_time="${FUZZ_SECONDS:-30}" -timeout=10 -rss_limit_mb=4096 -verbosity=0 -print_final_stats=1 \
        -artifact_prefix="$build/finds/$target-" "$corpus" $seeds 2>&1 | grep -E 'number_of_executed|ERROR|SUMMARY|artifact' || true
done
[ -z "$(ls -A "$build/finds")" ] || { echo "finds:"; ls "$build/finds"; exit 1; }
