"""What a failed operation of torch.distributed means.

The backends of PyTorch raise RuntimeError for everything, and tell the cause in words alone. This
is the one place that reads them; knltrain's own backends raise errors of their own.
"""

from __future__ import annotations

from knltrain.errors import CollectiveError, ExchangeTimeout, PeerLost

_TIMEOUTS = ("imed out", "imeout")
_LOSSES = ("onnection", "Broken pipe", "reset by peer", "is gone")


def kind_of(error: Exception) -> type[CollectiveError | ExchangeTimeout | PeerLost]:
    """ExchangeTimeout if time was up, PeerLost if a connection ended, else CollectiveError."""
    text = first_line(error)
    if any(sign in text for sign in _TIMEOUTS):
        return ExchangeTimeout
    return PeerLost if any(sign in text for sign in _LOSSES) else CollectiveError


def first_line(error: Exception) -> str:
    """The first line of an error's text, without the trace of C++; its class if there is none."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
