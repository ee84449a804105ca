"""What every rival's script shares: the command line, pinning, the workload, timing and the one JSON line printed.

Import this before the framework: thread counts are read from the environment when a framework loads.
"""
import argparse
import json
import os
import resource
import statistics
import time
from pathlib import Path

WIDTHS = [460, 80, 60, 40, 20, 40, 60, 80, 100, 460]
ROWS, BATCH = 10_120, 10
LEARNING_RATE, ALPHA, EPSILON = 1e-4, 0.9, 1e-7
CHARACTERS, CHARACTER_TIMES = 90, 80  # the character model: vocabulary and length
IMAGE_EXTENT, IMAGE_CLASSES = 224, 1000  # ResNet-50
LEARNED = 0.35  # RMSE of the data's mean is 0.289, of an output of zeros 0.577
SAMPLE_SECONDS = 0.5  # one repetition of a short operation repeats it for about this long


class Task:
    """A model trained by SGD on random examples: how many make an epoch, and the rate and momentum."""

    def __init__(self, rows, batch, rate, momentum=0.0):
        self.rows, self.batch, self.rate, self.momentum = rows, batch, rate, momentum


TASKS = {
    "mlp-2nn": Task(10_000, 10, 0.05),
    "cnn-mnist": Task(1_000, 10, 0.05),
    "char-lstm": Task(100, 10, 0.5),
    "resnet50-train": Task(8, 8, 0.01, 0.9),
}


def arguments(*modes):
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=["autoencoder", "autoencoder-inference", "gemm", *TASKS,
                                             "resnet50-inference", "record-scan", "pipeline"])
    parser.add_argument("shape", nargs="*", type=int, metavar="M N K")
    parser.add_argument("--mode", choices=modes, default=modes[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--data", type=Path, help="where `synod-benchmarks make-records` wrote its files")
    args = parser.parse_args()
    usual = TASKS[args.workload].batch if args.workload in TASKS else BATCH
    args.batch = args.batch or (1 if args.workload.endswith("-inference") else usual)
    if args.workload in ("record-scan", "pipeline") and args.data is None:
        parser.error(f"{args.workload} needs --data")
    if args.workload == "gemm" and len(args.shape) != 3:
        parser.error("gemm needs M N K")
    for name in ("OMP", "MKL", "OPENBLAS", "TF_INTRA_OP", "TF_INTER_OP", "RAYON"):
        os.environ[f"{name}_NUM_THREADS"] = str(args.threads)
    os.environ.update(CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3", GLOG_v="3", KERAS_BACKEND="tensorflow")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:args.threads])
    return args


def data():
    import numpy as np
    return np.random.default_rng(0).random((ROWS, WIDTHS[0]), dtype=np.float32)


def examples(workload):
    """Inputs and class indices of a task; images are [rows, height, width, channels]."""
    import numpy as np
    rng, rows = np.random.default_rng(0), TASKS[workload].rows
    if workload == "char-lstm":
        x, y = rng.integers(CHARACTERS, size=(2, rows, CHARACTER_TIMES), dtype=np.int32)
        return x, y
    shape, classes = {
        "mlp-2nn": ([784], 10),
        "cnn-mnist": ([28, 28, 1], 10),
        "resnet50-train": ([IMAGE_EXTENT, IMAGE_EXTENT, 3], IMAGE_CLASSES),
    }[workload]
    return rng.random((rows, *shape), dtype=np.float32), rng.integers(classes, size=rows, dtype=np.int32)


def images(batch):
    """What ResNet-50 is shown, [batch, height, width, channels]."""
    import numpy as np
    return np.random.default_rng(0).random((batch, IMAGE_EXTENT, IMAGE_EXTENT, 3), dtype=np.float32)


def dense_weights():
    """He-initialised (weight [in, out], bias) of each layer."""
    import numpy as np
    rng = np.random.default_rng(1)
    return [(rng.normal(0, (2 / i) ** 0.5, (i, o)).astype(np.float32), np.zeros(o, np.float32))
            for i, o in zip(WIDTHS, WIDTHS[1:])]


def unsupported(args):
    raise SystemExit(f"this rival has no {args.workload} in mode {args.mode}")


def epochs(args, peer, version, epoch, rows=ROWS, learned=LEARNED):
    """Time `epoch()`, which must return the last loss: reading it proves that the work was done."""
    epoch(), epoch()
    seconds = []
    for _ in range(args.reps):
        start = time.perf_counter()
        loss = epoch()
        seconds.append(time.perf_counter() - start)
    if not loss < learned:
        raise SystemExit(f"{peer} did not learn: loss {loss}")
    report(args, peer, version, seconds, samples=rows // args.batch * args.batch)


def task_epochs(args, peer, version, epoch):
    """The same for one of the tasks, whose labels are random: the loss has to stay a number."""
    epochs(args, peer, version, epoch, TASKS[args.workload].rows, float("inf"))


def calls(args, peer, version, call, **work):
    """Time a short `call()`; the seconds reported are those of a single call."""
    for _ in range(5):
        call()
    start = time.perf_counter()
    for _ in range(3):
        call()
    count = max(3, int(SAMPLE_SECONDS * 3 / (time.perf_counter() - start)))
    seconds = []
    for _ in range(args.reps):
        start = time.perf_counter()
        for _ in range(count):
            call()
        seconds.append((time.perf_counter() - start) / count)
    report(args, peer, version, seconds, **work)


def inference(args, peer, version, call):
    calls(args, peer, version, call, samples=args.batch)


def gemm(args, peer, version, call):
    m, n, k = args.shape
    calls(args, peer, version, call, flops=2 * m * n * k)


def peak_memory():
    """The most memory this process ever had resident, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def report(args, peer, version, seconds, samples=None, flops=None, more=None):
    median = statistics.median(seconds)
    print(json.dumps({
        "workload": args.workload, "peer": peer, "mode": args.mode, "version": version, "threads": args.threads,
        "seconds": seconds, "median": median,
        "samples_per_second": samples and samples / median, "gflops": flops and flops / median / 1e9,
        "peak_memory_mb": peak_memory(), **(more or {}),
    }), flush=True)
