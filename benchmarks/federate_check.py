"""Holds Synod's federated strategies against Flower's own, and where Flower has none against numpy.

Usage: peers/install.sh flower, then .venv-flower/bin/python federate_check.py
Prints the largest difference per strategy, and fails if one exceeds 1e-6 of the weights' scale.
"""

import json
import logging
import os
import pathlib
import subprocess
import sys

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import strategy as flower
from flwr.supercore.task_identity import TaskIdentity

logging.disable(logging.CRITICAL)
# Messages want to know whose task they belong to, and here there is none.
TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1
HERE = pathlib.Path(__file__).resolve().parent
TOLERANCE = 1e-6
SHAPES = [(7, 5), (5,), (5, 3), (3,)]
SIZE = sum(int(np.prod(s)) for s in SHAPES)


def arrays(flat):
    """A flat vector as Flower's record of tensors."""
    record, at = {}, 0
    for i, shape in enumerate(SHAPES):
        n = int(np.prod(shape))
        record[f"t{i}"] = Array(flat[at:at + n].reshape(shape).copy())
        at += n
    return ArrayRecord(record)


def flat(record):
    return np.concatenate([a.numpy().ravel() for a in record.values()])


def reply(weights, update):
    metrics = MetricRecord({"num-examples": update["samples"], "train_loss": update["loss"]})
    content = RecordDict({"arrays": arrays(weights + update["delta"]), "metrics": metrics})
    return Message(content, dst_node_id=1, message_type="train")


def by_flower(strategy, weights, rounds):
    """The weights after Flower has aggregated every round's updates, each on top of the weights of its round."""
    weights = weights.copy()
    for number, updates in enumerate(rounds, 1):
        strategy.current_arrays = arrays(weights) if not isinstance(strategy, flower.FedAvgM) or number == 1 \
            else strategy.current_arrays
        if isinstance(strategy, (flower.FedAdam, flower.FedYogi, flower.FedAdagrad)):
            strategy.current_arrays = {k: v.numpy() for k, v in arrays(weights).items()}
        record, _ = strategy.aggregate_train(number, [reply(weights, u) for u in updates])
        weights = flat(record).astype(np.float32)
    return weights


def softmax_gradient(weights, x, y, classes):
    width = x.shape[1]
    w, b = weights[:width * classes].reshape(width, classes), weights[width * classes:]
    z = x @ w + b
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    loss = -np.log(p[np.arange(len(y)), y]).mean()
    p[np.arange(len(y)), y] -= 1
    p /= len(y)
    return loss, np.concatenate([(x.T @ p).ravel(), p.sum(0)])


def by_numpy(name, setting, weights, x, y, rows, classes, rate, epochs, rounds):
    """Whole federations in double precision: clients take full-batch steps, all take part in every round."""
    weights = weights.astype(np.float64)
    server, own = np.zeros_like(weights), [np.zeros_like(weights) for _ in rows]
    samples = np.array([len(r) for r in rows], np.float64)
    share = samples / samples.sum()
    for _ in range(rounds):
        deltas, losses, changes, steps = [], [], [], []
        for k, r in enumerate(rows):
            now = weights.copy()
            losses.append(softmax_gradient(now, x[r], y[r], classes)[0])
            for _ in range(epochs):
                g = softmax_gradient(now, x[r], y[r], classes)[1]
                if name == "fedprox":
                    g = g + setting * (now - weights)
                if name == "scaffold":
                    g = g - own[k] + server
                now = now - rate * g
            deltas.append(now - weights)
            steps.append(epochs)
            if name == "scaffold":
                fresh = own[k] - server - deltas[-1] / (epochs * rate)
                changes.append(fresh - own[k])
                own[k] = fresh
        if name in ("fedprox", "scaffold"):
            weights = weights + sum(p * d for p, d in zip(share, deltas))
        if name == "scaffold":
            server = server + sum(p * c for p, c in zip(share, changes))
        if name == "fednova":
            effective = sum(p * t for p, t in zip(share, steps))
            weights = weights + effective * sum(p * d / t for p, d, t in zip(share, deltas, steps))
        if name == "q-fedavg":
            lipschitz = 1 / rate
            top, bottom = 0, 0
            for d, f in zip(deltas, losses):
                f += 1e-10
                top = top + f ** setting * lipschitz * d
                bottom += setting * f ** (setting - 1) * (lipschitz ** 2) * (d @ d) + lipschitz * f ** setting
            weights = weights + top / bottom
    return weights


def nova_rounds(weights, rounds):
    """FedNova of given updates with unequal steps."""
    weights = weights.astype(np.float64)
    for updates in rounds:
        total = sum(u["samples"] for u in updates)
        effective = sum(u["samples"] / total * u["steps"] for u in updates)
        weights = weights + effective * sum(u["samples"] / total * u["delta"] / u["steps"] for u in updates)
    return weights


def main():
    rng = np.random.default_rng(7)
    weights = rng.normal(size=SIZE).astype(np.float32)

    def updates(count):
        return [dict(samples=int(rng.integers(1, 500)), loss=float(rng.uniform(0.1, 3)), steps=int(rng.integers(1, 9)),
                     delta=(0.3 * rng.normal(size=SIZE)).astype(np.float32)) for _ in range(count)]

    rounds = [updates(11) for _ in range(4)]
    calm = dict(min_train_nodes=1, min_available_nodes=1)
    pairs = [
        ("fedavg", {"kind": "fedavg"}, flower.FedAvg(**calm)),
        ("fedavgm", {"kind": "fedavgm", "rate": 0.7, "momentum": 0.8},
         flower.FedAvgM(**calm, server_learning_rate=0.7, server_momentum=0.8)),
        ("fedadagrad", {"kind": "fedadagrad", "rate": 0.1, "tau": 1e-3}, flower.FedAdagrad(**calm, eta=0.1, tau=1e-3)),
        ("fedadam", {"kind": "fedadam", "rate": 0.05, "beta1": 0.9, "beta2": 0.99, "tau": 1e-3},
         flower.FedAdam(**calm, eta=0.05, beta_1=0.9, beta_2=0.99, tau=1e-3)),
        ("fedyogi", {"kind": "fedyogi", "rate": 0.05, "beta1": 0.9, "beta2": 0.99, "tau": 1e-3},
         flower.FedYogi(**calm, eta=0.05, beta_1=0.9, beta_2=0.99, tau=1e-3)),
        ("median", {"kind": "median"}, flower.FedMedian(**calm)),
        ("trimmed-mean", {"kind": "trimmed-mean", "cut": 0.2}, flower.FedTrimmedAvg(**calm, beta=0.2)),
        ("krum", {"kind": "krum", "malicious": 2}, flower.Krum(**calm, num_malicious_nodes=2)),
        ("multi-krum", {"kind": "multi-krum", "malicious": 2, "keep": 5},
         flower.MultiKrum(**calm, num_malicious_nodes=2, num_nodes_to_select=5)),
        ("bulyan", {"kind": "bulyan", "malicious": 2}, flower.Bulyan(**calm, num_malicious_nodes=2)),
        ("q-fedavg", {"kind": "q-fedavg", "q": 0.3}, flower.QFedAvg(**calm, q=0.3, client_learning_rate=0.1)),
    ]
    tasks, expected, names = [], [], []
    plain = [[dict(u, delta=u["delta"].tolist()) for u in r] for r in rounds]
    for name, choice, strategy in pairs:
        tasks.append(dict(strategy=choice, rate=0.1, weights=weights.tolist(), population=20, rounds=plain))
        expected.append(by_flower(strategy, weights, rounds))
        names.append((name, "Flower"))
    tasks.append(dict(strategy="fednova", rate=0.1, weights=weights.tolist(), population=20, rounds=plain))
    expected.append(nova_rounds(weights, rounds))
    names.append(("fednova, given updates", "numpy"))

    width, classes, n = 12, 4, 180
    x = rng.normal(size=(n, width)).astype(np.float32)
    y = rng.integers(0, classes, n)
    order = np.argsort(y + rng.uniform(0, 1.5, n))
    rows = [order[:40], order[40:75], order[75:140], order[140:]]
    start = (0.1 * rng.normal(size=width * classes + classes)).astype(np.float32)
    for name, setting, choice in [("fedprox", 0.4, {"kind": "fedprox", "mu": 0.4}), ("scaffold", None, {"kind": "scaffold"}),
                                  ("fednova", None, {"kind": "fednova"}), ("q-fedavg", 0.3, {"kind": "q-fedavg", "q": 0.3})]:
        task = dict(strategy=choice, rate=0.2, epochs=5, rounds=6, width=width, classes=classes, weights=start.tolist(),
                    inputs=x.ravel().tolist(), labels=y.tolist(), rows=[r.tolist() for r in rows])
        tasks.append(task)
        expected.append(by_numpy(name, setting, start, x.astype(np.float64), y, rows, classes, 0.2, 5, 6))
        names.append((f"{name}, whole federation", "numpy"))

    subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "synod-benchmarks"], cwd=HERE, check=True)
    metadata = subprocess.run(["cargo", "metadata", "--format-version", "1", "--no-deps"], cwd=HERE, check=True, capture_output=True)
    binary = pathlib.Path(json.loads(metadata.stdout)["target_directory"]) / "release" / "synod-benchmarks"
    answer = subprocess.run([binary, "federate-check"], input=json.dumps(tasks), capture_output=True, text=True)
    if answer.returncode:
        sys.exit(answer.stderr)
    failed = False
    for (name, oracle), ours, theirs in zip(names, json.loads(answer.stdout), expected):
        apart = float(np.abs(np.array(ours) - theirs).max() / max(1.0, np.abs(theirs).max()))
        failed |= not apart <= TOLERANCE
        print(f"{name:26} against {oracle:6} {apart:.1e}{'' if apart <= TOLERANCE else '  TOO FAR'}")
    sys.exit(failed)


main()
