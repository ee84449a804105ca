"""MindSpore. Mode: graph (one compiled training step)."""
import common

args = common.arguments("graph")
import mindspore
import numpy as np
from mindspore import Tensor, nn, ops

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


def infer():
    x, network = Tensor(common.data()[:args.batch]), autoencoder().set_train(False)
    common.inference(args, "mindspore", mindspore.__version__, lambda: network(x).asnumpy())


{"autoencoder": train, "autoencoder-inference": infer}.get(args.workload, lambda: common.unsupported(args))()
