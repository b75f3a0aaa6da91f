# Thin names for the commands of the README. Each one begins with nothing and needs no other.
SEEDS ?= 1
PRESETS ?=
DATA ?=
LONGWAVE_TORCH_PYTHON ?= python3
MINUTES ?= 10
MODE ?= integer
CHAOS ?=

.PHONY: setup build programs demo test unit compare chaos bench-kernels release ci check-all clean

setup:
	tools/setup.sh

build: setup
	cmake --preset dev
	cmake --build --preset dev

# The programs alone, without the tests.
programs: setup
	cmake --preset dev
	cmake --build --preset dev --target longwave longwave-server longwave-worker

demo: programs
	build/bin/longwave up configs/demo.yaml $(if $(DATA),--data $(DATA))

test: build
	tests/run.sh build

# Seconds once built, without gRPC, ZeroMQ and LibTorch: for whoever changes the pure parts.
unit: setup
	cmake --preset dev
	cmake --build --preset dev --target unit

compare: programs
	tests/bench/compare.py --seeds $(SEEDS) $(if $(PRESETS),--presets $(PRESETS)) $(if $(DATA),--data $(DATA))

# Kills, freezes and restarts processes of a run at random, one about every second, for MINUTES; then audits
# it. MODE=integer: every value is known beforehand; MODE=training: a real model beside a quiet run.
# CHAOS: more options (tests/chaos/chaos.py --help), such as CHAOS='--links --secured'.
chaos: build
	tests/chaos/chaos.py --minutes $(MINUTES) --mode $(MODE) --bars $(CHAOS)

# The speed of the kernels on this machine, beside the plain PyTorch step where there is a torch.
bench-kernels: setup
	cmake --preset release -B build/release -DLONGWAVE_KERNELS_ONLY=ON
	cmake --build build/release --target bench_kernels
	mkdir -p build/bench
	rm -f build/bench/pytorch.csv
	$(LONGWAVE_TORCH_PYTHON) tests/bench/kernels/pytorch_step.py --out build/bench/pytorch.csv
	build/release/bin/bench_kernels --out build/bench/kernels.csv \
	  $$(test -e build/bench/pytorch.csv && echo --pytorch build/bench/pytorch.csv)
	python3 tests/bench/kernels/table.py bars build/bench/kernels.csv

# Everything that would be published, of HEAD (docs/how-to/releasing.md).
release: setup
	tools/release.sh

ci:
	.ci/run

# Everything, for hours, and its figures in docs/reference/checked.md: before a release, and before an issue is closed.
check-all: setup
	tests/check/check.py all

clean:
	rm -rf build build-cuda build-python
