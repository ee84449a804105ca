"""ResNet-50 (version 1.5) as an ONNX file with random weights, made node by node."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

import common


class Graph:
    def __init__(self):
        self.nodes, self.weights, self.rng = [], [], np.random.default_rng(1)

    def weight(self, values):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, np.float32), name))
        return name

    def node(self, kind, *inputs, **settings):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **settings))
        return name

    def unit(self, x, channels, outputs, kernel, stride=1, relu=True):
        deviation = (2 / (kernel * kernel * outputs)) ** 0.5
        weight = self.weight(self.rng.normal(0, deviation, (outputs, channels, kernel, kernel)))
        x = self.node("Conv", x, weight, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4)
        ones, zeros = np.ones(outputs), np.zeros(outputs)
        x = self.node("BatchNormalization", x, *map(self.weight, (ones, zeros, zeros, ones)))
        return self.node("Relu", x) if relu else x

    def block(self, x, channels, bottleneck, stride):
        outputs = 4 * bottleneck
        y = self.unit(x, channels, bottleneck, 1)
        y = self.unit(y, bottleneck, bottleneck, 3, stride)
        y = self.unit(y, bottleneck, outputs, 1, relu=False)
        if channels != outputs or stride != 1:
            x = self.unit(x, channels, outputs, 1, stride, relu=False)
        return self.node("Relu", self.node("Add", y, x))


def model():
    g, extent = Graph(), common.IMAGE_EXTENT
    x = g.unit("x", 3, 64, 7, 2)
    x = g.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for stage, count in enumerate([3, 4, 6, 3]):
        for block in range(count):
            x = g.block(x, channels, 64 << stage, 2 if stage and not block else 1)
            channels = 256 << stage
    x = g.node("Flatten", g.node("GlobalAveragePool", x))
    weight = g.weight(g.rng.normal(0, 0.01, (channels, common.IMAGE_CLASSES)))
    y = g.node("Gemm", x, weight, g.weight(np.zeros(common.IMAGE_CLASSES)))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, extent, extent])]
    outputs = [helper.make_tensor_value_info(y, TensorProto.FLOAT, ["batch", common.IMAGE_CLASSES])]
    graph = helper.make_graph(g.nodes, "resnet50", inputs, outputs, g.weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    return made.SerializeToString()
