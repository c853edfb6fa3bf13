"""The wire formats, for the tests."""

from __future__ import annotations

from collections.abc import Callable

from knltrain.communication.internode.wire.formats import Bfloat16, Float4, Int8, TopK
from knltrain.communication.internode.wire.wire_format import WireFormat
from vectorized_ops.reference import top_k, wire

FORMATS: dict[str, Callable[[int], WireFormat]] = {
    "bfloat16": lambda size: Bfloat16(wire),
    "int8": lambda size: Int8(wire),
    "float4": lambda size: Float4(wire),
    "top_k": lambda size: TopK(top_k, 0.02, size),
}
"""By the most values that are encoded at a time."""

KEEPING = ["int8", "float4", "top_k"]
"""Those that keep a residual."""
