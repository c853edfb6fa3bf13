"""The words of `knltrain launch`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import Result

from knltrain.launch import on_hosts

Invoke = Callable[..., Result]


def test_words_after_the_hosts_are_those_of_the_command(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[object, ...]] = []

    def launch(*arguments: object) -> int:
        seen.append(arguments)
        return 3

    monkeypatch.setattr(on_hosts, "launch", launch)
    done = invoke(
        "launch", "--hosts", "a, b", "train", "run.toml", "--set", "x=1", "--workers", "2"
    )
    words = ("train", "run.toml", "--set", "x=1", "--workers", "2")
    assert seen == [(["a", "b"], words, on_hosts.VIA, None)]
    assert done.exit_code == 3


def test_hosts_and_words_are_asked_for(invoke: Invoke) -> None:
    assert "Missing option '--hosts'" in invoke("launch", "train").output
    assert "Missing argument" in invoke("launch", "--hosts", "a").output
