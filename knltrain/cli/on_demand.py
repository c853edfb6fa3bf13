"""A group of commands, each imported when it is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any, final

import click


@final
class OnDemandGroup(click.Group):
    """A group whose command `import-onnx` is the function `import_onnx` of the module so called.

    The module lies in `package`. Only `--help` of the group imports all of them.
    """

    def __init__(
        self, *arguments: Any, package: str = "", names: tuple[str, ...] = (), **settings: Any
    ) -> None:
        super().__init__(*arguments, **settings)
        self._package, self._names = package, names

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names in the order of the alphabet."""
        return sorted(self._names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command; None if there is none of this name."""
        if cmd_name not in self._names:
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(import_module(f"{self._package}.{name}"), name)
        assert isinstance(command, click.Command)
        return command
