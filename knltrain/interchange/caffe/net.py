"""A net of Caffe as a network of ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

from knltrain.errors import ConfigError, NetworkError
from knltrain.interchange.caffe.converters import CONVERTERS
from knltrain.interchange.caffe.message import Message
from knltrain.interchange.caffe.net_layer import DataSource, MapShape
from knltrain.interchange.caffe.phases import NetState, is_in
from knltrain.interchange.caffe.sources import DATA_CONVERTERS, batch_of
from knltrain.interchange.caffe.upgrading import upgraded_net
from knltrain.interchange.caffe.walk import Learnable, Walk
from knltrain.network.graph import Output, ancestors
from knltrain.network.layers import IMAGES, Layer
from knltrain.network.network import Network

_ONLY_IN_TESTS: Final = {"Accuracy", "ArgMax", "Silence", "Softmax", "Split"}
_MOST_TOLD: Final = 100


@final
@dataclass(frozen=True, slots=True)
class CaffeNet:
    """A network, its data, the images of a test batch, and lines and numbers of its layers.

    `loss` is the kind of its losses, None without any, and the line of the first.
    `notes` say what was dropped, each with file and line. `learnable` are Caffe's arrays in order.
    """

    network: Network
    source: DataSource
    test_batch: int | None
    places: dict[str, str]
    numbers: dict[str, list[str]]
    notes: tuple[str, ...]
    loss: tuple[str, int] | None = None
    learnable: tuple[Learnable, ...] = ()


def network_of(net: Message, train: NetState, test: NetState, shape: MapShape | None) -> CaffeNet:
    """The network that a net is in the state `train`; `shape` (H,W,C) is that of its images.

    A net without a loss is one of evaluation (`deploy.prototxt`), and as it is in `test`. Raises
    ConfigError with all that cannot be kept, a line for each.
    """
    layers = upgraded_net(net)
    for layer in layers:
        name = next((each.value for each in layer.fields if each.name == "name"), "")
        layer.title = f"layer {str(name)[:60]!r}"
    has_loss = any(layer.text("type").endswith("Loss") for layer in layers)
    state = train.merged(net.message("state")) if has_loss else test
    inside = [layer for layer in layers if is_in(layer, state)]
    walk = Walk(shape)
    for layer in inside:
        walk.step(layer, {**CONVERTERS, **DATA_CONVERTERS})
    test = test.merged(net.message("state"))
    others = [each for each in layers if is_in(each, test) and not is_in(each, state)]
    for layer in others:
        if layer.text("type") not in _ONLY_IN_TESTS | DATA_CONVERTERS.keys():
            walk.refusals.append(
                str(layer.error(layer.line, "is only in tests: knltrain tests what it trains"))
            )
    name = net.text("name") or "caffe"
    walk.tell_unread(net, deep=False)
    if not walk.refusals and not walk.layers:
        walk.refusals.append(f"{net.file}: a net without layers: expected at least one")
    outputs = () if walk.refusals else _outputs(walk, net)
    if walk.refusals:
        raise ConfigError("\n".join(_told(walk.refusals)))
    batches = (batch_of(layer) for layer in (*others, *inside))
    try:
        network = Network(name, walk.sources[0].shape, _needed(walk, outputs), outputs)
    except NetworkError as error:
        raise ConfigError(f"{net.file}: {error}") from error
    return CaffeNet(
        network,
        walk.sources[0],
        next((batch for batch in batches if batch is not None), None),
        walk.places,
        walk.numbers,
        walk.notes,
        next(((each.kind, each.line) for each in walk.outputs), None),
        tuple(walk.learnable),
    )


def _told(refusals: Sequence[str]) -> list[str]:
    """The first of them; a file of another kind may have thousands."""
    more = len(refusals) - _MOST_TOLD
    return [*refusals[:_MOST_TOLD], *([f"and {more:,} more"] if more > 0 else [])]


def _outputs(walk: Walk, net: Message) -> tuple[Output, ...]:
    """The logits of the losses, that of the largest weight first, of equal ones the last.

    Without a loss, the only blob that nothing reads.
    """
    if walk.outputs:
        found = sorted(walk.outputs, key=lambda each: each.weight)
        return tuple(Output(each.layer, each.weight) for each in reversed(found))
    ends = [
        blob.source
        for name, blob in walk.blobs.items()
        if name not in walk.read
        and blob.kind in ("values", "probabilities")
        and blob.source != IMAGES
    ]
    if len(set(ends)) != 1:
        walk.refusals.append(
            f"{net.file}: no SoftmaxWithLoss, and {len(set(ends))} layers whose outputs nothing "
            f"reads ({', '.join(ends)}): expected one, the logits"
        )
    return tuple(Output(end) for end in ends[:1])


def _needed(walk: Walk, outputs: Sequence[Output]) -> tuple[Layer, ...]:
    """The layers that outputs depend on; the layer before is left out of `inputs`."""
    inputs = {layer.name: layer.inputs for layer in walk.layers}
    needed = ancestors([output.layer for output in outputs], inputs)
    found: list[Layer] = []
    for layer in walk.layers:
        if layer.name not in needed:
            where = f"{walk.places[layer.name]}: layer '{layer.name}'"
            walk.noted.setdefault("dropped, as no loss depends on it", []).append(where)
            continue
        before = found[-1].name if found else IMAGES
        changed: Any = layer
        found.append(replace(changed, inputs=()) if layer.inputs == (before,) else layer)
    return tuple(found)
