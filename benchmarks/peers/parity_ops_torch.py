"""Random configurations of every op with PyTorch's results and gradients, for others to reproduce.

Writes cases.json, a list of {"op", "inputs", "wrt", "outputs", ...settings}, and cases.safetensors with `N/input/i`,
`N/output/i`, `N/cotangent/i` and `N/gradient/i` of case N. The gradients are those of the sum of all outputs times their
cotangents, with respect to the inputs in "wrt". Layouts are Synod's: images [n, height, width, channels], weights
[taps down, taps across, channels / groups, outputs], recurrent weights [features, gates].
"""
import argparse
import json
import random
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

# Where PyTorch's own f32 is further than this from its f64, such as where a certain class leaves a gradient of 1 - 1, a
# difference from it says nothing. A tenth of what is allowed to Synod.
CERTAIN = 1e-5
pick = random.Random(0)


def pair(low, high):
    return [pick.randint(low, high), pick.randint(low, high)]


def nchw(x):
    return x.permute(0, 3, 1, 2)


def nhwc(x):
    return x.permute(0, 2, 3, 1)


def padded(x, padding, value=0.0):
    (top, bottom), (left, right) = padding
    return F.pad(x, (left, right, top, bottom), value=value)


def window(extent, largest_kernel, largest_padding):
    """A window that fits: its settings, and the extents of an image under it."""
    while True:
        kernel, stride, dilation = pair(1, largest_kernel), pair(1, 3), pair(1, 2)
        padding = [pair(0, largest_padding), pair(0, largest_padding)]
        image = [pick.randint(1, extent), pick.randint(1, extent)]
        if all(d * (k - 1) + 1 <= i + sum(p) for k, d, i, p in zip(kernel, dilation, image, padding)):
            return dict(kernel=kernel, stride=stride, padding=padding, dilation=dilation), image


def conv():
    settings, image = window(14, 5, 3)
    groups = pick.choice([1, 1, 1, 2, 3, 8])
    channels = groups * pick.choice([1, 2, 5, 8])
    outputs = groups * pick.choice([1, 3, 8, 16])
    if pick.random() < 0.3:  # as in residual networks, where there are faster ways
        side = pick.choice([3, 5])
        settings = dict(kernel=[side, side], stride=[1, 1], padding=[pair(0, 2), pair(0, 2)], dilation=[1, 1])
        image, groups, channels, outputs = pair(12, 20), 1, pick.randint(16, 70), pick.randint(16, 70)
    x = torch.randn(pick.randint(1, 4), *image, channels)
    w = torch.randn(*settings["kernel"], channels // groups, outputs)
    b = torch.randn(outputs)

    def run(x, w, b):
        y = F.conv2d(padded(nchw(x), settings["padding"]), w.permute(3, 2, 0, 1).contiguous(), b, settings["stride"], 0,
                     settings["dilation"], groups)
        return [nhwc(y)]

    return dict(op="convolution", groups=groups, **settings), [x, w, b], run


def max_pool():
    settings, image = window(14, 4, 1)
    # A window with all its taps in the padding has no largest element.
    settings["padding"] = [[min(a, k - 1), min(b, k - 1)] for (a, b), k in zip(settings["padding"], settings["kernel"])]
    if any(d * (k - 1) + 1 > i for k, d, i in zip(settings["kernel"], settings["dilation"], image)):
        return max_pool()
    x = torch.randn(pick.randint(1, 4), *image, pick.choice([1, 3, 8, 17]))

    def run(x):
        y = F.max_pool2d(padded(nchw(x), settings["padding"], -torch.inf), settings["kernel"], settings["stride"], 0,
                         settings["dilation"])
        return [nhwc(y)]

    return dict(op="max pooling", **settings), [x], run


def average_pool():
    settings, image = window(14, 4, 0)
    settings["dilation"] = [1, 1]
    sides = [pick.randint(0, k // 2) for k in settings["kernel"]]
    settings["padding"] = [[side, side] for side in sides]
    count = pick.random() < 0.5
    x = torch.randn(pick.randint(1, 4), *image, pick.choice([1, 3, 8, 17]))

    def run(x):
        return [nhwc(F.avg_pool2d(nchw(x), settings["kernel"], settings["stride"], sides, count_include_pad=count))]

    return dict(op="average pooling", count_padding=count, **settings), [x], run


def global_average_pool():
    x = torch.randn(pick.randint(1, 4), *pair(1, 12), pick.choice([1, 3, 8, 17]))
    return dict(op="global average pooling"), [x], lambda x: [F.adaptive_avg_pool2d(nchw(x), 1).flatten(1)]


def batch_norm(training):
    channels, momentum, eps = pick.choice([1, 3, 8, 17]), pick.choice([0.1, 0.01, 0.5]), pick.choice([1e-5, 1e-3])
    x = torch.randn(pick.randint(2, 6), *pair(2, 6), channels) * pick.choice([0.3, 1, 4]) + torch.randn(channels)
    scale, shift = torch.randn(channels), torch.randn(channels)
    mean, variance = torch.randn(channels), torch.rand(channels) + 0.5

    def run(x, scale, shift, mean, variance):
        mean, variance = mean.clone(), variance.clone()
        y = nhwc(F.batch_norm(nchw(x), mean, variance, scale, shift, training, momentum, eps))
        return [y, mean, variance] if training else [y]

    name = "batch norm, training" if training else "batch norm, inference"
    return dict(op=name, momentum=momentum, eps=eps, wrt=[0, 1, 2]), [x, scale, shift, mean, variance], run


def embedding():
    rows = pick.randint(1, 30)
    table = torch.randn(rows, *(pick.randint(1, 9) for _ in range(pick.randint(1, 2))))
    indices = torch.randint(rows, [pick.randint(1, 12) for _ in range(pick.randint(1, 2))]).float()
    return dict(op="embedding", wrt=[0]), [table, indices], lambda table, indices: [table[indices.long()]]


def cross_entropy():
    lead, classes = [pick.randint(1, 12) for _ in range(pick.randint(1, 2))], pick.choice([2, 10, 90])
    logits = torch.randn(*lead, classes) * pick.choice([1, 10])

    def run(logits, target):
        return [F.cross_entropy(logits.flatten(0, -2), target.flatten().long())]

    return dict(op="softmax cross-entropy", wrt=[0]), [logits, torch.randint(classes, lead).float()], run


def softmax():
    x = torch.randn(*pair(1, 12), pick.choice([1, 2, 10, 90])) * pick.choice([1, 10])
    return dict(op="softmax"), [x], lambda x: [F.softmax(x, -1), F.log_softmax(x, -1)]


def recurrent(kind, gates):
    batch, time = pick.randint(1, 5), pick.choice([1, 7, 16, 17, 40])
    features, hidden = pick.randint(1, 9), pick.randint(1, 20)
    made = getattr(torch.nn, kind.upper())(features, hidden, batch_first=True)
    weights = [made.weight_ih_l0.detach().T.contiguous(), made.weight_hh_l0.detach().T.contiguous(),
               made.bias_ih_l0.detach()]
    if kind == "gru":
        weights.append(made.bias_hh_l0.detach())

    def run(x, from_input, from_state, bias, state_bias=None):
        state_bias = torch.zeros(gates * hidden, dtype=x.dtype) if state_bias is None else state_bias
        names = dict(weight_ih_l0=from_input.T, weight_hh_l0=from_state.T, bias_ih_l0=bias, bias_hh_l0=state_bias)
        return [torch.func.functional_call(made, names, (x,))[0]]

    return dict(op=kind.upper(), hidden=hidden), [torch.randn(batch, time, features), *weights], run


def concat():
    rank, parts = pick.randint(1, 4), pick.randint(2, 4)
    axis, dims = pick.randrange(rank), [pick.randint(1, 6) for _ in range(rank)]
    inputs = [torch.randn(*dims[:axis], pick.randint(1, 6), *dims[axis + 1:]) for _ in range(parts)]
    return dict(op="concat", axis=axis), inputs, lambda *x: [torch.cat(x, axis)]


def pad():
    dims = [pick.randint(1, 6) for _ in range(pick.randint(1, 4))]
    low, high = [pick.randint(0, 3) for _ in dims], [pick.randint(0, 3) for _ in dims]
    sides = [side for ends in reversed(list(zip(low, high))) for side in ends]
    return dict(op="pad", low=low, high=high), [torch.randn(dims)], lambda x: [F.pad(x, sides)]


def cut():
    dims = [pick.randint(1, 9) for _ in range(pick.randint(1, 4))]
    start = [pick.randrange(d) for d in dims]
    stop = [pick.randint(s + 1, d) for s, d in zip(start, dims)]
    parts = tuple(map(slice, start, stop))
    return dict(op="slice", start=start, stop=stop), [torch.randn(dims)], lambda x: [x[parts]]


def transpose():
    dims = [pick.randint(1, 9) for _ in range(pick.randint(1, 4))]
    order = pick.sample(range(len(dims)), len(dims))
    return dict(op="transpose", order=order), [torch.randn(dims)], lambda x: [x.permute(order)]


def argmax():
    x = torch.randn(*pair(1, 12), pick.randint(1, 40))
    return dict(op="argmax", wrt=[]), [x], lambda x: [x.argmax(-1).float()]


def top_k():
    rows, classes = pick.randint(1, 12), pick.randint(1, 40)
    k = pick.randint(1, classes)
    x, target = torch.randn(rows, classes), torch.randint(classes, [rows]).float()

    def run(x, target):
        return [(x.topk(k, -1).indices == target.long()[:, None]).any(-1).float()]

    return dict(op="top-k", k=k, wrt=[]), [x, target], run


OPS = [conv, max_pool, average_pool, global_average_pool, lambda: batch_norm(True), lambda: batch_norm(False), embedding,
       softmax, cross_entropy, lambda: recurrent("lstm", 4), lambda: recurrent("gru", 3), concat, pad, cut, transpose,
       argmax, top_k]


def evaluate(run, inputs, wrt, cotangents):
    """Outputs, cotangents (drawn, if there are none yet) and gradients, in the precision of the inputs."""
    inputs = [x.detach().clone().requires_grad_(i in wrt) for i, x in enumerate(inputs)]
    outputs = run(*inputs)
    learnt = [y for y in outputs if y.requires_grad]
    cotangents = [torch.randn(y.shape) for y in learnt] if cotangents is None else cotangents
    gradients = torch.autograd.grad(learnt, [inputs[i] for i in wrt], cotangents) if wrt else []
    return [y.detach() for y in outputs], cotangents, list(gradients)


def own_error(found, exact):
    """The largest difference of PyTorch's f32 from its f64, relative to a tensor's largest element."""
    errors = [((a - b).abs().max() / b.abs().max()).item() for a, b in zip(found, exact) if (a != b).any()]
    return max(errors, default=0.0)


def reproduce(number, case, inputs, run, tensors):
    """Runs a case and stores what goes in and what comes out; None if rounding alone decides what comes out."""
    wrt = case.setdefault("wrt", list(range(len(inputs))))
    outputs, cotangents, gradients = evaluate(run, inputs, wrt, None)
    exact = evaluate(run, [x.double() for x in inputs], wrt, [c.double() for c in cotangents])
    if own_error(outputs + gradients, exact[0] + exact[2]) > CERTAIN:
        return None
    case.update(inputs=len(inputs), outputs=len(outputs), cotangents=len(cotangents))
    for kind, values in dict(input=inputs, output=outputs, cotangent=cotangents, gradient=gradients).items():
        for i, value in enumerate(values):
            # A copy in row-major order: a view of another tensor would be stored with that one's strides.
            tensors[f"{number}/{kind}/{i}"] = np.array(value.numpy(), np.float32, order="C")
    return case


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--cases", type=int, default=25, help="of every op")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    pick.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    cases, tensors = [], {}
    for op in OPS:
        redrawn, wanted = 0, len(cases) + args.cases
        while len(cases) < wanted:
            case, inputs, run = op()
            case = reproduce(len(cases), case, [x.detach() for x in inputs], run, tensors)
            redrawn += case is None
            cases += [case] if case else []
        if redrawn:
            print(f"{cases[-1]['op']}: {redrawn} drawn again, for PyTorch's f32 is {CERTAIN:g} or more from its f64")
    args.directory.mkdir(parents=True, exist_ok=True)
    (args.directory / "cases.json").write_text(json.dumps(cases))
    save_file(tensors, args.directory / "cases.safetensors")


main()
