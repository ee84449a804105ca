"""Synod's ONNX import and export against PyTorch and ONNX Runtime, network by network.

For each network of the zoo: PyTorch's equivalent with random weights is exported to ONNX and run by Synod, its state dict is
loaded into Synod's model, and Synod's own model is exported and run by ONNX Runtime. Prints the largest differences.
"""

import argparse
import pathlib
import subprocess
import sys
import time
import warnings

import numpy as np
import onnxruntime
import torch
from safetensors.torch import save_file
from torch import nn

TOLERANCE = 1e-4


class CnnMnist(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 5, padding=2)
        self.conv2 = nn.Conv2d(32, 64, 5, padding=2)
        self.fc1 = nn.Linear(7 * 7 * 64, 512)
        self.fc2 = nn.Linear(512, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.conv1(x).relu(), 2)
        x = nn.functional.max_pool2d(self.conv2(x).relu(), 2)
        return self.fc2(self.fc1(x.flatten(1)).relu())


class CharLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(90, 8)
        self.lstm = nn.LSTM(8, 256, num_layers=2, batch_first=True)
        self.fc = nn.Linear(256, 90)

    def forward(self, x):
        return self.fc(self.lstm(self.embedding(x))[0])


class LstmAutoencoder(nn.Module):
    def __init__(self, time=30, features=16, hidden=64):
        super().__init__()
        self.time = time
        self.reader = nn.LSTM(features, hidden, batch_first=True)
        self.writer = nn.LSTM(hidden, hidden, batch_first=True)
        self.output = nn.Linear(hidden, features)

    def forward(self, x):
        _, (h, _) = self.reader(x)
        code = h[-1].unsqueeze(1).expand(-1, self.time, -1)
        return self.output(self.writer(code)[0])


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, 400)
        self.fc21 = nn.Linear(400, 20)
        self.fc22 = nn.Linear(400, 20)
        self.fc3 = nn.Linear(20, 400)
        self.fc4 = nn.Linear(400, 784)

    def forward(self, x):
        # The mean path: what a trained model is used by.
        return self.fc4(self.fc3(self.fc21(self.fc1(x).relu())).relu())


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride, first):
        super().__init__()
        strides = (stride, 1) if first else (1, stride)
        self.conv1 = nn.Conv2d(channels, width, 1, strides[0], bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, strides[1], 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = None
        if stride != 1 or channels != 4 * width:
            conv = nn.Conv2d(channels, 4 * width, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = self.bn1(self.conv1(x)).relu()
        y = self.bn2(self.conv2(y)).relu()
        y = self.bn3(self.conv3(y))
        return (y + (x if self.downsample is None else self.downsample(x))).relu()


class Resnet50(nn.Module):
    def __init__(self, first):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        channels = 64
        for stage, blocks in enumerate([3, 4, 6, 3]):
            layers = []
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                layers.append(Bottleneck(channels, 64 << stage, stride, first))
                channels = 4 * (64 << stage)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(channels, 1000)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.bn1(self.conv1(x)).relu(), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean([2, 3]))


def dense(*widths):
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def randomise_norms(module):
    """Statistics as they begin would hide mistakes in their use."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.5, 1.0)
            nn.init.normal_(part.bias, 0, 0.1)
            nn.init.normal_(part.running_mean, 0, 0.1)
            nn.init.uniform_(part.running_var, 0.8, 1.5)


NETWORKS = {
    "mlp-2nn": (lambda: dense(784, 200, 200, 10), (784,)),
    "autoencoder": (lambda: dense(460, 80, 60, 40, 20, 40, 60, 80, 100, 460), (460,)),
    "vae": (Vae, (784,)),
    "cnn-mnist": (CnnMnist, (28, 28, 1)),
    "resnet50-v1": (lambda: Resnet50(True), (64, 64, 3)),
    "resnet50": (lambda: Resnet50(False), (64, 64, 3)),
    "lstm-autoencoder": (LstmAutoencoder, (30, 16)),
    "char-lstm": (CharLstm, (80,)),
}


def synod(program, work, shape, rows, *command):
    rows.astype("<f4").tofile(work / "in.f32")
    arguments = [program, *map(str, command), str(work / "in.f32"), str(work / "out.f32")]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip()[:2000])
    return np.fromfile(work / "out.f32", "<f4").reshape(shape)


def difference(x, y):
    """The largest difference, relative to the largest number where that is above 1."""
    worst = np.abs(x - y).max() / max(1.0, np.abs(y).max())
    return float(worst) if np.isfinite(worst) else float("inf")


def check(name, program, work):
    torch.manual_seed(1)
    make, example = NETWORKS[name]
    module = make().eval()
    randomise_norms(module)
    generator = np.random.default_rng(1)
    batch = 2
    if name == "char-lstm":
        rows = generator.integers(0, 90, (batch, *example)).astype(np.float32)
        given = torch.from_numpy(rows.astype(np.int64))
    else:
        rows = generator.standard_normal((batch, *example)).astype(np.float32)
        given = torch.from_numpy(rows)
    # Synod's own models take images as [height, width, channels].
    theirs = given.permute(0, 3, 1, 2).contiguous() if len(example) == 3 else given
    with torch.no_grad():
        wanted = module(theirs).numpy()

    def imported():
        torch.onnx.export(
            module, (theirs,), str(work / "torch.onnx"), dynamo=False, opset_version=17,
            input_names=["input"], output_names=["output"],
            dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}},
        )
        return difference(synod(program, work, wanted.shape, theirs.numpy(), "import", work / "torch.onnx"), wanted)

    def weights():
        save_file(module.state_dict(), str(work / "torch.safetensors"))
        found = synod(program, work, wanted.shape, rows, "weights", name, work / "torch.safetensors")
        return difference(found, wanted)

    def exported():
        ours = synod(program, work, wanted.shape, rows, "export", name, work / "synod.onnx")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(str(work / "synod.onnx"), options, providers=["CPUExecutionProvider"])
        worst = difference(session.run(None, {"input": rows})[0], ours)
        # Another batch size than any that was traced.
        one = session.run(None, {"input": rows[:1]})[0]
        return max(worst, difference(one, ours[:1]))

    return [imported, weights, exported]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="the onnx_check example")
    parser.add_argument("work", type=pathlib.Path, help="a folder for files")
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    print(f"{'network':18} {'torch.onnx -> Synod':>20} {'state dict -> Synod':>20} {'Synod -> ORT':>14} {'seconds':>8}")
    failed = []
    for name in arguments.networks or list(NETWORKS):
        begin, cells = time.time(), []
        for step in check(name, arguments.program, arguments.work):
            try:
                worst = step()
                cells.append(f"{worst:.1e}")
                if worst > TOLERANCE:
                    failed.append(f"{name}: {step.__name__}: {worst:.1e} is more than {TOLERANCE:.0e}")
            except Exception as problem:  # every network is shown, whatever happens to one
                cells.append("failed")
                failed.append(f"{name}: {step.__name__}: {problem}")
        seconds = time.time() - begin
        print(f"{name:18} {cells[0]:>20} {cells[1]:>20} {cells[2]:>14} {seconds:>8.1f}", flush=True)
    print(f"torch {torch.__version__}, onnxruntime {onnxruntime.__version__}; largest difference, relative above 1")
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
