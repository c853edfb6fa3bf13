"""The algorithms of convolutions that a user asks for, by layer and direction."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias

from knltrain.backends.cpu.lowering import DIRECTIONS, Algorithms
from knltrain.errors import ConfigError, unknown_name
from knltrain.network.network import Network

AUTO: Final = "auto"

_ABLE: Final = {"strassen": ("forward", "backward_data")}
"""The directions of algorithms that cannot compute all."""

Asked: TypeAlias = Mapping[str, Any]
"""By layer or pattern, as "conv*": an algorithm, or one for each of some directions."""


def asked_algorithms(network: Network, asked: Asked) -> Algorithms:
    """The algorithm of each convolution and direction that is not left to measurement.

    A layer's name counts before patterns, and a longer pattern before a shorter one, so that their
    order means nothing. An algorithm alone is that of all directions that it can compute. Raises
    ConfigError for names and patterns that fit no convolution.
    """
    names = [each.name for each in network.layers if type(each).__name__ == "Convolution"]
    if asked and not names:
        raise ConfigError(
            f"backend.algorithms: {', '.join(map(repr, asked))}: expected a network with "
            f"convolutions, and {network.name} has none; leave backend.algorithms out"
        )
    for pattern in asked:
        if not any(fnmatchcase(name, pattern) for name in names):
            told = unknown_name("convolution", pattern, names)
            raise ConfigError(f"backend.algorithms: {told}; '*' fits all")
    found, ordered = {}, sorted(asked, key=len, reverse=True)
    for name in names:
        fitting = (key for key in ordered if fnmatchcase(name, key))
        chosen = asked[name] if name in asked else asked.get(next(fitting, ""), AUTO)
        ways = chosen
        if isinstance(chosen, str):
            ways = dict.fromkeys(_ABLE.get(chosen, DIRECTIONS), chosen)
        if own := {way: algorithm for way, algorithm in ways.items() if algorithm != AUTO}:
            found[name] = own
    return found
