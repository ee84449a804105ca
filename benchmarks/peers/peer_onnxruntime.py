"""ONNX Runtime. Mode: cpu."""
import common

args = common.arguments("cpu")
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import resnet_graph


def model():
    nodes, weights, value = [], [], "x"
    layers = common.dense_weights()
    for i, (w, b) in enumerate(layers):
        weights += [numpy_helper.from_array(w, f"w{i}"), numpy_helper.from_array(b, f"b{i}")]
        nodes.append(helper.make_node("Gemm", [value, f"w{i}", f"b{i}"], [f"z{i}"]))
        value = f"z{i}"
        if i < len(layers) - 1:
            nodes.append(helper.make_node("Relu", [value], [f"a{i}"]))
            value = f"a{i}"
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", common.WIDTHS[0]]) for name in ("x", value)]
    graph = helper.make_graph(nodes, "autoencoder", info[:1], info[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10).SerializeToString()


def infer():
    images = args.workload == "resnet50-inference"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = args.threads, 1
    made = resnet_graph.model() if images else model()
    session = onnxruntime.InferenceSession(made, options, providers=["CPUExecutionProvider"])
    x = common.images(args.batch).transpose(0, 3, 1, 2) if images else common.data()[:args.batch]
    feed = {"x": np.array(x, order="C")}
    common.inference(args, "onnxruntime", onnxruntime.__version__, lambda: session.run(None, feed))


{"autoencoder-inference": infer, "resnet50-inference": infer}.get(args.workload, lambda: common.unsupported(args))()
