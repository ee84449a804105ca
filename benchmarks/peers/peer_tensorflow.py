"""TensorFlow. Modes: keras-fit (as most people train), epoch-graph (a whole epoch in one tf.function)."""
import common

args = common.arguments("keras-fit", "epoch-graph")
import keras
import numpy as np
import tensorflow as tf

import models_keras

tf.config.threading.set_intra_op_parallelism_threads(args.threads)
tf.config.threading.set_inter_op_parallelism_threads(args.threads)
keras.utils.set_random_seed(0)
model = models_keras.make(args.workload)


def rmse(target, output):
    return tf.sqrt(tf.reduce_mean(tf.square(output - target)))


def train():
    x = common.data()
    optimizer = keras.optimizers.RMSprop(common.LEARNING_RATE, rho=common.ALPHA, epsilon=common.EPSILON)
    if args.mode == "keras-fit":
        model.compile(optimizer, rmse)

        def epoch():
            return model.fit(x, x, batch_size=args.batch, shuffle=True, verbose=0).history["loss"][-1]
    else:
        optimizer.build(model.trainable_variables)
        rows, rng = tf.constant(x), np.random.default_rng(2)

        @tf.function
        def graph(order):
            shuffled, loss = tf.gather(rows, order), 0.0
            for i in tf.range(len(x) // args.batch):
                batch = shuffled[i * args.batch:(i + 1) * args.batch]
                with tf.GradientTape() as tape:
                    loss = rmse(batch, model(batch, training=True))
                gradients = tape.gradient(loss, model.trainable_variables)
                optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            return loss

        def epoch():
            return float(graph(tf.constant(rng.permutation(len(x)).astype(np.int32))))

    common.epochs(args, "tensorflow", tf.__version__, epoch)


def task():
    """SGD on a task, a whole epoch in one graph."""
    if args.mode != "epoch-graph":
        common.unsupported(args)
    settings, rng = common.TASKS[args.workload], np.random.default_rng(2)
    x, y = map(tf.constant, common.examples(args.workload))
    optimizer = keras.optimizers.SGD(settings.rate, settings.momentum)
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def graph(order):
        loss = 0.0
        for i in tf.range(settings.rows // args.batch):
            rows = order[i * args.batch:(i + 1) * args.batch]
            with tf.GradientTape() as tape:
                loss = loss_of(tf.gather(y, rows), model(tf.gather(x, rows), training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    def epoch():
        return float(graph(tf.constant(rng.permutation(settings.rows).astype(np.int32))))

    common.task_epochs(args, "tensorflow", tf.__version__, epoch)


def infer():
    images = args.workload == "resnet50-inference"
    x = tf.constant(common.images(args.batch) if images else common.data()[:args.batch])
    call = tf.function(lambda batch: model(batch, training=False))
    common.inference(args, "tensorflow", tf.__version__, lambda: call(x).numpy())


own = {"autoencoder": train, "autoencoder-inference": infer, "resnet50-inference": infer,
       **dict.fromkeys(common.TASKS, task)}
own.get(args.workload, lambda: common.unsupported(args))()
