from __future__ import annotations

import pytest

from knltrain.communication.internode.torch_failure import first_line, kind_of
from knltrain.errors import CollectiveError, ExchangeTimeout, PeerLost


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Timed out waiting 5000ms for recv operation to complete", ExchangeTimeout),
        ("wait timeout after 5 ms\nException raised from ...", ExchangeTimeout),
        ("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:9", PeerLost),
        ("writev [127.0.0.1]:9: Broken pipe", PeerLost),
        ("read: reset by peer", PeerLost),
        ("shapes differ", CollectiveError),
        ("", CollectiveError),
    ],
)
def test_kind_is_told_from_the_first_line(text: str, kind: type[Exception]) -> None:
    assert kind_of(RuntimeError(text)) is kind


def test_first_line_has_no_trace_and_is_never_empty() -> None:
    assert first_line(RuntimeError("a\nb")) == "a"
    assert first_line(RuntimeError(" ")) == "RuntimeError"
