"""What is done on a stream beside the one that computes waits for what it must, and no more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
import torch

from knltrain.backends.torch.mirrors import HOST, Mirrors
from knltrain.backends.torch.streams import SideStream, recorded

META = torch.device("meta")


class Streams:
    """A kind of device whose streams write down what they are told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def Stream(self, device: torch.device) -> Streams:  # noqa: N802
        return self

    def Event(self, **options: bool) -> Streams:  # noqa: N802
        self.told += [name for name, wanted in options.items() if wanted]
        return self

    def record(self, stream: object) -> None:
        self.told.append(f"recorded on {stream}")

    def current_stream(self, device: torch.device) -> str:
        return "the computing stream"

    def wait_event(self, event: object) -> None:
        self.told.append("waited for it")

    def synchronize(self) -> None:
        self.told.append("all is done there")

    @contextmanager
    def stream(self, side: object) -> Iterator[None]:
        self.told.append("on the side")
        yield
        self.told.append("back")


def test_copies_beside_a_gradient_wait_for_what_was_computed_before_it(
    streams: Streams,
) -> None:
    beside = Mirrors(META).beside()
    streams.told.append("the gradient is computed")
    thread = threading.Thread(target=lambda: _copied(beside, streams))
    thread.start()
    thread.join()
    assert streams.told == [
        "recorded on the computing stream",
        "the gradient is computed",
        "on the side",
        "waited for it",
        "copied",
        "back",
        "all is done there",
    ]


def _copied(beside: AbstractContextManager[None], streams: Streams) -> None:
    with beside:
        streams.told.append("copied")


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Streams:
    """Those of "meta"."""
    found = Streams()
    monkeypatch.setattr(torch, "meta", found, raising=False)
    return found


def test_an_event_that_is_given_is_the_only_one_that_is_waited_for(streams: Streams) -> None:
    event = recorded(META, external=True)
    with SideStream(META).behind(event):
        streams.told.append("copied")
    assert streams.told == [
        "external",
        "recorded on the computing stream",
        "on the side",
        "waited for it",
        "copied",
        "back",
        "all is done there",
    ]


def test_what_is_sent_at_once_waits_for_nothing(streams: Streams) -> None:
    with SideStream(META).at_once():
        streams.told.append("copied")
    assert streams.told == ["on the side", "copied", "back"]


def test_the_host_has_neither() -> None:
    assert recorded(HOST) is None
    side = SideStream(HOST)
    with side.behind(), side.at_once():
        pass
