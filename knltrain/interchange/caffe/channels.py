"""Caffe's layers that choose or reorder channels."""

from __future__ import annotations

from itertools import pairwise

from knltrain.interchange.caffe.net_layer import NetLayer
from knltrain.interchange.caffe.walk import Walk
from knltrain.network.layers import ChannelShuffle, ChannelSlice


def slices(layer: NetLayer, walk: Walk) -> None:
    """Slice: channels between `slice_point`s, or as many for each top.

    A top with the layer's name keeps it, others are called by their number.
    """
    told = layer.message.message("slice_param")
    axis = told.whole("axis", told.whole("slice_dim", 1))
    if len(layer.inputs) != 1 or not layer.tops or axis not in (1, -3):
        raise layer.refused(
            f"Slice of {list(layer.bottoms)} along axis {axis}: expected one bottom, and axis 1, "
            "the channels",
            told.line_of("axis"),
        )
    (blob,) = layer.inputs
    layer.check_values(blob)
    blob = walk.unflattened(layer, blob)
    channels, count, points = blob.shape[-1], len(layer.tops), told.wholes("slice_point")
    if not points and channels % count == 0:
        points = list(range(channels // count, channels, channels // count))
    ends = [0, *points, channels]
    if len(points) != count - 1 or any(first >= last for first, last in pairwise(ends)):
        raise layer.refused(
            f"slice_point {points or 'left out'} of {channels} channels for {count} tops: expected "
            "a point between each two tops, rising, or none and a multiple of the tops",
            told.line_of("slice_point"),
        )
    for place, (top, bounds) in enumerate(zip(layer.tops, pairwise(ends), strict=True)):
        name = layer.name if top == layer.name else f"{layer.name}/{place + 1}"
        walk.put(layer, walk.add_hidden(layer, ChannelSlice(name, *bounds), (blob,)), place)


def shuffle(layer: NetLayer, walk: Walk) -> None:
    """ShuffleChannel, of the Caffe of ShuffleNet."""
    groups = layer.message.message("shuffle_channel_param").whole("group", 1)
    walk.add(layer, ChannelShuffle(layer.name, groups), (layer.only(is_map=True),))
