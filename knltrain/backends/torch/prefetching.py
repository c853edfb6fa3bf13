"""The next batch, copied to a device while that computes the present one."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias, final

import torch

from knltrain.backends.torch.streams import SideStream, module_of, recorded

There: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""Images (N,C,H,W) and labels of a batch."""


class _Sent(NamedTuple):
    key: object
    there: There
    arrived: Any


@final
class Prefetching:
    """Copies one batch ahead to `device`, on a stream of its own.

    On the host it is copied at once, and for tests alone.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._side = SideStream(device)
        self._sent: _Sent | None = None

    def send(self, key: object, here: There) -> None:
        """Begin to copy a batch of the host, which must stay as it is until it is taken."""
        if self._device.type == "cpu":
            self._sent = _Sent(key, (here[0].clone(), here[1].clone()), None)
            return
        with self._side.at_once():
            images, labels = (each.to(self._device, non_blocking=True) for each in here)
            self._sent = _Sent(key, (images, labels), recorded(self._device))

    def taken(self, key: object) -> There | None:
        """The batch that was sent with this key; what the device computes next waits for it."""
        sent = self._sent
        if sent is None or sent.key != key:
            return None
        self._sent = None
        if sent.arrived is not None:
            current = module_of(self._device).current_stream(self._device)
            current.wait_event(sent.arrived)
            for each in sent.there:
                each.record_stream(current)  # its memory is the other stream's
        return sent.there

    def clear(self) -> None:
        """Release what was sent."""
        self._sent = None
