"""Streams and events of a device, by what PyTorch calls them for its kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, final

import torch


def recorded(device: torch.device, **options: bool) -> Any:
    """An event in the stream that computes now; None on the host."""
    if device.type == "cpu":
        return None
    module = module_of(device)
    event = module.Event(**options)
    event.record(module.current_stream(device))
    return event


def module_of(device: torch.device) -> Any:
    """PyTorch's module for devices of this kind, such as torch.cuda."""
    return getattr(torch, device.type)


@final
class SideStream:
    """A stream beside the one that computes; on the host there is none, and nothing to wait for."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: Any = None

    def behind(self, event: Any = None) -> AbstractContextManager[None]:
        """Let the body copy there when an event has come, or else all that is computed before.

        The host waits for the copies.
        """
        if self._device.type == "cpu":
            return nullcontext()
        return self._behind(recorded(self._device) if event is None else event)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let the body copy there, without any wait."""
        if self._device.type == "cpu":
            yield
            return
        module = module_of(self._device)
        if self._stream is None:
            self._stream = module.Stream(self._device)
        with module.stream(self._stream):
            yield

    @contextmanager
    def _behind(self, event: Any) -> Iterator[None]:
        with self.at_once():
            self._stream.wait_event(event)
            yield
        self._stream.synchronize()
