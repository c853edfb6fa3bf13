from __future__ import annotations

import pytest

from knltrain.communication.rendezvous import interface_variables
from knltrain.communication.rendezvous.interface_variables import (
    GLOO,
    MPI,
    ONECCL,
    check_named,
    problem,
)
from knltrain.errors import ConfigError


@pytest.fixture(autouse=True)
def two_interfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A computer with these, and nothing named."""
    found = {"lo": "127.0.0.1", "eth0": "10.0.0.1"}
    monkeypatch.setattr(interface_variables, "interfaces", lambda: found)
    for variable in (*ONECCL, *GLOO):
        monkeypatch.delenv(variable, raising=False)


def test_nothing_that_is_named_is_nothing_wrong() -> None:
    assert problem((*ONECCL, *GLOO, *MPI), between_hosts=True) is None


@pytest.mark.parametrize("variable", [*ONECCL, *GLOO])
def test_loopback_is_refused_between_hosts_alone(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "lo")
    check_named([variable], between_hosts=False)
    with pytest.raises(
        ConfigError, match=rf"{variable}=lo: 'lo' on .* is the loopback.*: expected .*\(eth0 10\."
    ):
        check_named([variable], between_hosts=True)


@pytest.mark.parametrize("between_hosts", [False, True])
@pytest.mark.parametrize("variable", [*ONECCL, *GLOO])
def test_interface_that_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch, variable: str, between_hosts: bool
) -> None:
    monkeypatch.setenv(variable, "ib7")
    with pytest.raises(ConfigError, match=f"{variable}=ib7: 'ib7' on .* has no address there"):
        check_named([variable], between_hosts)


def test_names_are_read_as_the_libraries_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """libfabric takes a whole name, oneCCL a part of one, gloo several whole ones."""
    for variable in (*ONECCL, *GLOO):
        monkeypatch.setenv(variable, "eth0")
        assert problem([variable], between_hosts=True) is None
        monkeypatch.setenv(variable, "th")
    assert "FI_TCP_IFACE=th: 'th' on" in (problem(MPI, between_hosts=True) or "")
    assert problem(["CCL_KVS_IFACE"], between_hosts=True) is None
    monkeypatch.setenv("CCL_KVS_IFACE", "o")
    assert "is the loopback" in (problem(["CCL_KVS_IFACE"], between_hosts=True) or "")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth0,eth")
    assert "GLOO_SOCKET_IFNAME=eth0,eth: 'eth' on" in (problem(GLOO, between_hosts=True) or "")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth0,lo")
    assert problem(GLOO, between_hosts=False) is None
    assert "'lo' on" in (problem(GLOO, between_hosts=True) or "")
