"""A network as JSON, with which it is built again without its source.

    {"format": 1, "name": "small", "input_shape": [28, 28, 1],
     "layers": [{"kind": "Convolution", "name": "conv1", "filters": 20, "kernel": 5}, ...],
     "outputs": [{"layer": "fc", "weight": 1.0}]}

A layer has the settings of its class in `knltrain.network.layers`; those that have their default
value are left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from knltrain.errors import NetworkError, unknown_name
from knltrain.network import layers as kinds
from knltrain.network.graph import Output
from knltrain.network.layers import Layer
from knltrain.network.network import Network

FORMAT: Final = 1

_KEYS: Final = {"format", "name", "input_shape", "layers", "outputs"}


@cache
def layer_kinds() -> Mapping[str, type[Layer]]:
    """The classes of layers by name."""
    found = {name: getattr(kinds, name) for name in kinds.__all__}
    return {
        name: kind
        for name, kind in found.items()
        if isinstance(kind, type) and issubclass(kind, Layer) and is_dataclass(kind)
    }


def network_to_json(network: Network) -> str:
    """The description of a network."""
    found = {
        "format": FORMAT,
        "name": network.name,
        "input_shape": network.input_shape,
        "layers": [_described(layer) for layer in network.layers],
        "outputs": [asdict(output) for output in network.outputs],
    }
    return json.dumps(found, indent=1, allow_nan=False) + "\n"


def network_from_json(text: str, where: str) -> Network:
    """The network of a description; `where` names the file in messages.

    Raises NetworkError for what is no description, and names the layer and setting.
    """
    try:
        found = json.loads(text, parse_constant=_refused, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise NetworkError(
            f"{where} is no JSON: {error}; expected a network's description"
        ) from None
    if not isinstance(found, dict) or found.keys() != _KEYS or found["format"] != FORMAT:
        told = sorted(found) if isinstance(found, dict) else type(found).__name__
        raise NetworkError(
            f"{where} is no network's description of format {FORMAT}, it has {told}: expected "
            f"{', '.join(sorted(_KEYS))}"
        )
    return Network(
        _checked(str, found["name"], f"{where}: name"),
        _checked(tuple[int, int, int], found["input_shape"], f"{where}: input_shape"),
        tuple(
            _layer(each, f"{where}: layer {number}")
            for number, each in enumerate(_checked(list[Any], found["layers"], f"{where}: layers"))
        ),
        _checked(tuple[Output, ...], found["outputs"], f"{where}: outputs"),
    )


def _refused(word: str) -> float:
    raise ValueError(f"{word} is no number of JSON")


def _finite(word: str) -> float:
    value = float(word)
    return value if math.isfinite(value) else _refused(word)


def _described(layer: Layer) -> dict[str, Any]:
    values = asdict(layer)  # type: ignore[call-overload]
    told = {
        each.name: values[each.name]
        for each in fields(layer)  # type: ignore[arg-type]
        if getattr(layer, each.name) != _default(each)
    }
    return {"kind": type(layer).__name__, **told}


def _default(field: Field[Any]) -> object:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _layer(told: object, where: str) -> Layer:
    values = dict(_checked(dict[str, Any], told, where))
    name = str(values.pop("kind", None))
    if name not in layer_kinds():
        raise NetworkError(f"{where}: {unknown_name('kind', name, layer_kinds())}")
    kind: Any = layer_kinds()[name]
    where = f"{where} ({name} '{values.get('name')}')"
    for key in values.keys() - {each.name for each in fields(kind)}:
        known = [each.name for each in fields(kind)]
        raise NetworkError(f"{where}: {unknown_name('setting', key, known)}")
    found: Layer = _checked(kind, values, where)
    return found


def _checked(kind: Any, value: object, where: str) -> Any:
    """A value of JSON as an instance of a type; NetworkError if it is none."""
    try:
        return _adapter(kind).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise NetworkError(
            f"{where}{': ' if place else ''}{place}: {first['msg']}, but it is {first['input']!r}"
        ) from None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
