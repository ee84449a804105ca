"""Holds Synod's evaluation against scikit-learn and the authors' public VUS code.

Usage: peers/install.sh evaluate, then
       .venv-evaluate/bin/python evaluate_check.py [DIRECTORY]
DIRECTORY holds Parquet files with a `label` column (the SMD test files, say); their labels join the random ones.
Prints the largest difference per figure, and fails if one exceeds its tolerance.
"""

import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from sklearn import metrics

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCE = 1e-9


def public_vus():
    """The module with the public VUS code, without its package: that one imports PyTorch."""
    package = pathlib.Path(importlib.util.find_spec("TSB_AD").submodule_search_locations[0])
    spec = importlib.util.spec_from_file_location("vus", package / "evaluation" / "basic_metrics.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def binary():
    """The path of the example, built."""
    command = ["cargo", "build", "-p", "synod-evaluate", "--example", "evaluate_csv",
               "--message-format", "json"]
    lines = subprocess.run(command, cwd=HERE, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    built = [json.loads(line) for line in lines]
    return next(b["executable"] for b in built if b.get("executable") and b["target"]["name"] == "evaluate_csv")


def random_labels(rng, n):
    labels = np.zeros(n, dtype=int)
    for _ in range(rng.integers(1, 9)):
        start = rng.integers(0, n)
        labels[start:start + rng.integers(1, max(2, n // 12))] = 1
    labels[rng.integers(0, n)] = 0
    return labels


def cases(directory):
    """Name, labels, scores and VUS window; scores are 32-bit, with and without ties."""
    rng = np.random.default_rng(7)
    for i in range(14):
        n = int(rng.integers(40, 3000))
        labels = random_labels(rng, n)
        scores = rng.normal(size=n) + labels * rng.uniform(-0.5, 2.5)
        if i % 2:
            scores = np.round(scores * rng.integers(1, 8))
        yield f"random {i} ({n} windows)", labels, scores, int(rng.integers(0, 60))
    if directory:
        import pyarrow.parquet as parquet
        for path in sorted(pathlib.Path(directory).glob("*.parquet")):
            labels = parquet.read_table(path, columns=["label"])["label"].to_numpy()
            labels = (labels > 0).astype(int)
            smooth = np.convolve(rng.normal(size=len(labels)), np.ones(9) / 9, "same")
            yield path.stem, labels, smooth + 0.4 * labels, 20


def expected(vus, labels, scores, alarms, window):
    precision, recall, _ = metrics.precision_recall_curve(labels, scores)
    total = precision + recall
    best = np.max(np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0))
    tn, fp, fn, tp = metrics.confusion_matrix(labels, alarms, labels=[0, 1]).ravel()
    return {
        "auroc": metrics.roc_auc_score(labels, scores),
        "ap": metrics.average_precision_score(labels, scores),
        "vus_pr": vus.generate_curve(labels, scores, window)[-1],
        "best_f1": best,
        "f1": metrics.f1_score(labels, alarms),
        "precision": metrics.precision_score(labels, alarms),
        "recall": metrics.recall_score(labels, alarms),
        "tnr": tn / (tn + fp),
        "fpr": fp / (tn + fp),
        "fnr": fn / (fn + tp),
    }


def main():
    vus, program = public_vus(), binary()
    worst, slowest, count = {}, 0.0, 0
    for name, labels, scores, window in cases(sys.argv[1] if len(sys.argv) > 1 else None):
        scores = scores.astype(np.float32)
        alarms = (scores > np.quantile(scores, 0.95)).astype(int)
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            for row in zip(scores, alarms, labels):
                file.write(f"{row[0]!s},{row[1]},{row[2]}\n")
            file.flush()
            printed = subprocess.run([program, file.name, "60", str(window)], check=True, stdout=subprocess.PIPE)
        ours = json.loads(printed.stdout)
        differences = {k: abs(ours[k] - v) for k, v in expected(vus, labels, scores, alarms, window).items()}
        for key, difference in differences.items():
            worst[key] = max(worst.get(key, 0.0), difference)
        slowest, count = max(slowest, ours["evaluate_seconds"]), count + 1
        print(f"{name}, window {window}: largest difference {max(differences.values()):.1e}", flush=True)
    print(f"\n{count} cases; slowest evaluation {slowest * 1e3:.1f} ms")
    for key, difference in worst.items():
        print(f"{key:12} {difference:.1e}")
    sys.exit(max(worst.values()) > TOLERANCE)


if __name__ == "__main__":
    main()
