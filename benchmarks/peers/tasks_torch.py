"""The zoo's models at work in PyTorch. Images are channels-last, except in mode nchw."""
import torch
import torch.nn.functional as F

import common
import models_torch as models

MODELS = {
    "mlp-2nn": lambda: models.mlp([784, 200, 200, 10]),
    "cnn-mnist": models.Cnn,
    "char-lstm": models.CharLstm,
    "resnet50-train": models.Resnet50,
    "resnet50-inference": models.Resnet50,
}


def prepared(args, x):
    """The model, and the inputs as it takes them, both in the memory format of the mode."""
    model = MODELS[args.workload]()
    if x.dim() == 4:
        x = x.permute(0, 3, 1, 2)
        if args.mode == "nchw":
            x = x.contiguous()
        else:
            model = model.to(memory_format=torch.channels_last)
    return model, x


def cross_entropy(output, target):
    return F.cross_entropy(output.flatten(0, -2), target.flatten())


def train(args):
    task = common.TASKS[args.workload]
    x, y = map(torch.from_numpy, common.examples(args.workload))
    model, x = prepared(args, x)
    y = y.long()
    learnt = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(learnt, task.rate, task.momentum, foreach=args.mode == "foreach",
                                fused=args.mode == "fused")

    def loss_of(x, y):
        return cross_entropy(model(x), y)

    update = optimizer.step
    if args.mode == "compile":
        loss_of, update = torch.compile(loss_of), torch.compile(optimizer.step)

    def epoch():
        order = torch.randperm(len(x))
        for start in range(0, len(x) - args.batch + 1, args.batch):
            rows = order[start:start + args.batch]
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(x[rows], y[rows])
            loss.backward()
            update()
        return loss.item()

    common.task_epochs(args, "torch", torch.__version__, epoch)


@torch.inference_mode()
def infer(args):
    model, x = prepared(args, torch.from_numpy(common.images(args.batch)))
    model.eval()
    if args.mode == "compile":
        model = torch.compile(model)
    common.inference(args, "torch", torch.__version__, lambda: model(x))
