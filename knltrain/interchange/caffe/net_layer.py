"""A layer of Caffe with the blobs that it reads, and what a net's ends are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from knltrain.errors import ConfigError
from knltrain.interchange.caffe.message import Message
from knltrain.network.layers import Shape

MapShape: TypeAlias = tuple[int, int, int]
"""(H,W,C) of an image."""


@dataclass(frozen=True, slots=True)
class Blob:
    """What a blob holds now: outputs of our layer `source`, labels, or nothing that we can have.

    A `flat` one is a map of shape (H,W,C) that Caffe has flattened. Behind a Softmax a blob holds
    "probabilities", for which its logits stand.
    """

    source: str
    shape: Shape
    line: int
    kind: Literal["values", "probabilities", "labels", "refused"] = "values"
    flat: bool = False


@final
@dataclass(frozen=True, slots=True)
class NetLayer:
    """A layer of Caffe with the blobs that it reads, as they are when it does."""

    message: Message
    name: str
    kind: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    inputs: tuple[Blob, ...]

    def refused(self, text: str, line: int | None = None) -> ConfigError:
        """An error at the layer's line, or at that of one of its fields."""
        return self.message.error(line or self.message.line, text)

    def only(self, *, is_map: bool = False) -> Blob:
        """The one input, values; with `is_map` a feature map."""
        if len(self.bottoms) != 1 or len(self.tops) != 1:
            raise self.refused(
                f"{self.kind} with {len(self.bottoms)} bottoms and {len(self.tops)} tops: "
                "expected one of each"
            )
        (blob,) = self.inputs
        self.check_values(blob)
        if is_map and (blob.flat or len(blob.shape) != 3):
            raise self.refused(
                f"{self.kind} of a vector: expected feature maps; put it before the layer that "
                "flattens them"
            )
        return blob

    def check_values(self, blob: Blob) -> None:
        """Refuse labels, and probabilities, as only their logits are there."""
        if blob.kind == "labels":
            raise self.refused(f"{self.kind} of labels: only losses and accuracies read them")
        if blob.kind == "probabilities":
            raise self.refused(
                f"{self.kind} of probabilities: expected logits, as Softmax is part of the loss; "
                "leave Softmax out, or let only accuracies read it"
            )


@dataclass(frozen=True, slots=True)
class NetOutput:
    """The layer whose outputs are logits of a loss, and that loss's weight, line and kind."""

    layer: str
    weight: float
    line: int
    kind: str


@dataclass(frozen=True, slots=True)
class DataSource:
    """A data layer: its type and line, what it reads, images of a batch, and their shape."""

    kind: str
    line: int
    source: str
    batch: int | None
    shape: MapShape
