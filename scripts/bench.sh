#!/usr/bin/env bash
# The benchmarks that need nothing but the build: bench.sh BUILD [TFRECORD]
# Reading is measured on TFRECORD, or on a file of 150 KB records that the benchmark writes itself.
set -euo pipefail
build=$1; shift
"$build/tests/kernels/test_crc32c" --bench
"$build/tests/kernels/test_resize" --bench
"$build/bench/bench_example"
"$build/bench/bench_record" "$@"
