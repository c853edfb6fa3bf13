"""LeNet in Caffe's version: the network of the paper's MNIST experiments."""

from __future__ import annotations

from knltrain.network.layers import Convolution, Dense, MaxPooling, ReLU
from knltrain.network.network import Network


def lenet(classes: int = 10) -> Network:
    """Caffe's LeNet (examples/mnist/lenet_train_test.prototxt), 431,080 parameters with 10 classes.

    LeCun, Bottou, Bengio and Haffner, Proceedings of the IEEE 1998, with max pooling and one
    ReLU in place of the original's trainable pooling and sigmoids. Input 28x28x1.
    """
    return Network(
        name="lenet",
        input_shape=(28, 28, 1),
        layers=(
            Convolution("conv1", filters=20, kernel=5),
            MaxPooling("pool1", kernel=2, stride=2),
            Convolution("conv2", filters=50, kernel=5),
            MaxPooling("pool2", kernel=2, stride=2),
            Dense("ip1", units=500),
            ReLU("relu1"),
            Dense("ip2", units=classes),
        ),
    )
