"""What every rival's script shares: the command line, pinning, the workload, timing and the one JSON line printed.

Import this before the framework: thread counts are read from the environment when a framework loads.
"""
import argparse
import json
import os
import statistics
import time

WIDTHS = [460, 80, 60, 40, 20, 40, 60, 80, 100, 460]
ROWS, BATCH = 10_120, 10
LEARNING_RATE, ALPHA, EPSILON = 1e-4, 0.9, 1e-7
CHARACTERS, CHARACTER_TIMES = 90, 80  # the character model: vocabulary and length
LEARNED = 0.35  # RMSE of the data's mean is 0.289, of an output of zeros 0.577
SAMPLE_SECONDS = 0.5  # one repetition of a short operation repeats it for about this long


def arguments(*modes):
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=["autoencoder", "autoencoder-inference", "gemm"])
    parser.add_argument("shape", nargs="*", type=int, metavar="M N K")
    parser.add_argument("--mode", choices=modes, default=modes[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--reps", type=int, default=5)
    args = parser.parse_args()
    args.batch = args.batch or (1 if args.workload == "autoencoder-inference" else BATCH)
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


def dense_weights():
    """He-initialised (weight [in, out], bias) of each layer."""
    import numpy as np
    rng = np.random.default_rng(1)
    return [(rng.normal(0, (2 / i) ** 0.5, (i, o)).astype(np.float32), np.zeros(o, np.float32))
            for i, o in zip(WIDTHS, WIDTHS[1:])]


def unsupported(args):
    raise SystemExit(f"this rival has no {args.workload} in mode {args.mode}")


def epochs(args, peer, version, epoch):
    """Time `epoch()`, which must return the last loss: reading it proves that the work was done."""
    epoch(), epoch()
    seconds = []
    for _ in range(args.reps):
        start = time.perf_counter()
        loss = epoch()
        seconds.append(time.perf_counter() - start)
    if not loss < LEARNED:
        raise SystemExit(f"{peer} did not learn: loss {loss}")
    report(args, peer, version, seconds, samples=ROWS // args.batch * args.batch)


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


def report(args, peer, version, seconds, samples=None, flops=None):
    median = statistics.median(seconds)
    print(json.dumps({
        "workload": args.workload, "peer": peer, "mode": args.mode, "version": version, "threads": args.threads,
        "seconds": seconds, "median": median,
        "samples_per_second": samples and samples / median, "gflops": flops and flops / median / 1e9,
    }), flush=True)
