"""Random networks for Hypothesis: small maps, few different channel counts, every kind of joint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

from knltrain.network.graph import Output
from knltrain.network.layers import (
    IMAGES,
    Activation,
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
    Shape,
    StochasticDepth,
    WithinChannelNormalisation,
)
from knltrain.network.network import Network
from vectorized_ops.shapes import ACTIVATION_FUNCTIONS

Draw = Callable[..., Any]
Value = TypeVar("Value")

CLASSES = 4
CHANNELS = (8, 16)
MOST_CHANNELS = 24
STEPS = (
    "convolution", "normalisation", "relu", "clipped", "leaky", "dropout", "maximum", "mean", "lrn",
    "stochastic depth", "smooth", "affine", "slopes", "padded", "within", "excitation", "slices",
    "shuffle", "scale", "layer normalisation", "concatenation", "addition",
    "concatenation", "addition",
)  # fmt: skip
SMALLER = ("pooled convolution", "strided convolution", "strided maximum", "strided mean")
KERNELS = (
    {"kernel": 3, "padding": 1},
    {"kernel": 1},
    {"kernel": (3, 1), "padding": (1, 0)},
    {"kernel": 3, "padding": 2, "dilation": 2},
)


class _Growth:
    """A network as it grows: layers so far and their shapes."""

    def __init__(self, draw: Draw, input_shape: Shape, steps: Sequence[str]) -> None:
        self._draw, self._steps = draw, steps
        self.layers: list[Layer] = []
        self.shapes: dict[str, Shape] = {IMAGES: input_shape}

    def one_of(self, *values: Value) -> Value:
        value: Value = self._draw(st.sampled_from(values))
        return value

    def add(
        self, kind: Callable[..., Layer], *numbers: Any, inputs: Sequence[str], **more: Any
    ) -> str:
        """Append a layer; return its name."""
        layer = kind(f"{kind.__name__}{len(self.layers)}", *numbers, inputs=tuple(inputs), **more)
        self.shapes[layer.name] = layer.output_shape(tuple(self.shapes[each] for each in inputs))
        self.layers.append(layer)
        return layer.name

    def chain(self, source: str, most: int, depth: int) -> str:
        """Up to `most` steps one after the other, all of which keep height and width."""
        steps = self._steps if depth else [s for s in self._steps if s not in STEPS[-2:]]
        for step in self._draw(st.lists(st.sampled_from(steps), max_size=most)):
            source = self.step(step, source, depth)
        return source

    def step(self, step: str, source: str, depth: int) -> str:
        inputs = [source]
        match step:
            case "convolution":
                return self._convolution(source)
            case "normalisation":
                frozen = self.one_of(False, False, True)
                return self.add(BatchNormalisation, 1e-2, frozen=frozen, inputs=inputs)
            case "relu":
                return self.add(ReLU, inputs=inputs)
            case "clipped":
                return self.add(ReLU, self.one_of(0.0, 0.25), 0.5, inputs=inputs)
            case "leaky":
                return self.add(ReLU, 0.1, inputs=inputs)
            case "dropout":
                return self.add(Dropout, self.one_of(0.5, 0.0), inputs=inputs)
            case "maximum":
                return self.add(MaxPooling, 3, 1, 1, inputs=inputs)
            case "mean":
                counts = self.one_of(True, False)
                return self.add(AveragePooling, 3, 1, 1, counts_padding=counts, inputs=inputs)
            case "stochastic depth":
                return self.add(StochasticDepth, 0.5, inputs=inputs)
            case "lrn":
                return self.add(LocalResponseNormalisation, 3, 0.5, inputs=inputs)
            case "slopes":
                return self.add(PReLU, self.one_of(True, False), inputs=inputs)
            case "padded":
                padded = self.add(Padding, *self.one_of((2, 0, 0, 2), (0, 2, 1, 1)), inputs=inputs)
                return self.add(Convolution, 8, 3, inputs=[padded])
            case "within":
                return self.add(WithinChannelNormalisation, 3, 0.5, inputs=inputs)
            case "smooth":
                return self.add(Activation, self.one_of(*ACTIVATION_FUNCTIONS), inputs=inputs)
            case "affine":
                return self.add(Affine, self.one_of(-0.5, 2.0), 0.25, inputs=inputs)
            case "slices":
                return self._slices(source)
            case "shuffle":
                return self.add(ChannelShuffle, self.one_of(2, 1), inputs=inputs)
            case "scale":
                return self.add(ChannelScale, 0.5, inputs=inputs)
            case "layer normalisation":
                return self.add(LayerNormalisation, 1e-2, inputs=inputs)
            case "excitation":
                return self._excitation(source)
            case "concatenation":
                return self._concatenation(source, depth - 1)
            case _:
                return self._addition(source, depth - 1)

    def smaller(self, step: str, source: str) -> str:
        """A step to maps of about half the size."""
        match step:
            case "pooled convolution":
                convolution = self.add(Convolution, 8, 3, inputs=[source])
                return self.add(MaxPooling, 2, 2, inputs=[convolution])
            case "strided convolution":
                return self.add(Convolution, 8, 3, 2, 1, inputs=[source])
            case _:
                kind = MaxPooling if step == "strided maximum" else AveragePooling
                return self.add(
                    kind, 3, 2, self.one_of(0, 1), self.one_of(True, False), inputs=[source]
                )

    def head(self, source: str) -> str:
        """Dense layers that make logits."""
        if len(self.shapes[source]) == 3 and self.one_of(True, False):
            source = self.add(GlobalAveragePooling, inputs=[source])
        if self.one_of(False, True):
            source = self._vectors(source)
        if self.one_of(False, True):
            source = self.add(Dense, 16, inputs=[source])
            source = self.add(ReLU, inputs=[source])
            if "dropout" in self._steps and self.one_of(False, True):
                source = self.add(Dropout, 0.5, inputs=[source])
        return self.add(Dense, CLASSES, self.one_of(True, False), inputs=[source])

    def taken(self, logits: str) -> str:
        """What others make of logits, whose loss has a share in their gradient."""
        match self.one_of("as they are", "joined", "normalised"):
            case "joined":
                other = self.add(Dense, CLASSES, inputs=[logits])
                return self.add(Concatenation, inputs=self._draw(st.permutations([logits, other])))
            case "normalised":
                return self.add(BatchNormalisation, 1e-2, inputs=[logits])
            case _:
                return logits

    def _vectors(self, source: str) -> str:
        """Vectors that are normalised, sliced and joined."""
        if len(self.shapes[source]) == 3:
            source = self.add(Flatten, inputs=[source])
        source = self.add(Dense, 8, inputs=[source])
        kind = self.one_of(BatchNormalisation, LayerNormalisation)
        norm = self.add(kind, 1e-2, inputs=[source])
        part = self.add(ChannelSlice, 2, 5, inputs=[norm])
        return self.add(Concatenation, inputs=self._draw(st.permutations([part, source, norm])))

    def _convolution(self, source: str) -> str:
        groups = self.one_of(1, 2) if self.shapes[source][2] % 2 == 0 else 1
        filters, bias = self.one_of(*CHANNELS), self.one_of(True, False)
        window = self.one_of(*KERNELS)
        return self.add(Convolution, filters, groups=groups, bias=bias, inputs=[source], **window)

    def _excitation(self, source: str) -> str:
        """Factors for the channels of maps, made of their means (squeeze and excitation)."""
        vector = self.add(GlobalAveragePooling, inputs=[source])
        vector = self.add(Dense, self.shapes[source][2], inputs=[vector])
        if self.one_of(True, False):
            vector = self.add(Activation, "sigmoid", inputs=[vector])
        return self.add(ChannelProduct, inputs=[source, vector])

    def _slices(self, source: str) -> str:
        """Two slices of maps, which may overlap, leave channels out, and be all channels."""
        channels = self.shapes[source][2]
        first, second = (self.one_of(*range(0, channels - size + 1, 2)) for size in (4, 8))
        few = self.add(ChannelSlice, first, first + 4, inputs=[source])
        few = self.add(Convolution, 8, 1, inputs=[few])
        many = self.add(ChannelSlice, second, second + 8, inputs=[source])
        return self.add(Concatenation, inputs=self._draw(st.permutations([few, many])))

    def _concatenation(self, source: str, depth: int) -> str:
        ends = self._branches(source, self.one_of(2, 3), depth)
        if sum(self.shapes[end][2] for end in ends) > MOST_CHANNELS:
            ends = [self.add(Convolution, 8, 1, inputs=[end]) for end in ends]
        joined = self.add(Concatenation, inputs=ends)
        if self.shapes[joined][2] <= MOST_CHANNELS - 8 and self.one_of(True, False):
            joined = self._wider(ends, self._behind(joined), depth)
        return self._behind(joined)

    def _behind(self, joined: str) -> str:
        """What tells apart how a concatenation lies in memory: statistics, and work in place."""
        behind = self.one_of("nothing", "normalisation", "relu", "dropout")
        return self.step(behind, joined, 0) if behind in self._steps else joined

    def _wider(self, ends: list[str], joined: str, depth: int) -> str:
        """A concatenation that has another as a branch, or its branches once more."""
        source = self.one_of(joined, *ends)
        one = self.add(Convolution, 8, 1, inputs=[self.chain(source, 1, depth)])
        orders = [[joined, one], [one, joined]]
        if source == joined:  # else nobody would take it
            orders.append([*ends, one])
        return self.add(Concatenation, inputs=self.one_of(*orders))

    def _addition(self, source: str, depth: int) -> str:
        left, right = self._branches(source, 2, depth)
        if self.shapes[left] != self.shapes[right]:
            right = self.add(Convolution, self.shapes[left][2], 1, inputs=[right])
            if self.one_of(True, False):
                right = self.add(BatchNormalisation, 1e-2, inputs=[right])
        return self.add(Addition, inputs=self._draw(st.permutations([left, right])))

    def _branches(self, source: str, number: int, depth: int) -> list[str]:
        """Different maps made of `source`, one of which may be `source` itself."""
        ends: list[str] = []
        for _ in range(number):
            end = self.chain(source, 2, depth)
            ends.append(self.add(ReLU, inputs=[source]) if end in ends else end)
        return ends


@st.composite
def networks(draw: Draw, without: tuple[str, ...] = ()) -> Network:
    """Networks of CLASSES classes, none of whose layers is of a kind in `without`."""
    shape = draw(st.integers(5, 7)), draw(st.integers(5, 7)), 8
    growth = _Growth(draw, shape, [step for step in STEPS if step not in without])
    trunk = growth.chain(IMAGES, 3, depth=2)
    outputs = (
        [Output(growth.head(trunk), 0.3)] if trunk != IMAGES and growth.one_of(False, True) else []
    )
    trunk = growth.smaller(growth.one_of(*SMALLER), trunk)
    trunk = growth.chain(trunk, 3, depth=2)
    main = growth.head(trunk)
    if growth.one_of(False, True):
        outputs.append(Output(growth.head(growth.taken(main)), 2.0))
    return Network("drawn", shape, tuple(growth.layers), (Output(main), *outputs))
