"""A network with its parameters as files of Caffe: deploy.prototxt and .caffemodel."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, final

from knltrain.errors import NetworkError
from knltrain.interchange.caffe.caffemodel import LAYERS
from knltrain.interchange.caffe.layer_forms import (
    Form,
    Settings,
    Views,
    for_opencv,
    forms_of,
    refused,
)
from knltrain.interchange.caffe.wire_writing import (
    Parts,
    blob_message,
    message_field,
    size_of,
    text_field,
)
from knltrain.network.layers import IMAGES, ChannelProduct, Dense, Flatten, Layer
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector

_LARGEST_FILE: Final = (1 << 31) - 1
"""Of a message of protocol buffers."""
_NAME, _TYPE, _BOTTOM, _TOP, _BLOBS = 1, 2, 3, 4, 7
"""Numbers of a layer's fields."""
_WORDS: Final = ("norm_region", "operation", "pool", "round_mode")
"""Settings whose values are words of an enumeration, without quotes."""


@final
@dataclass(frozen=True, slots=True)
class CaffeFiles:
    """The text of deploy.prototxt, the parts of the .caffemodel, and what must be known of them."""

    prototxt: str
    caffemodel: Parts
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _CaffeLayer:
    name: str
    form: Form
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]


def caffe_files(
    network: Network, parameters: ParameterVector, for_opencv: bool = False
) -> CaffeFiles:
    """The network as it is in tests, behind blob "data", with a Softmax at its end.

    Auxiliary outputs, and what only they need, are left out. `for_opencv` takes OpenCV's fields
    where they differ from those of Caffe. Raises NetworkError, with all layers that Caffe has not.
    """
    layers, notes = _layers_of(network, parameters, for_opencv)
    height, width, channels = network.input_shape
    taken = {top for layer in layers for top in layer.tops}
    text = [f"name: {json.dumps(network.name)}"]
    shape = " ".join(f"dim: {size}" for size in (1, channels, height, width))
    data = _free("data", taken)
    text += [f'layer {{ name: "{data}" type: "Input" top: "{data}"']
    text += [f"  input_param {{ shape {{ {shape} }} }} }}"]
    text += map(_layer_text, layers)
    content = text_field(1, network.name)
    for layer in layers:
        content += message_field(LAYERS, _layer_message(layer))
    if size_of(content) > _LARGEST_FILE:
        raise NetworkError(
            f"network '{network.name}' takes {size_of(content):,} bytes as a .caffemodel: "
            f"expected at most {_LARGEST_FILE:,}, Caffe's limit; an .onnx file has none"
        )
    return CaffeFiles("\n".join(text) + "\n", content, tuple(notes))


def _layers_of(
    network: Network, parameters: ParameterVector, opencv: bool
) -> tuple[list[_CaffeLayer], list[str]]:
    """The layers of Caffe in their order, and notes on some of them."""
    ours = network.needed_for(network.outputs[:1])
    taken = {layer.name for layer in ours}
    blobs = {IMAGES: _free("data", taken)}
    found: list[_CaffeLayer] = []
    notes: list[str] = []
    refusals: list[str] = []
    unread: list[str] = []
    for layer in ours:
        bottoms = tuple(blobs[name] for name in network.inputs_of(layer))
        try:
            forms = _checked_forms(network, layer, parameters)
            if opencv:
                forms = tuple(for_opencv(layer, form) for form in forms)
        except NetworkError as error:
            refusals.append(str(error))
            forms = ()
        blobs[layer.name] = layer.name if forms else bottoms[0]
        for form in forms:
            name = _free(layer.name + form.suffix, taken) if form.suffix else layer.name
            tops = [_free(layer.name + each, taken) if each else layer.name for each in form.tops]
            taken |= {*tops, name}
            unread += (top for top in tops if top != layer.name)
            found.append(_CaffeLayer(name, form, bottoms, tuple(tops)))
            bottoms = (layer.name,)
            if form.note and not opencv:
                notes.append(f"layer '{layer.name}': {form.note}; others refuse it")
    if refusals:
        raise NetworkError("\n".join(refusals))
    if unread:
        silence = _free("silence", taken)
        found.append(_CaffeLayer(silence, Form("Silence"), tuple(unread), ()))
    if len(network.output_shape) == 1:
        end = _free("prob", {each.name for each in found})
        logits = blobs[network.outputs[0].layer]
        found.append(_CaffeLayer(end, Form("Softmax"), (logits,), (end,)))
    return found, notes


def _checked_forms(network: Network, layer: Layer, parameters: ParameterVector) -> tuple[Form, ...]:
    inputs = network.inputs_of(layer)
    if isinstance(layer, ChannelProduct) and not _is_flat(network, inputs[1]):
        raise refused(layer, "factors that are means of maps have four axes; put a Dense between")
    views: Views = {
        spec.role: parameters.views[spec.name]
        for spec in network.parameters
        if spec.layer == layer.name
    }
    return forms_of(layer, network.input_shapes(layer), views)


def _is_flat(network: Network, name: str) -> bool:
    """Whether a vector has no axes of 1 pixel in Caffe, as behind a global pooling."""
    layers = {layer.name: layer for layer in network.layers}
    while name in layers:
        layer = layers[name]
        (before, *_) = network.inputs_of(layer)
        if network.shape_of(before) != network.shape_of(name):
            return isinstance(layer, Dense | Flatten)
        if isinstance(layer, Dense):
            return True
        name = before
    return False


def _free(name: str, taken: Iterable[str]) -> str:
    """A name that no layer has."""
    known = set(taken)
    while name in known:
        name += "_"
    return name


def _layer_text(layer: _CaffeLayer) -> str:
    blobs = [f'bottom: "{name}"' for name in layer.bottoms]
    blobs += [f'top: "{name}"' for name in layer.tops]
    head = f'layer {{ name: "{layer.name}" type: "{layer.form.kind}" {" ".join(blobs)}'
    if layer.form.settings is None:
        return f"{head} }}"
    return f"{head}\n  {layer.form.message} {{ {' '.join(_told(layer.form.settings))} }} }}"


def _told(settings: Settings) -> Iterator[str]:
    for key, value in settings.items():
        if isinstance(value, bool):
            yield f"{key}: {'true' if value else 'false'}"
        elif isinstance(value, str) and key not in _WORDS:
            yield f"{key}: {json.dumps(value)}"
        else:
            yield from (
                f"{key}: {each}" for each in (value if isinstance(value, list) else [value])
            )


def _layer_message(layer: _CaffeLayer) -> Parts:
    parts = [*text_field(_NAME, layer.name), *text_field(_TYPE, layer.form.kind)]
    for name in layer.bottoms:
        parts += text_field(_BOTTOM, name)
    for name in layer.tops:
        parts += text_field(_TOP, name)
    for blob in layer.form.blobs:
        parts += message_field(_BLOBS, blob_message(blob))
    return parts
