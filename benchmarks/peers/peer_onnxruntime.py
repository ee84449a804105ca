"""ONNX Runtime. Mode: cpu."""
import common

args = common.arguments("cpu")
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


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
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = args.threads, 1
    session = onnxruntime.InferenceSession(model(), options, providers=["CPUExecutionProvider"])
    feed = {"x": common.data()[:args.batch].copy()}
    common.inference(args, "onnxruntime", onnxruntime.__version__, lambda: session.run(None, feed))


{"autoencoder-inference": infer}.get(args.workload, lambda: common.unsupported(args))()
