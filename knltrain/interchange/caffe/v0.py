"""Caffe's oldest form of layers (V0), whose settings lie flat beside their name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from knltrain.interchange.caffe.message import Field, Message

_WINDOWS: Final = ("convolution_param", "pooling_param")
TRANSFORMED: Final = ("scale", "mean_file", "crop_size", "mirror")


@dataclass(frozen=True, slots=True)
class _V0Type:
    """Today's type of a V0 layer, its message of settings, and how names of fields differ."""

    name: str
    settings: str
    names: Mapping[str, str]


def _same(*names: str, **others: str) -> dict[str, str]:
    return {**{name: name for name in names}, **others}


_DENSE_NAMES: Final = _same("num_output", "weight_filler", "bias_filler", biasterm="bias_term")
_WINDOW_NAMES: Final = _same("pad", "stride", kernelsize="kernel_size")
_DATA_NAMES: Final = _same(*TRANSFORMED, "source", batchsize="batch_size") | {
    "meanfile": "mean_file",
    "cropsize": "crop_size",
    "rand_skip": "rand_skip",
}
_V0_TYPES: Final = {
    "conv": _V0Type(
        "Convolution", "convolution_param", {**_DENSE_NAMES, **_WINDOW_NAMES, "group": "group"}
    ),
    "pool": _V0Type("Pooling", "pooling_param", {**_WINDOW_NAMES, "pool": "pool"}),
    "innerproduct": _V0Type("InnerProduct", "inner_product_param", _DENSE_NAMES),
    "lrn": _V0Type("LRN", "lrn_param", _same("local_size", "alpha", "beta", "k")),
    "dropout": _V0Type("Dropout", "dropout_param", _same("dropout_ratio")),
    "concat": _V0Type("Concat", "concat_param", _same("concat_dim")),
    "data": _V0Type("Data", "data_param", _DATA_NAMES),
    "images": _V0Type("ImageData", "image_data_param", _DATA_NAMES),
    "relu": _V0Type("ReLU", "", {}),
    "sigmoid": _V0Type("Sigmoid", "", {}),
    "tanh": _V0Type("TanH", "", {}),
    "softmax": _V0Type("Softmax", "", {}),
    "softmax_loss": _V0Type("SoftmaxWithLoss", "", {}),
    "accuracy": _V0Type("Accuracy", "", {}),
    "flatten": _V0Type("Flatten", "", {}),
    "split": _V0Type("Split", "", {}),
}


def from_v0(connection: Message) -> Message:
    """The layer within, whose settings lie flat, with the blobs that it is connected to."""
    layer = connection.message("layer")
    kind = _V0_TYPES.get(text_of(layer, "type"))
    if kind is None:
        return rebuilt(layer, (*layer.fields, *_blobs(connection)))
    settings = [
        replace(field, name=kind.names[field.name])
        for field in layer.fields
        if field.name in kind.names
    ]
    others = [
        replace(field, value=kind.name) if field.name == "type" else field
        for field in layer.fields
        if field.name not in kind.names
    ]
    if settings:
        others.append(wrapped(layer, kind.settings, settings[0].line, settings))
    return rebuilt(layer, (*others, *_blobs(connection)))


def _blobs(connection: Message) -> list[Field]:
    return [field for field in connection.fields if field.name in ("bottom", "top")]


def without_paddings(layers: list[Message]) -> list[Message]:
    """V0's layers of type "padding" go into the windows that read their tops.

    They replace what these say of padding, as in Caffe. ConfigError for other readers.
    """
    paddings = {text_of(each, "top"): each for each in layers if text_of(each, "type") == "padding"}

    def padded(field: Field, padding: Message) -> Field:
        if field.name == "bottom":
            return replace(field, value=text_of(padding, "bottom"))
        if field.name in _WINDOWS and isinstance(field.value, Message):
            pads = [each for each in padding.fields if each.name == "pad"]
            others = [each for each in field.value.fields if each.name != "pad"]
            return replace(field, value=rebuilt(field.value, (*others, *pads)))
        return field

    found = []
    for each in layers:
        padding = paddings.get(text_of(each, "bottom"))
        if padding is not None:
            if not any(field.name in _WINDOWS for field in each.fields):
                raise each.error(
                    each.line,
                    f"reads blob '{text_of(each, 'bottom')}' of a padding (line {padding.line}): "
                    "expected a convolution or pooling, which takes it over",
                )
            each = rebuilt(each, (padded(field, padding) for field in each.fields))
        if text_of(each, "type") != "padding":
            found.append(each)
    return found


def rebuilt(message: Message, fields: Iterable[Field]) -> Message:
    """A message with other fields."""
    return Message(message.file, message.line, message.name, tuple(fields))


def text_of(message: Message, name: str) -> str:
    """The first field of this name as text, which does not count as read."""
    return next((str(field.value) for field in message.fields if field.name == name), "")


def wrapped(message: Message, name: str, line: int, fields: Iterable[Field]) -> Field:
    """Fields as those of a message within."""
    return Field(name, line, Message(message.file, line, name, tuple(fields)))
