"""Compare two safetensors files tensor by tensor: ||a - b|| / ||b||. Exits with 1 if any is above the tolerance."""
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
    parser.add_argument("--start", help="where both began: a reference equal to it has learnt nothing")
    parser.add_argument("--updates", action="store_true", help="compare what changed since the start, not where it ended")
    parser.add_argument("--worst", type=int, help="show only so many tensors, the worst")
    args = parser.parse_args()
    a, b = load_file(args.a), load_file(args.b)
    start = load_file(args.start) if args.start else {}
    if args.updates and not start:
        parser.error("--updates needs --start")
    reached, found = bool(b), []
    for name in sorted(a.keys() | b.keys()):
        if name not in a or name not in b:
            print(f"{name:42} only in {args.a if name in a else args.b}")
            reached = False
            continue
        since = start[name] if args.updates else 0
        found.append((difference(a[name] - since, b[name] - since), name))
    if args.start:
        still = [name for _, name in found if np.array_equal(start[name], b[name])]
        reached &= not still
        for name in still:
            print(f"{name:42} did not change, so it proves nothing")
    shown = found
    if args.worst is not None:
        shown = sorted(found, key=lambda pair: -np.nan_to_num(pair[0], nan=np.inf))[:args.worst]
    for relative, name in shown:
        print(f"{name:42} {relative:.3e}{'' if relative <= args.tolerance else '  above tolerance'}")
    above = sum(not relative <= args.tolerance for relative, _ in found)  # true for NaN as well
    if args.worst is not None:
        print(f"{len(found)} tensors, {above} above {args.tolerance:g}")
    sys.exit(not reached or above > 0)


main()
