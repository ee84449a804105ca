"""Compare two safetensors files: relative L2 difference per tensor; exit 1 if any is above --tolerance."""
import argparse
import sys

import numpy as np
from safetensors.numpy import load_file


def difference(a, b):
    if a.shape != b.shape:
        return float("inf")
    a, b = a.astype(np.float64), b.astype(np.float64)
    return np.linalg.norm(a - b) / max(np.linalg.norm(b), np.finfo(np.float32).tiny)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("a")
    parser.add_argument("b", help="the reference")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    args = parser.parse_args()
    a, b = load_file(args.a), load_file(args.b)
    reached = bool(b)
    for name in sorted(a.keys() | b.keys()):
        if name not in a or name not in b:
            print(f"{name:20} only in {args.a if name in a else args.b}")
            reached = False
            continue
        relative = difference(a[name], b[name])
        close = bool(relative <= args.tolerance)  # false for NaN as well
        print(f"{name:20} {relative:.3e}{'' if close else '  above tolerance'}")
        reached &= close
    sys.exit(not reached)


main()
