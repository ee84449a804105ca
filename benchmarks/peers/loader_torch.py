"""Shuffled batches from PyTorch's DataLoader over memory-mapped .npy files.

Modes: workers-N, row by row, as most people load; batched-N, a whole batch per access, which is the fastest way that the
DataLoader offers. N is the number of worker processes.
"""
import os

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

import common


class Rows(Dataset):
    """Values and label of one row, or of a list of rows."""

    def __init__(self, directory):
        self.values = np.load(directory / "values.npy", mmap_mode="r")
        self.labels = np.load(directory / "labels.npy", mmap_mode="r")

    def __len__(self):
        return len(self.values)

    def __getitem__(self, rows):
        return torch.as_tensor(self.values[rows]), torch.as_tensor(self.labels[rows])


def run(args):
    # Workers are processes of their own and may use every processor.
    os.sched_setaffinity(0, range(os.cpu_count()))
    way, workers = args.mode.split("-")
    data, settings = Rows(args.data), dict(num_workers=int(workers), persistent_workers=workers != "0")
    if way == "batched":
        batches = BatchSampler(RandomSampler(data), args.batch, drop_last=False)
        loader = DataLoader(data, sampler=batches, batch_size=None, **settings)
    else:
        loader = DataLoader(data, batch_size=args.batch, shuffle=True, **settings)

    def epoch():
        seen, total = 0, 0.0
        for values, labels in loader:
            seen += len(labels)
            total += values[0, 0].item()
        if seen != len(data):
            raise SystemExit(f"{seen} rows of {len(data)}")
        return total * 0.0

    common.epochs(args, "torch", torch.__version__, epoch, rows=len(data), learned=1.0)
