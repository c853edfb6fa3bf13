"""Layers that choose, reorder or scale whole channels."""

from __future__ import annotations

from typing import Any, Final

from knltrain.interchange.torch_terms.terms import (
    CHANNEL_AXES,
    Call,
    Reader,
    Readers,
    Terms,
    TorchModule,
    TorchTerms,
)
from knltrain.network.layers import ChannelScale, ChannelShuffle, ChannelSlice, Layer, Shape

_WHOLE: Final = 2**31
"""An end of a slice from which on it is that of whatever is there."""


def _slice(layer: ChannelSlice, _shape: Shape) -> TorchTerms:
    arguments = {"first": layer.first, "last": layer.last}
    return TorchTerms((TorchModule("ChannelSlice", arguments),))


def _shuffle(layer: ChannelShuffle, _shape: Shape) -> TorchTerms:
    return TorchTerms((TorchModule("ChannelShuffle", {"groups": layer.groups}),))


def _scale(_layer: ChannelScale, shape: Shape) -> TorchTerms:
    return TorchTerms((TorchModule("ChannelScale", {"channels": shape[-1]}),))


def read_scale(call: Call) -> Layer:
    """Of a product with a parameter that has a factor for each channel."""
    (parameter,) = call.parameters
    axis = CHANNEL_AXES.get(call.forms[0])
    if axis is None:
        raise call.refused("a product of flattened maps and a parameter, expected maps or vectors")
    values = call.shapes["other" if parameter == "self" else "self"]
    wanted = tuple(size if place == axis else 1 for place, size in enumerate(values))
    found = call.shapes[parameter]
    while len(found) > len(wanted) and found[0] == 1:
        found = found[1:]
    found = (1,) * (len(wanted) - len(found)) + found
    if found != wanted:
        raise call.refused(
            f"a product of {values} and a parameter of shape {call.shapes[parameter]}, expected a "
            f"factor for each channel, {wanted}"
        )
    return ChannelScale(call.name, inputs=call.inputs)


def _part(call: Call, first: Any, last: Any) -> Layer | None:
    """Channels `first` to `last` of the input; None if these are all."""
    if not (isinstance(first, int) and isinstance(last, int)):
        raise call.refused(f"channels {first} to {last}, expected whole numbers")
    channels = call.shapes["self"][CHANNEL_AXES[call.forms[0]]]
    if (first, last) == (0, channels):
        return None
    if first >= last:
        raise call.refused(f"channels {first} to {last} of {channels}, expected one or more")
    return ChannelSlice(call.name, first, last, call.inputs)


def _read_slice(call: Call) -> Layer | None:
    """Of `x[:, first:last]`, which slices the images, too."""
    first, last = call.arguments["start"], call.arguments["end"]
    first, last = 0 if first is None else first, _WHOLE if last is None else last
    is_plain = isinstance(first, int) and isinstance(last, int)
    if is_plain and call.arguments["step"] == 1 and first == 0 and last >= _WHOLE:
        return None
    call.expect_channels()
    call.expect(step=1)
    if is_plain:
        channels = call.shapes["self"][CHANNEL_AXES[call.forms[0]]]
        first, last, _ = slice(first, last).indices(channels)
    return _part(call, first, last)


def _read_narrowed(call: Call) -> Layer | None:
    """Of `torch.narrow`."""
    call.expect_channels()
    first, length = call.arguments["start"], call.arguments["length"]
    if not (isinstance(first, int) and isinstance(length, int)):
        raise call.refused(f"{length} channels from {first} on, expected whole numbers")
    first += call.shapes["self"][CHANNEL_AXES[call.forms[0]]] if first < 0 else 0
    return _part(call, first, first + length)


def _read_part(call: Call) -> Layer | None:
    """Of one of the results of `chunk` and its kin; `sizes` are the channels of each."""
    call.expect_channels()
    sizes, number = call.arguments["sizes"], call.arguments["part"]
    first = sum(sizes[:number])
    return _part(call, first, first + sizes[number])


def _read_shuffle(call: Call) -> Layer:
    return ChannelShuffle(call.name, call.arguments["groups"], call.inputs)


TERMS: Final[Terms] = {
    ChannelScale: _scale,
    ChannelShuffle: _shuffle,
    ChannelSlice: _slice,
}
READERS: Final[Readers] = {
    "channel_shuffle": Reader(_read_shuffle),
    "narrow": Reader(_read_narrowed, tuple(CHANNEL_AXES)),
    "slice": Reader(_read_slice, tuple(CHANNEL_AXES)),
    **{
        name: Reader(_read_part, tuple(CHANNEL_AXES))
        for name in ("chunk", "split", "split_with_sizes", "tensor_split")
    },
}
