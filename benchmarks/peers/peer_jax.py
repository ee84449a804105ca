"""JAX. Modes: scan (a whole epoch in one jitted scan), step (one jitted step per batch)."""
import os

import common

args = common.arguments("scan", "step")
if args.threads == 1:
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
import jax
import jax.numpy as jnp
import numpy as np

parameters = [(jnp.asarray(w), jnp.asarray(b)) for w, b in common.dense_weights()]


def forward(parameters, x):
    for w, b in parameters[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = parameters[-1]
    return x @ w + b


def step(state, batch):
    parameters, averages = state
    loss, gradients = jax.value_and_grad(lambda p: jnp.sqrt(jnp.mean((forward(p, batch) - batch) ** 2)))(parameters)
    averages = jax.tree.map(lambda v, g: common.ALPHA * v + (1 - common.ALPHA) * g * g, averages, gradients)
    parameters = jax.tree.map(lambda p, g, v: p - common.LEARNING_RATE * g / (jnp.sqrt(v) + common.EPSILON),
                              parameters, gradients, averages)
    return (parameters, averages), loss


def train():
    x, rng = common.data(), np.random.default_rng(2)
    state = (parameters, jax.tree.map(jnp.zeros_like, parameters))
    if args.mode == "scan":
        rows = jnp.asarray(x)

        def scan(state, rows, order):
            state, losses = jax.lax.scan(step, state, rows[order].reshape(-1, args.batch, rows.shape[1]))
            return state, losses[-1]

        scan = jax.jit(scan, donate_argnums=0)

        def epoch():
            nonlocal state
            state, loss = scan(state, rows, rng.permutation(len(x)))
            return float(loss)
    else:
        jitted = jax.jit(step, donate_argnums=0)

        def epoch():
            nonlocal state
            shuffled = x[rng.permutation(len(x))]
            for start in range(0, len(x), args.batch):
                state, loss = jitted(state, shuffled[start:start + args.batch])
            return float(loss)

    common.epochs(args, "jax", jax.__version__, epoch)


def task():
    """The 2NN by SGD, a whole epoch in one jitted scan."""
    if args.workload != "mlp-2nn" or args.mode != "scan":
        common.unsupported(args)
    (x, y), rng = common.examples(args.workload), np.random.default_rng(2)
    rate = common.TASKS[args.workload].rate
    widths = [784, 200, 200, 10]
    state = [(jnp.asarray(rng.normal(0, (2 / i) ** 0.5, (i, o)), jnp.float32), jnp.zeros(o))
             for i, o in zip(widths, widths[1:])]

    def loss_of(parameters, x, y):
        scores = jax.nn.log_softmax(forward(parameters, x))
        return -jnp.take_along_axis(scores, y[:, None], 1).mean()

    def one(parameters, batch):
        loss, gradients = jax.value_and_grad(loss_of)(parameters, *batch)
        return jax.tree.map(lambda p, g: p - rate * g, parameters, gradients), loss

    def scan(state, x, y, order):
        order = order[:len(y) // args.batch * args.batch].reshape(-1, args.batch)
        state, losses = jax.lax.scan(one, state, (x[order], y[order]))
        return state, losses[-1]

    jitted, x, y = jax.jit(scan, donate_argnums=0), jnp.asarray(x), jnp.asarray(y)

    def epoch():
        nonlocal state
        state, loss = jitted(state, x, y, rng.permutation(len(y)))
        return float(loss)

    common.task_epochs(args, "jax", jax.__version__, epoch)


def infer():
    x, call = jnp.asarray(common.data()[:args.batch]), jax.jit(forward)
    common.inference(args, "jax", jax.__version__, lambda: call(parameters, x).block_until_ready())


own = {"autoencoder": train, "autoencoder-inference": infer, **dict.fromkeys(common.TASKS, task)}
own.get(args.workload, lambda: common.unsupported(args))()
