"""How what nodes send each other is written: fewer bytes for slow links."""

from knltrain.exchange.wire.compressed import Compressed
from knltrain.exchange.wire.formats import Bfloat16, Int8, TopK, WireKernels
from knltrain.exchange.wire.traffic import sent_bytes
from knltrain.exchange.wire.wire_format import WireFormat

__all__ = ["Bfloat16", "Compressed", "Int8", "TopK", "WireFormat", "WireKernels", "sent_bytes"]
