"""AlexNet, the network that won ILSVRC 2012, in Caffe's two versions and in torchvision's."""

from __future__ import annotations

from knltrain.network.layers import (
    CAFFE_BIAS,
    Convolution,
    Dense,
    Dropout,
    Layer,
    LocalResponseNormalisation,
    MaxPooling,
    ReLU,
)
from knltrain.network.network import Network


def alexnet(classes: int = 1000) -> Network:
    """Caffe's models/bvlc_alexnet/train_val.prototxt, 60,965,224 parameters with 1000 classes.

    Krizhevsky, Sutskever and Hinton, NIPS 2012: conv, ReLU, normalisation, pooling in this order,
    and two groups in conv2, conv4 and conv5, which were its two GPUs. Input 227x227x3.
    """
    return _alexnet("alexnet", classes, 0.1, normalised_first=True)


def caffenet(classes: int = 1000) -> Network:
    """Caffe's models/bvlc_reference_caffenet, AlexNet with pooling before normalisation.

    60,965,224 parameters with 1000 classes. Biases that start as 0.1 in AlexNet start as 1.
    """
    return _alexnet("caffenet", classes, 1.0, normalised_first=False)


def alexnet_ungrouped(classes: int = 1000) -> Network:
    """AlexNet without groups, 62,378,344 parameters with 1000 classes: 249 MB in float32.

    That is the size of the AlexNet that You, Buluc and Demmel (SC17) train on CIFAR-10.
    """
    return _alexnet("alexnet-ungrouped", classes, 0.1, normalised_first=True, groups=1)


def alexnet_torchvision(classes: int = 1000) -> Network:
    """torchvision's alexnet, 61,100,840 parameters with 1000 classes. Input 224x224x3.

    Krizhevsky, *One weird trick for parallelizing convolutional neural networks*, arXiv 1404.5997:
    one column of fewer filters, without groups and normalisations. Layers bear torchvision's names
    with "/" for ".".
    """
    pool = [MaxPooling(f"features/{number}", kernel=3, stride=2) for number in (2, 5, 12)]
    return Network(
        "alexnet-torchvision",
        (224, 224, 3),
        (
            *_plain(0, 64, kernel=11, stride=4, padding=2),
            pool[0],
            *_plain(3, 192, kernel=5, padding=2),
            pool[1],
            *_plain(6, 384, kernel=3, padding=1),
            *_plain(8, 256, kernel=3, padding=1),
            *_plain(10, 256, kernel=3, padding=1),
            pool[2],
            Dropout("classifier/0", rate=0.5),
            Dense("classifier/1", 4096),
            ReLU("classifier/2"),
            Dropout("classifier/3", rate=0.5),
            Dense("classifier/4", 4096),
            ReLU("classifier/5"),
            Dense("classifier/6", classes),
        ),
    )


def _plain(
    number: int, filters: int, kernel: int, stride: int = 1, padding: int = 0
) -> tuple[Layer, ...]:
    convolution = Convolution(
        f"features/{number}", filters, kernel, stride, padding, initialiser="msra"
    )
    return convolution, ReLU(f"features/{number + 1}")


def _alexnet(
    name: str, classes: int, bias: float, *, normalised_first: bool, groups: int = 2
) -> Network:
    def reduced(number: int) -> tuple[Layer, ...]:
        both: tuple[Layer, ...] = (
            LocalResponseNormalisation(f"norm{number}", size=5, alpha=1e-4, beta=0.75),
            MaxPooling(f"pool{number}", kernel=3, stride=2),
        )
        return both if normalised_first else both[::-1]

    return Network(
        name=name,
        input_shape=(227, 227, 3),
        layers=(
            *_convolution(1, 96, kernel=11, stride=4),
            *reduced(1),
            *_convolution(2, 256, kernel=5, padding=2, groups=groups, bias=bias),
            *reduced(2),
            *_convolution(3, 384, kernel=3, padding=1),
            *_convolution(4, 384, kernel=3, padding=1, groups=groups, bias=bias),
            *_convolution(5, 256, kernel=3, padding=1, groups=groups, bias=bias),
            MaxPooling("pool5", kernel=3, stride=2),
            *_hidden(6, bias),
            *_hidden(7, bias),
            Dense(
                "fc8",
                classes,
                initialiser="gaussian:0.01",
                bias_multipliers=CAFFE_BIAS,
            ),
        ),
    )


def _convolution(
    number: int,
    filters: int,
    kernel: int,
    stride: int = 1,
    padding: int = 0,
    groups: int = 1,
    bias: float = 0.0,
) -> tuple[Layer, ...]:
    convolution = Convolution(
        f"conv{number}",
        filters,
        kernel,
        stride,
        padding,
        groups=groups,
        initialiser="gaussian:0.01",
        bias_value=bias,
        bias_multipliers=CAFFE_BIAS,
    )
    return convolution, ReLU(f"relu{number}")


def _hidden(number: int, bias: float) -> tuple[Layer, ...]:
    dense = Dense(
        f"fc{number}",
        4096,
        initialiser="gaussian:0.005",
        bias_value=bias,
        bias_multipliers=CAFFE_BIAS,
    )
    return dense, ReLU(f"relu{number}"), Dropout(f"drop{number}", rate=0.5)
