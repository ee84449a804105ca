"""The zoo's models in Keras."""
import keras
from keras import layers

import common


def mlp(widths):
    return keras.Sequential([keras.Input((widths[0],)),
                             *(layers.Dense(width, activation="relu") for width in widths[1:-1]),
                             layers.Dense(widths[-1])])


def cnn():
    return keras.Sequential([keras.Input((28, 28, 1)),
                             layers.Conv2D(32, 5, padding="same", activation="relu"), layers.MaxPooling2D(),
                             layers.Conv2D(64, 5, padding="same", activation="relu"), layers.MaxPooling2D(),
                             layers.Flatten(), layers.Dense(512, activation="relu"), layers.Dense(10)])


def char_lstm():
    return keras.Sequential([keras.Input((common.CHARACTER_TIMES,), dtype="int32"),
                             layers.Embedding(common.CHARACTERS, 8),
                             layers.LSTM(256, return_sequences=True), layers.LSTM(256, return_sequences=True),
                             layers.Dense(common.CHARACTERS)])


def unit(x, outputs, kernel, stride=1, relu=True):
    if kernel > 1:
        x = layers.ZeroPadding2D(kernel // 2)(x)
    x = layers.Conv2D(outputs, kernel, stride, use_bias=False)(x)
    x = layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)
    return layers.ReLU()(x) if relu else x


def resnet50():
    """Version 1.5."""
    image = keras.Input((common.IMAGE_EXTENT, common.IMAGE_EXTENT, 3))
    x = layers.MaxPooling2D(3, 2)(layers.ZeroPadding2D(1)(unit(image, 64, 7, 2)))
    for stage, count in enumerate([3, 4, 6, 3]):
        for block in range(count):
            stride, bottleneck = 2 if stage and not block else 1, 64 << stage
            y = unit(unit(x, bottleneck, 1), bottleneck, 3, stride)
            y = unit(y, 4 * bottleneck, 1, relu=False)
            beside = x if block else unit(x, 4 * bottleneck, 1, stride, relu=False)
            x = layers.ReLU()(layers.Add()([y, beside]))
    return keras.Model(image, layers.Dense(common.IMAGE_CLASSES)(layers.GlobalAveragePooling2D()(x)))


def make(workload):
    made = {"mlp-2nn": lambda: mlp([784, 200, 200, 10]), "cnn-mnist": cnn, "char-lstm": char_lstm,
            "resnet50-train": resnet50, "resnet50-inference": resnet50}
    return made.get(workload, lambda: mlp(common.WIDTHS))()
