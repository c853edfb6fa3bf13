from __future__ import annotations

import pytest

from knltrain.communication.rendezvous.network_interface import (
    address_towards,
    interface_of,
    interfaces,
    is_loopback,
)
from knltrain.errors import CollectiveError


def test_every_interface_is_found_by_its_address() -> None:
    found = interfaces()
    assert found["lo"] == "127.0.0.1"
    for address in found.values():
        name = interface_of(address)
        assert name is not None
        assert found[name] == address
    assert interface_of("192.0.2.77") is None


def test_the_way_to_this_computer_is_the_loopback() -> None:
    assert address_towards("127.0.0.1") == "127.0.0.1"
    assert is_loopback(address_towards("localhost"))
    assert not is_loopback("10.0.0.1")


def test_a_host_without_a_way_is_named_with_the_interfaces_there_are() -> None:
    with pytest.raises(CollectiveError, match=r"to 'no such host': .* \(lo 127\.0\.0\.1"):
        address_towards("no such host")
