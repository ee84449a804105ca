"""Rounds of federated averaging by Flower's own simulation, on the clients and the network of `synod-benchmarks federation`.

Usage: PYTHONPATH=.venv-torch/lib/python3.X/site-packages .venv-flower/bin/python peers/peer_flower.py
       [--clients 10] [--rows 10120] [--rounds 2] [--steps N] [--none]
One JSON line: the median round after the first, and what it costs per client. With --none clients send back what they got.
"""

import argparse
import json
import os
import statistics
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("--clients", type=int, default=10)
parser.add_argument("--rows", type=int, default=10120)
parser.add_argument("--rounds", type=int, default=2)
parser.add_argument("--steps", type=int)
parser.add_argument("--none", action="store_true")
args = parser.parse_args()

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0",
                  CUDA_VISIBLE_DEVICES="")
import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

WIDTHS = [460, 80, 60, 40, 20, 40, 60, 80, 100, 460]
BATCH = 10
folder = tempfile.mkdtemp()
for client in range(args.clients):
    rows = np.random.default_rng(client).random((args.rows, WIDTHS[0]), dtype=np.float32)
    np.save(f"{folder}/{client}.npy", rows)


def network():
    from torch import nn
    layers = []
    for before, after in zip(WIDTHS, WIDTHS[1:]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def fit(weights, rows):
    import torch
    torch.set_num_threads(1)
    model = network()
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), weights):
            parameter.copy_(torch.from_numpy(value.copy()))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-6, alpha=0.99, eps=1e-8)
    inputs = torch.from_numpy(rows)[torch.randperm(len(rows))]
    batches = inputs.split(BATCH)
    for batch in batches[:args.steps]:
        optimizer.zero_grad()
        torch.sqrt(torch.nn.functional.mse_loss(model(batch), batch)).backward()
        optimizer.step()
    return [p.detach().numpy() for p in model.parameters()]


client_app = ClientApp()


@client_app.train()
def train(message: Message, context: Context):
    weights = message.content["arrays"].to_numpy_ndarrays()
    rows = np.load(f"{folder}/{context.node_config['partition-id']}.npy")
    if not args.none:
        weights = fit(weights, rows)
    metrics = MetricRecord({"num-examples": len(rows)})
    return Message(RecordDict({"arrays": ArrayRecord(weights), "metrics": metrics}), reply_to=message)


times = []


class Timed(FedAvg):
    def configure_train(self, *given):
        self.begun = time.perf_counter()
        return super().configure_train(*given)

    def aggregate_train(self, number, replies):
        aggregated = super().aggregate_train(number, list(replies))
        times.append(time.perf_counter() - self.begun)
        return aggregated


server_app = ServerApp()


@server_app.main()
def main(grid: Grid, context: Context):
    rng = np.random.default_rng(0)
    weights = []
    for before, after in zip(WIDTHS, WIDTHS[1:]):
        weights += [rng.normal(0, (2 / before) ** 0.5, (after, before)).astype(np.float32), np.zeros(after, np.float32)]
    everyone = dict(min_train_nodes=args.clients, min_available_nodes=args.clients, min_evaluate_nodes=0)
    strategy = Timed(fraction_train=1.0, fraction_evaluate=0.0, **everyone)
    strategy.start(grid=grid, initial_arrays=ArrayRecord(weights), num_rounds=args.rounds)


ray = {"num_cpus": 2, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
begun = time.perf_counter()
run_simulation(server_app, client_app, num_supernodes=args.clients,
               backend_config={"client_resources": {"num_cpus": 1.0, "num_gpus": 0.0}, "init_args": ray})
total = time.perf_counter() - begun
later = times[1:] or times
print(json.dumps({"workload": "federation", "impl": "flower-none" if args.none else "flower-torch", "clients": args.clients,
                  "rows": args.rows, "steps": args.steps, "rounds": args.rounds, "first_round_s": times[0],
                  "round_s": statistics.median(later), "per_client_s": statistics.median(later) / args.clients,
                  "total_s": total}), flush=True)
