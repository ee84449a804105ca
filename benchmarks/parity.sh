#!/usr/bin/env bash
# Trains the autoencoder by PyTorch and by Synod from equal weights on equal batches and compares every parameter.
set -euo pipefail
cd "$(dirname "$0")"
peers/install.sh torch
cargo build --quiet --release -p synod-benchmarks
target=$(cargo metadata --format-version 1 --no-deps | python3 -c 'import json,sys; print(json.load(sys.stdin)["target_directory"])')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for optimizer in rmsprop adam sgd; do
  lr=0.001
  [ "$optimizer" = sgd ] && lr=0.1
  .venv-torch/bin/python peers/parity_torch.py "$work" --steps 100 --batch 10 --optimizer "$optimizer" --lr "$lr"
  "$target/release/synod-benchmarks" parity --weights "$work/weights.safetensors" --data "$work/data.npy" \
    --steps 100 --batch 10 --optimizer "$optimizer" --lr "$lr" --out "$work/ours.safetensors"
  echo "== $optimizer, 100 steps, relative L2 difference per tensor"
  .venv-torch/bin/python peers/parity_compare.py "$work/ours.safetensors" "$work/expected.safetensors"
done
