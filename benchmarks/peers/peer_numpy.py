"""NumPy, whose wheels multiply with OpenBLAS. Mode: openblas."""
import common

args = common.arguments("openblas")
import numpy as np


def gemm():
    m, n, k = args.shape
    rng = np.random.default_rng(0)
    a, b = rng.random((m, k), dtype=np.float32), rng.random((k, n), dtype=np.float32)
    c = np.empty((m, n), np.float32)
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    version = f"{np.__version__} ({blas['name']} {blas['version']})"
    common.gemm(args, "numpy", version, lambda: np.matmul(a, b, out=c))


{"gemm": gemm}.get(args.workload, lambda: common.unsupported(args))()
