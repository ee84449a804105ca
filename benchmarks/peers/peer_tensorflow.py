"""TensorFlow. Modes: keras-fit (as most people train), epoch-graph (a whole epoch in one tf.function)."""
import common

args = common.arguments("keras-fit", "epoch-graph")
import keras
import numpy as np
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(args.threads)
tf.config.threading.set_inter_op_parallelism_threads(args.threads)
keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((common.WIDTHS[0],)),
                          *(keras.layers.Dense(width, activation="relu") for width in common.WIDTHS[1:-1]),
                          keras.layers.Dense(common.WIDTHS[-1])])


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


def infer():
    x = tf.constant(common.data()[:args.batch])
    call = tf.function(lambda batch: model(batch, training=False))
    common.inference(args, "tensorflow", tf.__version__, lambda: call(x).numpy())


{"autoencoder": train, "autoencoder-inference": infer}.get(args.workload, lambda: common.unsupported(args))()
