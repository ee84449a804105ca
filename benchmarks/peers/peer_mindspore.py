"""MindSpore. Mode: graph (one compiled training step)."""
import common

args = common.arguments("graph")
import mindspore
import numpy as np
from mindspore import Tensor, nn, ops

import models_mindspore

mindspore.set_device("CPU")
mindspore.set_context(mode=mindspore.GRAPH_MODE)
mindspore.set_seed(0)
if args.threads == 1:
    mindspore.runtime.dispatch_threads_num(1)


class WithRmse(nn.Cell):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def construct(self, x):
        return ops.sqrt(ops.mean(ops.square(self.network(x) - x)))


def autoencoder():
    layers = []
    for i, o in zip(common.WIDTHS, common.WIDTHS[1:]):
        layers += [nn.Dense(i, o), nn.ReLU()]
    return nn.SequentialCell(*layers[:-1])


def train():
    x, rng, network = common.data(), np.random.default_rng(2), autoencoder()
    optimizer = nn.RMSProp(network.trainable_params(), learning_rate=common.LEARNING_RATE, decay=common.ALPHA,
                           epsilon=common.EPSILON)
    step = nn.TrainOneStepCell(WithRmse(network), optimizer)
    step.set_train()

    def epoch():
        shuffled = x[rng.permutation(len(x))]
        for start in range(0, len(x), args.batch):
            loss = step(Tensor(shuffled[start:start + args.batch]))
        return float(loss.asnumpy())

    common.epochs(args, "mindspore", mindspore.__version__, epoch)


class WithCrossEntropy(nn.Cell):
    def __init__(self, network):
        super().__init__()
        self.network, self.loss = network, nn.CrossEntropyLoss()

    def construct(self, x, y):
        scores = self.network(x)
        return self.loss(scores.reshape((-1, scores.shape[-1])), y.reshape((-1,)))


def task():
    settings, rng = common.TASKS[args.workload], np.random.default_rng(2)
    x, y = common.examples(args.workload)
    if x.ndim == 4:
        x = np.ascontiguousarray(x.transpose(0, 3, 1, 2))  # the only layout of its convolution on processors
    network = models_mindspore.make(args.workload)
    optimizer = nn.SGD(network.trainable_params(), settings.rate, settings.momentum)
    step = nn.TrainOneStepCell(WithCrossEntropy(network), optimizer)
    step.set_train()

    def epoch():
        order = rng.permutation(len(x))
        for start in range(0, len(x) - args.batch + 1, args.batch):
            rows = order[start:start + args.batch]
            loss = step(Tensor(x[rows]), Tensor(y[rows]))
        return float(loss.asnumpy())

    common.task_epochs(args, "mindspore", mindspore.__version__, epoch)


def infer():
    if args.workload == "resnet50-inference":
        x = Tensor(np.ascontiguousarray(common.images(args.batch).transpose(0, 3, 1, 2)))
        network = models_mindspore.make(args.workload).set_train(False)
    else:
        x, network = Tensor(common.data()[:args.batch]), autoencoder().set_train(False)
    common.inference(args, "mindspore", mindspore.__version__, lambda: network(x).asnumpy())


own = {"autoencoder": train, "autoencoder-inference": infer, "resnet50-inference": infer,
       **dict.fromkeys(common.TASKS, task)}
own.get(args.workload, lambda: common.unsupported(args))()
