"""The zoo's models in MindSpore."""
from mindspore import nn, ops

import common


def mlp(widths):
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [nn.Dense(inputs, outputs), nn.ReLU()]
    return nn.SequentialCell(*layers[:-1])


def cnn():
    return nn.SequentialCell(
        nn.Conv2d(1, 32, 5, pad_mode="same", has_bias=True), nn.ReLU(), nn.MaxPool2d(2, 2),
        nn.Conv2d(32, 64, 5, pad_mode="same", has_bias=True), nn.ReLU(), nn.MaxPool2d(2, 2),
        nn.Flatten(), nn.Dense(7 * 7 * 64, 512), nn.ReLU(), nn.Dense(512, 10))


class CharLstm(nn.Cell):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(common.CHARACTERS, 8)
        self.lstm = nn.LSTM(8, 256, num_layers=2, batch_first=True)
        self.logits = nn.Dense(256, common.CHARACTERS)

    def construct(self, x):
        return self.logits(self.lstm(self.embedding(x))[0])


def unit(channels, outputs, kernel, stride=1, relu=True):
    layers = [nn.Conv2d(channels, outputs, kernel, stride, pad_mode="pad", padding=kernel // 2),
              nn.BatchNorm2d(outputs)]
    return nn.SequentialCell(*layers, *([nn.ReLU()] if relu else []))


class Bottleneck(nn.Cell):
    def __init__(self, channels, bottleneck, stride):
        super().__init__()
        outputs = 4 * bottleneck
        self.body = nn.SequentialCell(unit(channels, bottleneck, 1), unit(bottleneck, bottleneck, 3, stride),
                                      unit(bottleneck, outputs, 1, relu=False))
        straight = channels == outputs and stride == 1
        self.shortcut = nn.Identity() if straight else unit(channels, outputs, 1, stride, relu=False)

    def construct(self, x):
        return ops.relu(self.body(x) + self.shortcut(x))


class Resnet50(nn.Cell):
    """Version 1.5."""

    def __init__(self):
        super().__init__()
        channels, blocks = 64, []
        for stage, count in enumerate([3, 4, 6, 3]):
            for block in range(count):
                blocks.append(Bottleneck(channels, 64 << stage, 2 if stage and not block else 1))
                channels = 256 << stage
        self.body = nn.SequentialCell(unit(3, 64, 7, 2), nn.MaxPool2d(3, 2, pad_mode="pad", padding=1), *blocks)
        self.logits = nn.Dense(channels, common.IMAGE_CLASSES)

    def construct(self, x):
        return self.logits(ops.mean(self.body(x), (2, 3)))


def make(workload):
    return {"mlp-2nn": lambda: mlp([784, 200, 200, 10]), "cnn-mnist": cnn, "char-lstm": CharLstm,
            "resnet50-train": Resnet50, "resnet50-inference": Resnet50}[workload]()
