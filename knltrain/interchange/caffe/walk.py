"""The way through a net of Caffe, from layer to layer: which layer of ours wrote each blob.

Caffe wires blobs by name, and a layer may write into its input ("in place"). So a blob stands for
what was written last. What cannot be kept is collected, so that all of it is told at once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeAlias, final

from knltrain.errors import KnltrainError
from knltrain.interchange.caffe.message import Message
from knltrain.interchange.caffe.net_layer import Blob, DataSource, MapShape, NetLayer, NetOutput
from knltrain.network.graph import LAYER_NAME
from knltrain.network.layers import IMAGES, Flatten, Layer

_WITHOUT_EFFECT: Final = {
    "engine": "knltrain chooses its kernels itself",
    "phase": "the layers are those of training",
    "force_backward": "gradients are computed where parameters need them",
    "force_nd_im2col": "knltrain chooses its kernels itself",
    "debug_info": "see train.trace_steps",
    "prefetch": "images are in memory",
    "multinode": "the parameters are those of every worker",
}
"""Fields that change no number -> what is done instead."""

_OF_FILLERS: Final = ("value", "min", "max", "mean", "std", "sparse", "variance_norm")
"""Each type of filler reads some of them, as in Caffe."""


class Learnable(NamedTuple):
    """An array of Caffe's: its layer, which is ours, the type, and its place among the layer's."""

    layer: str
    kind: str
    place: int


@final
@dataclass(slots=True)
class Walk:
    """What has been found on the way: `places` are the lines of our layers, `numbers` their fields.

    `told_shape` is that of the images, where the net does not say it.
    """

    told_shape: MapShape | None = None
    layers: list[Layer] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, list[str]] = field(default_factory=dict)
    blobs: dict[str, Blob] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    outputs: list[NetOutput] = field(default_factory=list)
    noted: dict[str, list[str]] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    shared: dict[str, str] = field(default_factory=dict)
    sources: list[DataSource] = field(default_factory=list)
    learnable: list[Learnable] = field(default_factory=list)
    _readers: Counter[str] = field(default_factory=Counter)
    _replaced: dict[str, str] = field(default_factory=dict)

    def note(self, message: Message, line: int, text: str) -> None:
        """Something that was dropped, and why that may be."""
        place = message.place(line)
        where = f"{place}: {message.title}" if message.title else place
        self.noted.setdefault(text, []).append(where)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was noted; the same of several layers once."""
        return tuple(
            f"{first} and {len(others)} more: {text}" if others else f"{first}: {text}"
            for text, (first, *others) in self.noted.items()
        )

    def put_labels(self, layer: NetLayer, top: int) -> None:
        """One of a layer's tops holds labels."""
        self.put(layer, Blob("", (), layer.message.line, "labels"), top)

    def put(self, layer: NetLayer, blob: Blob, top: int = 0) -> None:
        """One of a layer's tops now holds what `blob` does."""
        name = layer.tops[top]
        before = self.blobs.get(name)
        if before is not None and name not in layer.bottoms:
            raise layer.refused(
                f"writes blob '{name}', which line {before.line} has written: expected a name of "
                "its own, or that layer's blob as its bottom, too (in place)"
            )
        self.blobs[name] = replace(blob, line=layer.message.line)
        self.read.discard(name)
        self._replaced.pop(name, None)

    def add(self, layer: NetLayer, ours: Layer, inputs: Sequence[Blob]) -> None:
        """Add a layer of ours that takes `inputs`, and put it on the only top."""
        self.put(layer, self.add_hidden(layer, ours, inputs))

    def add_hidden(self, layer: NetLayer, ours: Layer, inputs: Sequence[Blob]) -> Blob:
        """Add a layer of ours whose outputs no blob of Caffe holds."""
        if not LAYER_NAME.fullmatch(ours.name) or ours.name == IMAGES:
            raise layer.refused(
                "its name cannot be kept: expected letters, digits, '_', '-' and '/', '.' between "
                f"them, and not '{IMAGES}'; rename it, in its .caffemodel, too"
            )
        if ours.name in self.places:
            raise layer.refused(f"has the name of {self.places[ours.name]}: expected another")
        changed: Any = ours
        ours = replace(changed, inputs=tuple(blob.source for blob in inputs))
        shape = ours.output_shape(tuple(blob.shape for blob in inputs))
        self.layers.append(ours)
        self.places[ours.name] = layer.message.place(layer.message.line)
        self.numbers[ours.name] = list(layer.message.told_numbers())
        is_flat = inputs[0].flat and shape == inputs[0].shape
        return Blob(ours.name, shape, layer.message.line, flat=is_flat)

    def unflattened(self, layer: NetLayer, blob: Blob) -> Blob:
        """A blob that Caffe has flattened as a vector, whose units the layer tells apart."""
        if not blob.flat or len(blob.shape) == 1:
            return replace(blob, flat=False)
        ours = Flatten(f"{blob.source}/flat", (blob.source,))
        if ours in self.layers:
            return replace(blob, source=ours.name, shape=(math.prod(blob.shape),), flat=False)
        return self.add_hidden(layer, ours, (replace(blob, flat=False),))

    def scale(self, layer: NetLayer, before: Layer, ours: Layer) -> None:
        """Replace the layer that is a layer's only input by one that does the layer's work, too."""
        if self._readers[before.name] > 1:
            raise layer.refused(
                f"'{before.name}' is read before its {layer.kind}, too: expected one reader"
            )
        (blob,) = layer.inputs
        self.layers[self.layers.index(before)] = ours
        self.learnable = [
            each._replace(layer=ours.name) if each.layer == layer.name else each
            for each in self.learnable
        ]
        self.numbers[ours.name] += layer.message.told_numbers()
        if layer.bottoms != layer.tops:
            self._replaced[layer.bottoms[0]] = layer.name
        self.put(layer, blob)

    def step(self, message: Message, converters: Mapping[str, Converter]) -> None:
        """Convert one layer; what cannot be kept is collected in `refusals`."""
        tops: list[str] = []
        try:
            name, kind = message.text("name"), message.text("type")
            message.title = f"layer {name[:60]!r}"
            bottoms, tops = message.texts("bottom"), message.texts("top")
            inputs = tuple(self._blob(message, each) for each in bottoms)
            self.read |= set(bottoms)
            self._readers.update({blob.source for blob in inputs})
            if any(blob.kind == "refused" for blob in inputs):
                self._refuse(tops, message)
                return
            layer = NetLayer(message, name, kind, tuple(bottoms), tuple(tops), inputs)
            if kind not in converters:
                raise layer.refused(f"type '{kind}' is unknown: expected a type of Caffe's layers")
            self._check_gradients(layer)
            converters[kind](layer, self)
            self.tell_unread(message)
        except KnltrainError as error:
            text = str(error)
            where = message.place(message.line)
            is_told = text.startswith(f"{message.file}:")
            self.refusals.append(text if is_told else f"{where}: {text}")
            self._refuse(tops, message)

    def _blob(self, message: Message, name: str) -> Blob:
        if name not in self.blobs:
            known = ", ".join(f"'{each}'" for each in list(self.blobs)[-5:]) or "none"
            raise message.error(
                message.line_of("bottom") or message.line,
                f"reads blob '{name}', which no layer before it writes: expected one of those "
                f"(the last are {known})",
            )
        if name in self._replaced:
            raise message.error(
                message.line_of("bottom") or message.line,
                f"reads blob '{name}' as it is before layer '{self._replaced[name]}', which "
                "knltrain computes together with it: expected one reader",
            )
        return self.blobs[name]

    def _refuse(self, tops: Sequence[str], message: Message) -> None:
        for top in tops:
            self.blobs[top] = Blob("", (), message.line, "refused")

    def _check_gradients(self, layer: NetLayer) -> None:
        for each, blob in zip(layer.message.all("propagate_down"), layer.inputs, strict=False):
            if (
                str(each.value) in ("false", "0")
                and blob.kind == "values"
                and blob.source != IMAGES
            ):
                raise layer.refused(
                    f"{each.told} stops the gradient, which knltrain cannot: leave it out",
                    each.line,
                )

    def tell_unread(self, message: Message, *, deep: bool = True) -> None:
        """Note fields without effect, and refuse others that nobody has read.

        Unless `deep`, those of messages within are left to whom these belong.
        """
        for path, each in message.unread():
            if not deep and path != each.name:
                continue
            if each.name in _WITHOUT_EFFECT:
                self.note(message, each.line, f"{each.told} dropped: {_WITHOUT_EFFECT[each.name]}")
                continue
            if each.name in _OF_FILLERS and path.endswith(f"filler.{each.name}"):
                self.note(message, each.line, f"{each.told} dropped: its filler does not read it")
                continue
            error = message.error(
                each.line,
                f"{path} is not known here, and may change what is computed: leave it out if it "
                "does not",
            )
            self.refusals.append(str(error))


Converter: TypeAlias = Callable[[NetLayer, Walk], None]
"""Adds what a layer of Caffe is to a walk; ConfigError for what cannot be kept."""
