"""PyTorch. Modes: eager, foreach (one list operation per optimiser stage), fused (one operation per optimiser step),
nchw (eager, images not channels-last), compile (model, loss and optimiser), workers-N and batched-N (DataLoader)."""
import common

LOADERS = [f"{way}-{workers}" for way in ("workers", "batched") for workers in (0, 1, 2)]
args = common.arguments("eager", "foreach", "fused", "nchw", "compile", *LOADERS)
import torch
from torch import nn

import loader_torch
import tasks_torch

torch.set_num_threads(args.threads)
torch.set_num_interop_threads(1)
torch.manual_seed(0)


def autoencoder():
    layers = []
    for i, o in zip(common.WIDTHS, common.WIDTHS[1:]):
        layers += [nn.Linear(i, o), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def train():
    model, x = autoencoder(), torch.from_numpy(common.data())
    optimizer = torch.optim.RMSprop(model.parameters(), lr=common.LEARNING_RATE, alpha=common.ALPHA,
                                    eps=common.EPSILON, foreach=args.mode != "eager")

    def loss_of(batch):
        return torch.sqrt(nn.functional.mse_loss(model(batch), batch))

    update = optimizer.step
    if args.mode == "compile":
        loss_of, update = torch.compile(loss_of), torch.compile(optimizer.step)

    def epoch():
        shuffled = x[torch.randperm(len(x))]
        for start in range(0, len(x), args.batch):
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(shuffled[start:start + args.batch])
            loss.backward()
            update()
        return loss.item()

    common.epochs(args, "torch", torch.__version__, epoch)


@torch.inference_mode()
def infer():
    model, x = autoencoder().eval(), torch.from_numpy(common.data()[:args.batch].copy())
    if args.mode == "compile":
        model = torch.compile(model)
    common.inference(args, "torch", torch.__version__, lambda: model(x))


def gemm():
    m, n, k = args.shape
    a, b, c = torch.rand(m, k), torch.rand(k, n), torch.empty(m, n)
    common.gemm(args, "torch", torch.__version__, lambda: torch.mm(a, b, out=c))


own = {"autoencoder": train, "autoencoder-inference": infer, "gemm": gemm,
       "resnet50-inference": lambda: tasks_torch.infer(args), "pipeline": lambda: loader_torch.run(args)}
own |= {name: lambda: tasks_torch.train(args) for name in common.TASKS}
own.get(args.workload, lambda: common.unsupported(args))()
