"""A data pool's identity through the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.cluster.data_pool import VARIABLE, DataPoolIdentity, data_pool_identity
from knltrain.errors import RunFolderError


@pytest.mark.parametrize("data_fd", [None, 9])
def test_an_identity_survives_the_environment(
    data_fd: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = DataPoolIdentity(Path("runs/a = b"), 4, 2, 8, 3, 5, 6, data_fd)
    assert data_pool_identity(identity.to_environment()) == identity
    monkeypatch.setenv(VARIABLE, identity.to_environment()[VARIABLE])
    assert data_pool_identity() == identity


@pytest.mark.parametrize(
    "text", ["", "x", "7", "{}", "[1]", "null", '{"run_folder": "r"}', "[" * 20_000]
)
def test_what_no_launcher_writes_is_named(text: str) -> None:
    with pytest.raises(RunFolderError, match=f"{VARIABLE} is .*started by `knltrain train`"):
        data_pool_identity({VARIABLE: text})


@pytest.mark.parametrize("value", ["-1", '"7"', "2.5", "true"])
def test_numbers_are_numbers(value: str) -> None:
    whole = DataPoolIdentity(Path("r"), 4, 2, 8, 3, 5, 6).to_environment()[VARIABLE]
    with pytest.raises(RunFolderError, match="is started by"):
        data_pool_identity({VARIABLE: whole.replace('"threads": 3', f'"threads": {value}')})
    with pytest.raises(RunFolderError, match="None"):
        data_pool_identity({})
