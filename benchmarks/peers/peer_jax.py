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


def infer():
    x, call = jnp.asarray(common.data()[:args.batch]), jax.jit(forward)
    common.inference(args, "jax", jax.__version__, lambda: call(parameters, x).block_until_ready())


{"autoencoder": train, "autoencoder-inference": infer}.get(args.workload, lambda: common.unsupported(args))()
