# Each target does its own set-up on a fresh Debian machine.
CARGO ?= cargo
export CARGO_TERM_COLOR ?= auto

.PHONY: help setup demo test test-avx512 lint benchmark parity fuzz clean

help:
	@echo "make demo         train the autoencoder on generated telemetry and find injected faults"
	@echo "make test         all tests"
	@echo "make test-avx512  the kernels' tests in an emulated AVX-512 machine"
	@echo "make lint         formatting, clippy, documentation"
	@echo "make parity       100 training steps against PyTorch, parameter by parameter"
	@echo "make benchmark    Synod and its rivals on this machine, interleaved; writes BENCHMARKS.md"
	@echo "make fuzz         the model-file loader on damaged files, for a few minutes"

setup:
	@tools/setup.sh

demo: setup
	$(CARGO) run --quiet --release -p synod -- demo

test: setup
	$(CARGO) nextest run --workspace --no-fail-fast
	$(CARGO) test --workspace --doc --quiet

test-avx512: setup
	tools/avx512.sh

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet

parity: setup
	benchmarks/parity.sh

benchmark: setup
	python3 benchmarks/run.py

fuzz: setup
	SYNOD_FUZZ_SECONDS=180 $(CARGO) test --release -p synod-nn --test loader -- --nocapture

clean:
	$(CARGO) clean
