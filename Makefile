# Thin names for the commands of the README. Each one begins with nothing and needs no other.
SEEDS ?= 1
PRESETS ?= longwave,longwave_dct,ddp,diloco,demo,decoupled,sparseloco
DATA ?=

.PHONY: setup build demo test compare ci clean

setup:
	tools/setup.sh

build: setup
	cmake --preset dev
	cmake --build --preset dev

demo: build
	build/bin/longwave up configs/demo.yaml $(if $(DATA),--data $(DATA))

test: build
	tools/test.sh build

compare: build
	tools/compare.py --seeds $(SEEDS) --presets $(PRESETS) $(if $(DATA),--data $(DATA))

ci:
	.ci/run

clean:
	rm -rf build
