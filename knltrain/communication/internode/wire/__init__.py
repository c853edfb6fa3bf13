"""Wire formats of vectors between nodes: fewer bytes for slow links."""

from knltrain.communication.internode.wire.compressed import CompressedCollective
from knltrain.communication.internode.wire.formats import Bfloat16, Int8, TopK, WireKernels
from knltrain.communication.internode.wire.traffic import sent_bytes
from knltrain.communication.internode.wire.wire_format import WireFormat

__all__ = [
    "Bfloat16",
    "CompressedCollective",
    "Int8",
    "TopK",
    "WireFormat",
    "WireKernels",
    "sent_bytes",
]
