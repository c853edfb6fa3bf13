"""Paths on the command line."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from knltrain.cli.options import CONFIG, RUN_FOLDER


def test_a_tilde_is_a_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert CONFIG.convert("~/run.toml", None, None) == tmp_path / "run.toml"
    assert CONFIG.convert("./~", None, None) == Path("~")
    assert CONFIG.convert("run.toml", None, None) == Path("run.toml")
    (tmp_path / "run").mkdir()
    assert RUN_FOLDER.convert("~/run", None, None) == tmp_path / "run"


def test_home_of_nobody_and_folder_that_is_not_there_are_refused() -> None:
    with pytest.raises(click.BadParameter, match="'~nobody-at-all/a': no home folder is known"):
        CONFIG.convert("~nobody-at-all/a", None, None)
    with pytest.raises(click.BadParameter, match="does not exist"):
        RUN_FOLDER.convert("~/nothing-of-that-name", None, None)
