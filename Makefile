# Each target does its own set-up on a fresh Debian machine.
CARGO ?= cargo
export CARGO_TERM_COLOR ?= auto

.PHONY: help setup demo mnist int8 experiments test test-avx512 lint benchmark benchmark-federation parity onnx-check federate-check fuzz clean

help:
	@echo "make demo         watch a synthetic cluster: alarms, what they cost, and a report"
	@echo "make mnist        fetch MNIST, train the CNN on it, print the test accuracy"
	@echo "make int8         that CNN in bytes: accuracy and size beside those of f32"
	@echo "make experiments  detectors on real and synthetic telemetry: tables, ablations, the paper's protocol"
	@echo "make test         all tests"
	@echo "make test-avx512  the kernels' tests in an emulated AVX-512 machine"
	@echo "make lint         formatting, clippy, documentation"
	@echo "make parity       ops and training steps against PyTorch, parameter by parameter"
	@echo "make onnx-check   ONNX files to and from PyTorch and ONNX Runtime"
	@echo "make federate-check    federated strategies against Flower and numpy"
	@echo "make benchmark-federation    Synod's and Flower's simulations, in turns"
	@echo "make benchmark    Synod and its rivals on this machine, interleaved; writes BENCHMARKS.md"
	@echo "make fuzz         the model-file loader on damaged files, for a few minutes"

setup:
	@tools/setup.sh

demo: setup
	$(CARGO) run --quiet --release -p synod -- demo

mnist: setup
	tools/fetch-mnist.sh data/mnist
	$(CARGO) run --quiet --release -p synod -- train experiments/mnist-cnn.toml --resume

int8: mnist
	$(CARGO) run --quiet --release -p synod-benchmarks -- int8 data/mnist --model runs/mnist-cnn/model.safetensors

experiments: setup
	tools/experiments.sh

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

onnx-check: setup
	benchmarks/onnx_check.sh

federate-check: setup
	benchmarks/peers/install.sh flower
	benchmarks/.venv-flower/bin/python benchmarks/federate_check.py

benchmark-federation: setup
	python3 benchmarks/federation.py --paper

benchmark: setup
	python3 benchmarks/run.py

fuzz: setup
	SYNOD_FUZZ_SECONDS=180 $(CARGO) test --release -p synod-nn --test loader -- --nocapture

clean:
	$(CARGO) clean
