"""Old forms of Caffe's nets and solvers in today's: V0, V1, inputs, transformations of data.

As `util/upgrade_proto.cpp` of Caffe does. Fields keep their lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from knltrain.interchange.caffe.message import Field, Message, Value, Word
from knltrain.interchange.caffe.v0 import (
    TRANSFORMED,
    from_v0,
    rebuilt,
    without_paddings,
    wrapped,
)

_SPELLINGS: Final = {
    **{word.upper(): word for word in ("AbsVal", "ArgMax", "BNLL", "Im2col", "LRN", "MVN", "ReLU")},
    "HDF5_DATA": "HDF5Data",
    "HDF5_OUTPUT": "HDF5Output",
    "SOFTMAX_LOSS": "SoftmaxWithLoss",
    "TANH": "TanH",
}
"""Types of V1 that are not spelled as their words."""

_DATA_SETTINGS: Final = ("data_param", "image_data_param", "window_data_param")


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
        old = without_paddings([from_v0(each) for each in old])
    return _inputs(net) + [_data_upgraded(each) for each in new or map(_from_v1, old)]


def _changed(message: Message, change: Callable[[Field], Iterable[Field]]) -> Message:
    return rebuilt(message, (each for field in message.fields for each in change(field)))


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
        params.append(wrapped(layer, "param", found[0].line, found))

    def change(field: Field) -> Iterable[Field]:
        if field.name in groups:
            return ()
        if field.name == "type" and isinstance(field.value, Word):
            spelled = "".join(word.capitalize() for word in field.value.split("_"))
            return (replace(field, value=_SPELLINGS.get(field.value, spelled)),)
        return (field,)

    changed = _changed(layer, change)
    return rebuilt(layer, (*changed.fields, *params))


def _data_upgraded(layer: Message) -> Message:
    """What data_param says of transformations goes to transform_param."""

    def change(field: Field) -> Iterable[Field]:
        inner = field.value
        if field.name not in _DATA_SETTINGS or not isinstance(inner, Message):
            return (field,)
        moved = [each for each in inner.fields if each.name in TRANSFORMED]
        if not moved:
            return (field,)
        kept = rebuilt(inner, (each for each in inner.fields if each.name not in TRANSFORMED))
        return replace(field, value=kept), wrapped(layer, "transform_param", field.line, moved)

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
            shape = [wrapped(net, "shape", sizes[0].line, numbers)]
        if not shape:
            raise net.error(name.line, f"{name.told}: expected its input_shape or input_dim")
        found.append(_input_layer(net, name.line, name.value, shape))
    return found


def _input_layer(net: Message, line: int, name: Value, shape: Iterable[Field]) -> Message:
    fields = (
        Field("name", line, name),
        Field("type", line, "Input"),
        Field("top", line, name),
        wrapped(net, "input_param", line, shape),
    )
    return Message(net.file, line, "layer", fields)
