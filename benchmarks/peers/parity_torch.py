"""Train the autoencoder with PyTorch from known weights and data, for others to reproduce.

Writes weights.safetensors and data.npy (where to start) and expected.safetensors (where PyTorch arrives).
Weights are [in, out] row-major, so PyTorch's own [out, in] are transposed on the way.
"""
import argparse
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import nn

import common

OPTIMIZERS = {"rmsprop": torch.optim.RMSprop, "sgd": torch.optim.SGD, "adam": torch.optim.Adam}


def tensors(linears):
    named = {}
    for i, linear in enumerate(linears):
        named[f"layer{i}.weight"] = np.ascontiguousarray(linear.weight.detach().numpy().T)
        named[f"layer{i}.bias"] = linear.bias.detach().numpy()
    return named


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="rmsprop")
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.rows % args.batch:
        parser.error("--rows must be a multiple of --batch, so that batches wrap on a boundary")

    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    linears = [nn.Linear(i, o) for i, o in zip(common.WIDTHS, common.WIDTHS[1:])]
    x = torch.rand(args.rows, common.WIDTHS[0])
    args.directory.mkdir(parents=True, exist_ok=True)
    save_file(tensors(linears), args.directory / "weights.safetensors")
    np.save(args.directory / "data.npy", x.numpy())

    model = nn.Sequential(*(layer for linear in linears for layer in (linear, nn.ReLU())))[:-1]
    optimizer = OPTIMIZERS[args.optimizer](model.parameters(), lr=args.lr)
    for step in range(args.steps):
        start = step * args.batch % args.rows
        batch = x[start:start + args.batch]
        optimizer.zero_grad()
        loss = torch.sqrt(torch.mean((model(batch) - batch) ** 2))
        loss.backward()
        optimizer.step()
    save_file(tensors(linears), args.directory / "expected.safetensors")
    print(f"loss {loss.item():.7f} after {args.steps} steps of {args.optimizer}")


main()
