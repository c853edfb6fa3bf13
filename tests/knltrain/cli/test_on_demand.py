"""Commands are imported when they are asked for."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from knltrain.cli.on_demand import OnDemandGroup


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> click.Group:
    package = tmp_path / "own_words"
    package.mkdir()
    (package / "__init__.py").touch()
    for name in ("dig_up", "fill"):
        text = f"import click\n@click.command()\ndef {name}():\n    '''To {name}.'''\n"
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("own_words", "own_words.dig_up", "own_words.fill"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return OnDemandGroup("words", package="own_words", names=("fill", "dig-up"))


def test_only_the_command_that_is_asked_for_is_imported(group: click.Group) -> None:
    assert CliRunner().invoke(group, ["dig-up"]).exit_code == 0
    assert "own_words.dig_up" in sys.modules
    assert "own_words.fill" not in sys.modules


def test_help_tells_of_all_and_no_other_name_is_known(group: click.Group) -> None:
    told = CliRunner().invoke(group, ["--help"]).output
    assert "dig-up  To dig_up." in told
    assert "fill    To fill." in told
    assert "No such command 'dig_up'" in CliRunner().invoke(group, ["dig_up"]).output
