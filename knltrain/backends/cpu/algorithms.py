"""The algorithms of convolutions that a user asks for, by layer and direction."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias

from knltrain.backends.cpu.lowering import DIRECTIONS, Algorithms
from knltrain.errors import ConfigError, unknown_name
from knltrain.network.network import Network

AUTO: Final = "auto"

Asked: TypeAlias = Mapping[str, Any]
"""By layer or pattern, as "conv*": an algorithm, or one for each of some directions."""


def asked_algorithms(network: Network, asked: Asked) -> Algorithms:
    """The algorithm of each convolution and direction that is not left to measurement.

    The first name or pattern that fits a layer counts. Raises ConfigError for names that fit none.
    """
    names = [each.name for each in network.layers if type(each).__name__ == "Convolution"]
    for pattern in asked:
        if not any(fnmatchcase(name, pattern) for name in names):
            told = unknown_name("convolution", pattern, names)
            raise ConfigError(f"backend.algorithms: {told}; '*' fits all")
    found = {}
    for name in names:
        chosen = next((each for key, each in asked.items() if fnmatchcase(name, key)), AUTO)
        ways = dict.fromkeys(DIRECTIONS, chosen) if isinstance(chosen, str) else chosen
        if own := {way: algorithm for way, algorithm in ways.items() if algorithm != AUTO}:
            found[name] = own
    return found
