"""The zoo's models in PyTorch, and their parameters by Synod's names and in Synod's layouts."""
from collections import OrderedDict

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import common


class Cnn(nn.Module):
    """The CNN of the federated-averaging paper for images of 28 x 28."""

    def __init__(self):
        super().__init__()
        self.conv0, self.conv1 = nn.Conv2d(1, 32, 5, padding=2), nn.Conv2d(32, 64, 5, padding=2)
        self.dense0, self.dense1 = nn.Linear(7 * 7 * 64, 512), nn.Linear(512, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv0(x)), 2)
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        return self.dense1(F.relu(self.dense0(x.flatten(1))))


class CharLstm(nn.Module):
    """The character model of the federated-averaging paper; the second bias of every layer stays zero."""

    def __init__(self, vocabulary=common.CHARACTERS):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 8)
        self.lstm = nn.LSTM(8, 256, num_layers=2, batch_first=True)
        self.logits = nn.Linear(256, vocabulary)
        for name, bias in self.lstm.named_parameters():
            if name.startswith("bias_hh"):
                nn.init.zeros_(bias)
                bias.requires_grad_(False)

    def forward(self, x):
        return self.logits(self.lstm(self.embedding(x))[0])


class Unit(nn.Conv2d):
    """A convolution without bias and a batch normalisation."""

    def __init__(self, channels, outputs, kernel, stride=1, relu=True):
        super().__init__(channels, outputs, kernel, stride, kernel // 2, bias=False)
        nn.init.kaiming_normal_(self.weight, mode="fan_out", nonlinearity="relu")
        self.norm, self.relu = nn.BatchNorm2d(outputs), relu

    def forward(self, x):
        x = self.norm(super().forward(x))
        return F.relu(x, inplace=True) if self.relu else x


class Bottleneck(nn.Module):
    def __init__(self, channels, bottleneck, strides):
        super().__init__()
        self.reduce = Unit(channels, bottleneck, 1, strides[0])
        self.spread = Unit(bottleneck, bottleneck, 3, strides[1])
        self.expand = Unit(bottleneck, 4 * bottleneck, 1, relu=False)
        stride = max(strides)
        if channels != 4 * bottleneck or stride != 1:
            self.shortcut = Unit(channels, 4 * bottleneck, 1, stride, relu=False)

    def forward(self, x):
        beside = self.shortcut(x) if hasattr(self, "shortcut") else x
        return F.relu(self.expand(self.spread(self.reduce(x))) + beside, inplace=True)


class Resnet50(nn.Module):
    """Version 1.5 halves images in the 3 x 3 convolutions, version 1 in the first 1 x 1."""

    def __init__(self, version=1.5, classes=1000):
        super().__init__()
        self.stem = nn.ModuleDict({"conv": Unit(3, 64, 7, 2)})
        channels, stages = 64, OrderedDict()
        for stage, count in enumerate([3, 4, 6, 3]):
            blocks = OrderedDict()
            for block in range(count):
                stride = 2 if stage and not block else 1
                strides = (1, stride) if version == 1.5 else (stride, 1)
                blocks[f"block{block}"] = Bottleneck(channels, 64 << stage, strides)
                channels = 256 << stage
            setattr(self, f"stage{stage}", nn.Sequential(blocks))
        self.logits = nn.Linear(channels, classes)

    def forward(self, x):
        x = F.max_pool2d(self.stem["conv"](x), 3, 2, 1)
        x = self.stage3(self.stage2(self.stage1(self.stage0(x))))
        return self.logits(x.mean((2, 3)))


def mlp(widths):
    layers = OrderedDict()
    for i, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
        layers[f"layer{i}"] = nn.Linear(inputs, outputs)
        layers[f"relu{i}"] = nn.ReLU()
    layers.popitem()
    return nn.Sequential(layers)


def parts(name, module):
    """(name, tensor) of one module's own parameters and buffers."""
    if isinstance(module, nn.Conv2d):
        yield f"{name}.weight", module.weight.permute(2, 3, 1, 0)
        if module.bias is not None:
            yield f"{name}.bias", module.bias
    elif isinstance(module, nn.Linear):
        yield f"{name}.weight", module.weight.T
        yield f"{name}.bias", module.bias
    elif isinstance(module, nn.BatchNorm2d):
        yield f"{name}.scale", module.weight
        yield f"{name}.shift", module.bias
        yield f"{name}.running_mean", module.running_mean
        yield f"{name}.running_variance", module.running_var
    elif isinstance(module, nn.Embedding):
        yield f"{name}.table", module.weight
    elif isinstance(module, nn.LSTM):
        for layer in range(module.num_layers):
            yield f"{name}{layer}.from_input", getattr(module, f"weight_ih_l{layer}").T
            yield f"{name}{layer}.from_state", getattr(module, f"weight_hh_l{layer}").T
            yield f"{name}{layer}.bias", getattr(module, f"bias_ih_l{layer}")


def tensors(model):
    """Everything a model has learnt, for Synod to start from or to be compared with."""
    named = {}
    for name, module in model.named_modules():
        for part, tensor in parts(name, module):
            if isinstance(model, Cnn) and part == "dense0.weight":
                # PyTorch flattens [channels, height, width], Synod [height, width, channels].
                tensor = tensor.reshape(64, 7, 7, 512).permute(1, 2, 0, 3).reshape(-1, 512)
            # A copy: the optimiser changes the original.
            named[part] = np.array(tensor.detach().numpy(), order="C")
    return named
