# The front door. `make demo` and `make test` each install what is missing, build and run; the rest is for developers.
BUILD ?= build
PENSTOCK = $(BUILD)/cli/penstock

help:
	@echo "make demo     build, draw a small image set, pack, inspect, feed it and train a model; leaves demo/ to look at"
	@echo "make test     build and run the tests; ends with 'N passed, N failed'"
	@echo "make interop  the tests against TensorFlow, TFDS, Pillow, PyTorch, JAX and ONNX Runtime (venvs of about 9 GB, made once)"
	@echo "make dev      the fast tests under AddressSanitizer and UBSan"
	@echo "make tsan     the threaded tests under ThreadSanitizer"
	@echo "make coverage the lines of src/ that the tests reach, per room; build-coverage/uncovered.txt lists the others"
	@echo "make mutate   changes operators and constants of src/flow and src/record one by one; lists those that no test notices"
	@echo "make fuzz     libFuzzer on every parser, FUZZ_SECONDS each (default 30; needs clang)"
	@echo "make generate the lists of operations and layers, docs/ops.md, docs/layers.md and the Python stubs"
	@echo "make kill     100 training runs killed at random moments, and a long one; KILLS= and RUN_SECONDS= set how many and how long"
	@echo "make kill-cache 100 processes killed at random moments while they fill a cache on disk; KILLS= sets how many"
	@echo "make doctor-setups the doctor's tests with longer examinations: PATIENCE= times those of make test (5: as with --quick)"
	@echo "make bench    the record, Example and kernel benchmarks"
	@echo "make wheel    a Python wheel with its libraries inside, in dist/, checked in an empty venv"
	@echo "make install  into /usr/local, or PREFIX=…"

deps:
	@scripts/install_packages.sh

$(BUILD)/build.ninja: | deps
	@meson setup $(BUILD) >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log

build: $(BUILD)/build.ninja
	@ninja -C $(BUILD) | tail -n 1

generate: $(BUILD)/build.ninja
	@scripts/generate.sh $(BUILD)

demo: build
	@scripts/demo.sh $(PENSTOCK) demo

test: build
	@python3 scripts/check_rooms.py
	@python3 scripts/run_tests.py $(BUILD) --no-suite interop

interop: build
	@scripts/interop.sh $(BUILD)

dev: | deps
	@[ -d $(BUILD)-dev ] || meson setup $(BUILD)-dev -Dbuildtype=debugoptimized -Db_sanitize=address,undefined -Db_lundef=false >/dev/null
	@ninja -C $(BUILD)-dev | tail -n 1
	@python3 scripts/run_tests.py $(BUILD)-dev --no-suite slow --no-suite interop

tsan: | deps
	@[ -d $(BUILD)-tsan ] || meson setup $(BUILD)-tsan -Dbuildtype=debugoptimized -Db_sanitize=thread -Db_lundef=false >/dev/null
	@ninja -C $(BUILD)-tsan | tail -n 1
	@python3 scripts/run_tests.py $(BUILD)-tsan --no-suite slow --no-suite interop

coverage: | deps
	@[ -d $(BUILD)-coverage ] || meson setup $(BUILD)-coverage -Dbuildtype=debug -Doptimization=1 -Db_coverage=true >/dev/null
	@ninja -C $(BUILD)-coverage | tail -n 1
	@find $(BUILD)-coverage -name '*.gcda' -delete
	@python3 scripts/run_tests.py $(BUILD)-coverage --no-suite slow --no-suite interop | tail -n 1
	@python3 scripts/run_tests.py $(BUILD)-coverage doctor_setups cli-doctor | tail -n 1 # slow, but most of the doctor is reached by no other
	@python3 scripts/coverage.py $(BUILD)-coverage --least 95

MUTANTS ?= 100
mutate: | deps
	@nice -n 19 python3 scripts/mutate.py flow record --count $(MUTANTS) --folder $(BUILD)-mutate

fuzz: | deps
	@scripts/fuzz.sh $(BUILD)-fuzz

KILLS ?= 100
RUN_SECONDS ?= 3600
kill: build
	@PENSTOCK_KILLS=$(KILLS) PENSTOCK_RUN_SECONDS=$(RUN_SECONDS) PENSTOCK=$(abspath $(PENSTOCK)) PYTHONPATH=tests python3 tests/cli/test_train_kill.py

kill-cache: build
	@CACHE_KILLS=$(KILLS) PENSTOCK=$(abspath $(PENSTOCK)) PYTHONPATH=$(abspath $(BUILD)/python):tests:tests/python PYTHONDONTWRITEBYTECODE=1 python3 tests/python/test_disk_cache.py

PATIENCE ?= 5
doctor-setups: build
	@PENSTOCK_PATIENCE=$(PATIENCE) python3 scripts/run_tests.py $(BUILD) doctor_setups cli-doctor python-doctor

bench: build
	@scripts/bench.sh $(BUILD)

wheel: | deps
	@scripts/wheel.sh

install: build
	@meson configure $(BUILD) $(if $(PREFIX),--prefix $(PREFIX)) && meson install -C $(BUILD)

clean:
	rm -rf build build-dev build-tsan build-fuzz build-coverage build-mutate demo dist

.PHONY: help deps build generate demo test interop dev tsan coverage mutate fuzz kill kill-cache doctor-setups bench wheel install clean
