#!/usr/bin/env bash
# Compares every op with PyTorch on random configurations, forward and all gradients.
# Usage: parity_ops.sh [cases per op] [seed]
set -euo pipefail
cd "$(dirname "$0")"
peers/install.sh torch
cargo build --quiet --release -p synod-benchmarks
target=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json,sys; print(json.load(sys.stdin)["target_directory"])')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
.venv-torch/bin/python peers/parity_ops_torch.py "$work" --cases "${1:-25}" --seed "${2:-0}"
"$target/release/synod-benchmarks" parity-ops "$work" --tolerance 1e-4
