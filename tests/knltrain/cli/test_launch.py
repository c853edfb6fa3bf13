"""The words of `knltrain launch`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from knltrain.launch import on_hosts

Invoke = Callable[..., Result]


def test_words_after_the_hosts_are_those_of_the_command(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
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
    assert seen == [(("a", "b"), words, on_hosts.VIA, None)]
    assert done.exit_code == 3
    invoke("launch", "--hosts", "n[08-10],m", "--via", "sh {host}", "doctor")
    assert seen[1] == (("n08", "n09", "n10", "m"), ("doctor",), "sh {host}", None)
    file = tmp_path / "machines"
    file.write_text("first # the one that others reach\n\nn[1-2]\n")
    invoke("launch", "--machine-file", str(file), "--address", "10.0.0.1", "doctor")
    assert seen[2] == (("first", "n1", "n2"), ("doctor",), on_hosts.VIA, "10.0.0.1")


def test_hosts_and_words_are_asked_for(invoke: Invoke) -> None:
    said = "expected either --hosts A,B,... or --machine-file FILE"
    assert said in invoke("launch", "train").output
    assert said in invoke("launch", "--hosts", "a", "--machine-file", __file__, "train").output
    assert "Missing argument" in invoke("launch", "--hosts", "a").output
