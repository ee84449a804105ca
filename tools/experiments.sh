#!/bin/sh
# The tables of docs/watch.md and docs/federate.md; hours. Data sets that are not on this machine are skipped, and said to be.
set -eu
cd "$(dirname "$0")/.."
cargo build --quiet --release -p synod
synod=target/release/synod
for name in smd m100-ipmi m100; do
    if "$synod" backtest --force "experiments/$name.toml" --compare pca,paper --nodes; then
        "$synod" backtest --force "experiments/$name.toml" --ablation
    else
        echo "experiments/$name.toml: its data are not here; see the paths in the file" >&2
    fi
done
"$synod" backtest --force experiments/paper.toml --both-splits
# Nodes that learn alone and together.
for name in federated-long federated-smd; do
    echo "== experiments/$name.toml"
    "$synod" backtest --force "experiments/$name.toml" || echo "experiments/$name.toml: its data are not here" >&2
done
for name in federated-synthetic federated-m100; do
    echo "== experiments/$name.toml"
    "$synod" backtest --force "experiments/$name.toml" --both-splits || echo "experiments/$name.toml: its data are not here" >&2
done
"$synod" backtest --force experiments/federated-paper.toml --both-splits
# The tables of docs/federate.md.
tools/fetch-mnist.sh data/mnist
for name in mcmahan-2nn mcmahan-cnn mcmahan-cnn-shards federated-skew federated-compression federated-poisoned; do
    echo "== experiments/$name.toml"
    "$synod" train "experiments/$name.toml"
done
echo "== experiments/mcmahan-shakespeare.toml"
"$synod" train experiments/mcmahan-shakespeare.toml || echo "the text is not here" >&2
echo "== experiments/federated-million.toml"
"$synod" train experiments/federated-million.toml --resume
