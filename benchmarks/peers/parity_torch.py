"""Train a model with PyTorch from known weights and data, for others to reproduce.

Writes weights.safetensors and data.safetensors (where to start) and expected.safetensors (where PyTorch arrives), all in
Synod's names and layouts.
"""
import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

import common
import models_torch as models

OPTIMIZERS = {"rmsprop": torch.optim.RMSprop, "sgd": torch.optim.SGD, "adam": torch.optim.Adam}
CLASSES = 1000


def rmse(output, target):
    return torch.sqrt(torch.mean((output - target) ** 2))


def autoencoder(rows):
    x = torch.rand(rows, common.WIDTHS[0])
    return models.mlp(common.WIDTHS), x, x, rmse, {"inputs": x}


def cnn(rows):
    x, y = torch.rand(rows, 1, 28, 28), torch.randint(10, [rows])
    return models.Cnn(), x, y, F.cross_entropy, {"inputs": x.permute(0, 2, 3, 1), "targets": y}


def char_lstm(rows):
    x, y = torch.randint(common.CHARACTERS, [2, rows, common.CHARACTER_TIMES])

    def loss(output, target):
        return F.cross_entropy(output.flatten(0, 1), target.flatten())

    return models.CharLstm(), x, y, loss, {"inputs": x, "targets": y}


def gentle(model):
    """Damps what every block adds, and moves the normalised values off ReLU's edge.

    From the usual start, on batches this small, 20 steps are chaotic: PyTorch with images channels-last ends more than
    100 % away from PyTorch without, and even the first gradients differ by 2 %.
    """
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(module.bias, 0, 0.1)
            if ".expand." in name:
                torch.nn.init.constant_(module.weight, 0.2)
    return model


def resnet(version):
    def make(rows):
        x, y = torch.randn(rows, 3, 64, 64), torch.randint(CLASSES, [rows])
        model = gentle(models.Resnet50(version, CLASSES))
        return model, x, y, F.cross_entropy, {"inputs": x.permute(0, 2, 3, 1), "targets": y}

    return make


MODELS = {"autoencoder": autoencoder, "cnn-mnist": cnn, "char-lstm": char_lstm, "resnet50": resnet(1.5),
          "resnet50-v1": resnet(1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--model", choices=MODELS, default="autoencoder")
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
    model, x, y, loss_of, data = MODELS[args.model](args.rows)
    args.directory.mkdir(parents=True, exist_ok=True)
    save_file(models.tensors(model), args.directory / "weights.safetensors")
    data = {name: np.array(tensor.reshape(args.rows, -1).numpy(), np.float32) for name, tensor in data.items()}
    save_file(data, args.directory / "data.safetensors")

    optimizer = OPTIMIZERS[args.optimizer]([p for p in model.parameters() if p.requires_grad], lr=args.lr)
    for step in range(args.steps):
        start = step * args.batch % args.rows
        batch = slice(start, start + args.batch)
        optimizer.zero_grad()
        loss = loss_of(model(x[batch]), y[batch])
        loss.backward()
        optimizer.step()
    save_file(models.tensors(model), args.directory / "expected.safetensors")
    print(f"loss {loss.item():.7f} after {args.steps} steps of {args.optimizer}")


main()
