#!/usr/bin/env bash
# Compares Synod's ONNX import and export, and its reading of state dicts, with PyTorch and ONNX Runtime.
# Usage: onnx_check.sh [NETWORK]...
set -euo pipefail
cd "$(dirname "$0")"
peers/install.sh torch onnxruntime
cargo build --quiet --release -p synod-onnx --example onnx_check
target=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json,sys; print(json.load(sys.stdin)["target_directory"])')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Exporting needs PyTorch and `onnx` in one process; the latter comes with ONNX Runtime.
runtime=$(.venv-onnxruntime/bin/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
PYTHONPATH=$runtime .venv-torch/bin/python peers/onnx_check.py "$target/release/examples/onnx_check" "$work" "$@"
