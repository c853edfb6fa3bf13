"""Small networks by name, each with joints that a backend may get wrong.

Channel counts are few, 4, 8, 12, 16 and 24: kernels that are compiled for one network serve the
others too. For the same reason backends are made for 17 to 32 images, two vectors.
"""

from __future__ import annotations

from knltrain.network.graph import Output
from knltrain.network.layers import (
    IMAGES,
    Activation,
    AdaptiveAveragePooling,
    Addition,
    Affine,
    AveragePooling,
    BatchNormalisation,
    ChannelProduct,
    ChannelScale,
    ChannelShuffle,
    ChannelSlice,
    Concatenation,
    Convolution,
    Dense,
    Dropout,
    Flatten,
    GlobalAveragePooling,
    Layer,
    LayerNormalisation,
    LocalResponseNormalisation,
    MaxPooling,
    Padding,
    PReLU,
    ReLU,
    WithinChannelNormalisation,
)
from knltrain.network.network import Network

CLASSES = 4


def headed(name: str, *layers: Layer) -> Network:
    """Layers for images (6,5,8), with means of their maps and a classifier behind them."""
    return Network(name, (6, 5, 8), (*layers, GlobalAveragePooling("means"), Dense("out", CLASSES)))


def convolution(name: str, *inputs: str, filters: int = 8, bias: bool = False) -> Convolution:
    return Convolution(name, filters, 3, padding=1, bias=bias, inputs=inputs)


def normalised(name: str, *inputs: str) -> tuple[Layer, ...]:
    return convolution(f"{name}/conv", *inputs), BatchNormalisation(name)


def excitation(name: str, maps: str, function: str) -> tuple[Layer, ...]:
    """Maps of 8 channels, each times a factor made of the means of all (squeeze and excitation)."""
    return (
        GlobalAveragePooling(f"{name}/means", (maps,)),
        Dense(f"{name}/fewer", 4),
        ReLU(f"{name}/relu"),
        Dense(f"{name}/factors", 8),
        Activation(f"{name}/gates", function),
        ChannelProduct(name, (maps, f"{name}/gates")),
    )


def rectified(name: str, *inputs: str, filters: int = 8) -> tuple[Layer, ...]:
    return convolution(f"{name}/conv", *inputs, filters=filters, bias=True), ReLU(name)


RESIDUAL = headed(
    "residual blocks, the second with a convolution beside it",
    *normalised("stem"),
    ReLU("stem/relu"),
    *normalised("a1"),
    ReLU("a1/relu"),
    *normalised("a2"),
    Addition("a/add", ("a2", "stem/relu")),
    ReLU("a/relu"),
    *normalised("b1"),
    ReLU("b1/relu"),
    *normalised("b2"),
    Convolution("short/conv", 8, 1, bias=False, inputs=("a/relu",)),
    BatchNormalisation("short"),
    Addition("b/add", ("b2", "short")),
    ReLU("b/relu"),
)

INCEPTION = headed(
    "inception",
    *rectified("stem"),
    *rectified("left", "stem"),
    *rectified("middle/first", "stem"),
    *rectified("middle"),
    MaxPooling("right/pool", 3, 1, 1, inputs=("stem",)),
    *rectified("right"),
    Concatenation("joined", ("left", "middle", "right")),
    *rectified("behind"),
)

ALEXNET = Network(
    "alexnet in small",
    (9, 8, 8),
    (
        Convolution("conv1", 8, 3, padding=1),
        ReLU("relu1"),
        LocalResponseNormalisation("norm1", 3, 0.5),
        MaxPooling("pool1", 3, 2),
        Convolution("conv2", 16, 3, padding=1, groups=2),
        ReLU("relu2"),
        MaxPooling("pool2", 3, 2),
        Dense("hidden", 16),
        ReLU("relu3"),
        Dropout("drop", 0.5),
        Dense("out", CLASSES),
    ),
)

LENET = Network(
    "lenet in small",
    (12, 11, 8),
    (
        Convolution("conv1", 8, 3),
        MaxPooling("pool1", 2, 2),
        Convolution("conv2", 16, 2),
        MaxPooling("pool2", 2, 2),
        Dense("ip1", 16),
        ReLU("relu1"),
        Dense("ip2", CLASSES),
    ),
)

OUTPUTS = Network(
    "outputs with weights, one of which another takes",
    (6, 5, 8),
    (
        *rectified("stem"),
        *normalised("trunk"),
        Dense("main", CLASSES),
        AveragePooling("aside/pool", 3, 2, inputs=("stem",)),
        Dense("aside/hidden", 16),
        ReLU("aside/relu"),
        Dense("aside", CLASSES),
        Dense("behind/logits", CLASSES, inputs=("main",)),
        ReLU("behind"),
    ),
    (Output("main"), Output("aside", 0.3), Output("behind", 2.0)),
)

JOINED_OUTPUTS = Network(
    "outputs that are normalised, or joined with others",
    (6, 5, 8),
    (
        *rectified("stem"),
        GlobalAveragePooling("means"),
        Dense("main", CLASSES),
        Dense("more", CLASSES, inputs=("means",)),
        Concatenation("joined", ("main", "more")),
        Dense("aside", CLASSES),
        BatchNormalisation("norm", 1e-2),
        ReLU("relu"),
        Dense("behind", CLASSES),
    ),
    (Output("main"), Output("aside", 0.3), Output("behind", 2.0)),
)
"""The gradient of an output has the share of its loss before that of any layer."""

DROPOUT = headed(
    "dropout",
    *rectified("stem"),
    Dropout("a", 0.5),
    *normalised("b"),
    Dropout("b/drop", 0.0),
    convolution("c"),
    ReLU("clipped", ceiling=0.5),
    Dropout("clipped/drop", 0.5),
    convolution("left", "clipped/drop"),
    ReLU("left/clipped", slope=0.25, ceiling=0.25),
    *rectified("right", "clipped/drop"),
    Dropout("right/drop", 0.25),
    MaxPooling("third/pool", 3, 1, 1, inputs=("clipped/drop",)),
    ReLU("third/relu"),
    Dropout("third", 0.5),
    Concatenation("joined", ("left/clipped", "right/drop", "third")),
    Dropout("joined/drop", 0.5),
)

TYPICAL = (RESIDUAL, INCEPTION, ALEXNET, LENET, OUTPUTS, DROPOUT)
"""A few networks that have every kind of layer among them."""

NORMALISED_LATE = headed(
    "normalisations behind a ReLU, and two of the same convolution",
    *rectified("early"),
    BatchNormalisation("late"),
    convolution("shared/conv", "late"),
    BatchNormalisation("one", inputs=("shared/conv",)),
    BatchNormalisation("other", inputs=("shared/conv",)),
    Addition("both", ("one", "other")),
)
"""A normalisation takes what a convolution has summed up only if nothing is between, and alone."""

GRAPHS = (
    *TYPICAL,
    JOINED_OUTPUTS,
    NORMALISED_LATE,
    headed(
        "slopes that are learned, of maps and of vectors",
        PReLU("images/slopes"),
        *rectified("stem"),
        PReLU("one", shared=True),
        convolution("left", "one"),
        PReLU("left/slopes"),
        *rectified("right", "one"),
        PReLU("right/slopes"),
        Concatenation("joined", ("left/slopes", "right/slopes")),
        ReLU("behind"),
        GlobalAveragePooling("vectors"),
        PReLU("vectors/slopes"),
        Dense("back", 8),
        ChannelProduct("factored", ("left/slopes", "back")),
    ),
    headed(
        "padding on one side",
        Padding("images/padding", 1, 0, 0, 2),
        Convolution("stem", 8, 3, 2),
        ReLU("stem/relu"),
        Padding("one", 0, 1, 2, 0),
        Padding("other", 1, 0, 0, 2, lowest=True, inputs=("stem/relu",)),
        MaxPooling("other/pool", 2, 1),
        AveragePooling("one/pool", 2, 1, inputs=("one",)),
        Addition("both", ("one/pool", "other/pool")),
        ReLU("both/relu"),
        Padding("last", 1, 1, 1, 1),
        convolution("behind"),
    ),
    headed(
        "normalisation within channels",
        *rectified("stem"),
        WithinChannelNormalisation("norm", 3, 0.5),
        *rectified("left", "norm"),
        WithinChannelNormalisation("right", 5, 2.0, 0.6, inputs=("norm",)),
        Concatenation("joined", ("left", "right")),
        ReLU("relu"),
    ),
    headed(
        "dense blocks with the images as a branch",
        *normalised("a"),
        ReLU("a/relu"),
        Concatenation("x1", (IMAGES, "a/relu")),
        BatchNormalisation("b"),
        ReLU("b/relu"),
        convolution("b/conv"),
        Concatenation("x2", ("x1", "b/conv")),
        BatchNormalisation("c"),
    ),
    headed(
        "dense blocks in which each layer takes all before",
        *rectified("a"),
        *normalised("b"),
        Concatenation("x1", ("a", "b")),
        BatchNormalisation("c"),
        ReLU("c/relu"),
        *rectified("c/conv"),
        Concatenation("x2", ("a", "b", "c/conv")),
        BatchNormalisation("d"),
        Activation("d/silu", "silu"),
        convolution("d/conv"),
        Concatenation("x3", ("a", "b", "c/conv", "d/conv")),
        ReLU("x3/relu"),
        BatchNormalisation("e"),
    ),
    headed(
        "normalised concatenation",
        convolution("left", IMAGES),
        *normalised("right", IMAGES),
        Concatenation("joined", ("left", "right")),
        BatchNormalisation("norm"),
        ReLU("relu"),
    ),
    headed(
        "concatenations that are added to",
        convolution("left", IMAGES),
        *rectified("right", IMAGES),
        Concatenation("joined", ("left", "right")),
        convolution("up", filters=16),
        Addition("sum", ("up", "joined")),
        convolution("again", filters=16),
        BatchNormalisation("norm"),
        Addition("total", ("norm", "sum")),
        convolution("third", "total"),
        convolution("fourth", "total"),
        Concatenation("pair", ("third", "fourth")),
        convolution("fifth", "total", filters=16),
        BatchNormalisation("fifth/norm"),
        Addition("end", ("pair", "fifth/norm")),
    ),
    headed(
        "nested concatenations, one behind a ReLU in place",
        convolution("a", filters=4),
        MaxPooling("b", 3, 1, 1, inputs=("a",)),
        AveragePooling("c", 3, 1, 1, inputs=("a",)),
        Concatenation("inner", ("b", "c")),
        ReLU("inner/relu"),
        *rectified("d", "a"),
        Concatenation("middle", ("inner/relu", "d")),
        *rectified("e", "a"),
        Concatenation("outer", ("e", "middle")),
        Convolution("end", 8, 1),
    ),
    headed(
        "branches that end in place",
        convolution("stem"),
        MaxPooling("a/pool", 3, 1, 1, inputs=("stem",)),
        ReLU("a/relu"),
        ReLU("a"),
        AveragePooling("b/pool", 3, 1, 1, inputs=("stem",)),
        ReLU("b"),
        *normalised("c", "stem"),
        Concatenation("joined", ("a", "b", "c")),
    ),
    headed(
        "branches with other takers",
        *rectified("a"),
        *rectified("b"),
        Concatenation("joined", ("b", "a", IMAGES)),
        *rectified("c"),
        Concatenation("again", ("b", "c")),
        convolution("end"),
    ),
    headed(
        "normalisations with fixed statistics beside others",
        convolution("a"),
        BatchNormalisation("a/fixed", frozen=True),
        *rectified("b"),
        Concatenation("joined", ("a", "b")),
        BatchNormalisation("fixed", frozen=True, inputs=("joined",)),
        BatchNormalisation("norm", 1e-2, inputs=("joined",)),
        Addition("sum", ("fixed", "norm")),
        ReLU("relu"),
        convolution("c"),
        Concatenation("wider", ("relu", "c")),
        BatchNormalisation("wider/norm", 1e-2),
    ),
    headed(
        "a concatenation that is read as a part only, and not written in parts",
        convolution("a"),
        Concatenation("inner", (IMAGES, "a")),
        convolution("b", "a"),
        Concatenation("outer", ("inner", "b")),
        BatchNormalisation("norm", 1e-2),
    ),
    headed(
        "additions in a chain",
        convolution("a", IMAGES),
        convolution("b", "a"),
        convolution("c", "a"),
        Addition("ab", ("a", "b")),
        Addition("abc", ("ab", "c")),
        ReLU("relu"),
        Addition("more", ("relu", "b")),
        *normalised("d"),
        Addition("all", ("d", "d/conv")),
        MaxPooling("pool", 3, 1, 1),
        ReLU("pool/relu"),
        *normalised("e"),
        Addition("end", ("e", "pool/relu")),
    ),
    headed(
        "images that are normalised and added to",
        BatchNormalisation("a", inputs=(IMAGES,)),
        *normalised("b", IMAGES),
        Addition("ab", ("a", "b")),
        BatchNormalisation("c", inputs=(IMAGES,)),
        Addition("abc", ("ab", "c")),
        Addition("end", ("abc", IMAGES)),
    ),
    headed(
        "rectifiers and local response normalisation",
        convolution("a"),
        ReLU("leaky", slope=0.1),
        ReLU("plain"),
        LocalResponseNormalisation("lrn", 3, alpha=0.5, bias=2.0),
        *normalised("b"),
        ReLU("clipped", ceiling=0.5),
        LocalResponseNormalisation("b/lrn", 5, alpha=0.5, inputs=("b",)),
        ReLU("one", inputs=("b/lrn",)),
        ReLU("other", slope=0.25, ceiling=1.0, inputs=("b/lrn",)),
        Addition("sum", ("one", "other")),
        Addition("end", ("sum", "clipped")),
    ),
    headed(
        "squeeze and excitation",
        *rectified("a"),
        *excitation("a/se", "a", "sigmoid"),
        *normalised("b", "a/se"),
        Activation("b/silu", "silu"),
        *excitation("b/se", "b/silu", "hard_sigmoid"),
        convolution("c", "b/se"),
        Activation("c/gelu", "gelu"),
        ReLU("c/relu"),
        Addition("sum", ("c/relu", "a")),
        Activation("one", "tanh", ("sum",)),
        Affine("scaled", 0.5, -1.0, ("sum",)),
        Activation("other", "hard_swish"),
        Concatenation("joined", ("one", "other")),
    ),
    headed(
        "slices and shuffles of channels",
        *rectified("stem", filters=16),
        ChannelSlice("left", 0, 8),
        ChannelSlice("right", 8, 16, ("stem",)),
        *rectified("right/a", "right"),
        Concatenation("joined", ("left", "right/a")),
        ChannelShuffle("shuffled", 2),
        ChannelSlice("few", 2, 6),
        ReLU("few/relu"),
        ChannelSlice("many", 4, 16, ("shuffled",)),
        ReLU("many/clipped", ceiling=0.5),
        Convolution("behind", 8, 1),
        ChannelSlice("images/few", 0, 4, (IMAGES,)),
        ChannelShuffle("four", 4, ("behind",)),
        Concatenation("end", ("images/few", "four", "few/relu")),
    ),
    headed(
        "a block of ConvNeXt",
        LayerNormalisation("images/norm", 1e-2),
        Convolution("depthwise", 8, 3, padding=1, groups=8),
        LayerNormalisation("norm", 1e-2),
        ReLU("norm/relu"),
        Convolution("wide", 16, 1),
        Activation("gelu", "gelu"),
        Convolution("narrow", 8, 1),
        ChannelScale("scale", 0.5),
        Addition("sum", ("scale", "norm/relu")),
        ChannelScale("images/scale", 2.0, inputs=(IMAGES,)),
        Addition("total", ("sum", "images/scale")),
        ReLU("total/relu"),
        LayerNormalisation("last", 1e-2),
    ),
    Network(
        "vectors that are joined and normalised",
        (6, 5, 8),
        (
            *rectified("stem"),
            Flatten("flat"),
            GlobalAveragePooling("means", ("stem",)),
            Concatenation("joined", ("flat", "means")),
            BatchNormalisation("norm", 1e-2),
            ReLU("norm/relu"),
            Dense("hidden", 16),
            BatchNormalisation("hidden/norm"),
            ReLU("hidden/relu"),
            ChannelSlice("part", 4, 8, ("hidden",)),
            LayerNormalisation("part/norm", 1e-2),
            ChannelScale("part/scale", 0.5),
            Concatenation("again", ("part/scale", "hidden/relu", "means")),
            Dropout("drop", 0.5),
            Dense("out", CLASSES),
        ),
    ),
    headed(
        "windows",
        Convolution("dilated", 8, 3, padding=2, dilation=2),
        ReLU("dilated/relu"),
        MaxPooling("maximum", 3, 2, 1, ceil=True),
        AveragePooling("mean", 3, 2, 1, ceil=True, inputs=("dilated/relu",)),
        Addition("sum", ("maximum", "mean")),
        Convolution("flat", 8, (3, 1), padding=(1, 0), groups=2),
        Convolution("strided", 8, 3, stride=2, padding=1, bias=False),
        AdaptiveAveragePooling("adaptive", 3, 1),
        AveragePooling("inside", 3, 1, 1, counts_padding=False),
    ),
)
