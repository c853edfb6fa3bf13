"""Old forms of Caffe's nets and solvers in today's: V0, V1, inputs, transformations of data.

As `util/upgrade_proto.cpp` of Caffe does. Fields keep their lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from knltrain.interchange.caffe.message import Field, Message, Value, Word

_SPELLINGS: Final = {
    **{word.upper(): word for word in ("AbsVal", "ArgMax", "BNLL", "Im2col", "LRN", "MVN", "ReLU")},
    "HDF5_DATA": "HDF5Data",
    "HDF5_OUTPUT": "HDF5Output",
    "SOFTMAX_LOSS": "SoftmaxWithLoss",
    "TANH": "TanH",
}
"""Types of V1 that are not spelled as their words."""

_DATA_SETTINGS: Final = ("data_param", "image_data_param", "window_data_param")
_WINDOWS: Final = ("convolution_param", "pooling_param")
_TRANSFORMED: Final = ("scale", "mean_file", "crop_size", "mirror")


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
_DATA_NAMES: Final = _same(*_TRANSFORMED, "source", batchsize="batch_size") | {
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
    "softmax": _V0Type("Softmax", "", {}),
    "softmax_loss": _V0Type("SoftmaxWithLoss", "", {}),
    "accuracy": _V0Type("Accuracy", "", {}),
    "flatten": _V0Type("Flatten", "", {}),
    "split": _V0Type("Split", "", {}),
}


def upgraded_net(net: Message) -> list[Message]:
    """The layers of a net in today's form, inputs first. ConfigError for a mixture of forms."""
    new, old = net.messages("layer"), net.messages("layers")
    if new and old:
        raise net.error(
            old[0].line,
            "layers and layer (first in line "
            f"{new[0].line}) are of different versions of Caffe: expected those of one",
        )
    if any(each.line_of("layer") is not None for each in old):
        old = _without_paddings([_from_v0(each) for each in old])
    return _inputs(net) + [_data_upgraded(each) for each in new or map(_from_v1, old)]


def _rebuilt(message: Message, fields: Iterable[Field]) -> Message:
    return Message(message.file, message.line, message.name, tuple(fields))


def _text(message: Message, name: str) -> str:
    return next((str(field.value) for field in message.fields if field.name == name), "")


def _wrapped(message: Message, name: str, line: int, fields: Iterable[Field]) -> Field:
    return Field(name, line, Message(message.file, line, name, tuple(fields)))


def _changed(message: Message, change: Callable[[Field], Iterable[Field]]) -> Message:
    return _rebuilt(message, (each for field in message.fields for each in change(field)))


def _from_v1(layer: Message) -> Message:
    """blobs_lr and weight_decay become `param`, the type's enumeration its name."""
    groups: dict[str, list[Field]] = {
        name: [field for field in layer.fields if field.name == name]
        for name in ("param", "blob_share_mode", "blobs_lr", "weight_decay")
    }
    today = {
        "param": "name",
        "blob_share_mode": "share_mode",
        "blobs_lr": "lr_mult",
        "weight_decay": "decay_mult",
    }
    params = []
    for place in range(max(map(len, groups.values()))):
        found = [
            replace(fields[place], name=today[name])
            for name, fields in groups.items()
            if place < len(fields)
        ]
        params.append(_wrapped(layer, "param", found[0].line, found))

    def change(field: Field) -> Iterable[Field]:
        if field.name in groups:
            return ()
        if field.name == "type" and isinstance(field.value, Word):
            spelled = "".join(word.capitalize() for word in field.value.split("_"))
            return (replace(field, value=_SPELLINGS.get(field.value, spelled)),)
        return (field,)

    changed = _changed(layer, change)
    return _rebuilt(layer, (*changed.fields, *params))


def _from_v0(connection: Message) -> Message:
    """The layer within, whose settings lie flat, with the blobs that it is connected to."""
    layer = connection.message("layer")
    kind = _V0_TYPES.get(_text(layer, "type"))
    if kind is None:
        return _rebuilt(layer, (*layer.fields, *_blobs(connection)))
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
        others.append(_wrapped(layer, kind.settings, settings[0].line, settings))
    return _rebuilt(layer, (*others, *_blobs(connection)))


def _blobs(connection: Message) -> list[Field]:
    return [field for field in connection.fields if field.name in ("bottom", "top")]


def _without_paddings(layers: list[Message]) -> list[Message]:
    """V0's layers of type "padding" go into the windows that read their tops."""
    paddings = {_text(each, "top"): each for each in layers if _text(each, "type") == "padding"}

    def padded(field: Field, padding: Message) -> Field:
        if field.name == "bottom":
            return replace(field, value=_text(padding, "bottom"))
        if field.name in _WINDOWS and isinstance(field.value, Message):
            pads = [each for each in padding.fields if each.name == "pad"]
            return replace(field, value=_rebuilt(field.value, (*field.value.fields, *pads)))
        return field

    found = []
    for each in layers:
        padding = paddings.get(_text(each, "bottom"))
        if padding is not None:
            each = _rebuilt(each, (padded(field, padding) for field in each.fields))
        if _text(each, "type") != "padding":
            found.append(each)
    return found


def _data_upgraded(layer: Message) -> Message:
    """What data_param says of transformations goes to transform_param."""

    def change(field: Field) -> Iterable[Field]:
        inner = field.value
        if field.name not in _DATA_SETTINGS or not isinstance(inner, Message):
            return (field,)
        moved = [each for each in inner.fields if each.name in _TRANSFORMED]
        if not moved:
            return (field,)
        kept = _rebuilt(inner, (each for each in inner.fields if each.name not in _TRANSFORMED))
        return replace(field, value=kept), _wrapped(layer, "transform_param", field.line, moved)

    return _changed(layer, change)


def _inputs(net: Message) -> list[Message]:
    """`input` with `input_shape`, or four `input_dim` each, as layers of type Input."""
    names, shapes = net.all("input"), net.all("input_shape")
    dims = net.all("input_dim")
    found = []
    for place, name in enumerate(names):
        sizes = dims[4 * place : 4 * place + 4]
        shape: list[Field] = [replace(each, name="shape") for each in shapes[place : place + 1]]
        if sizes:
            numbers = (replace(size, name="dim") for size in sizes)
            shape = [_wrapped(net, "shape", sizes[0].line, numbers)]
        if not shape:
            raise net.error(name.line, f"{name.told}: expected its input_shape or input_dim")
        found.append(_input_layer(net, name.line, name.value, shape))
    return found


def _input_layer(net: Message, line: int, name: Value, shape: Iterable[Field]) -> Message:
    fields = (
        Field("name", line, name),
        Field("type", line, "Input"),
        Field("top", line, name),
        _wrapped(net, "input_param", line, shape),
    )
    return Message(net.file, line, "layer", fields)
