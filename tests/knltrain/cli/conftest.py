"""The command inside this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from knltrain import cli


@pytest.fixture
def invoke() -> Callable[..., Result]:
    """invoke(*arguments): what the command prints, and with which exit code or error it ends."""
    return lambda *arguments: CliRunner().invoke(cli.commands, arguments)


@pytest.fixture
def exit_code(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int | str | None]:
    """exit_code(*arguments): that of `main`, which tells every known error."""

    def run(*arguments: str) -> int | str | None:
        monkeypatch.setattr("sys.argv", ["knltrain", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code

    return run


@pytest.fixture
def config_file(tmp_path: Path, run_toml: str) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(run_toml)
    return path
