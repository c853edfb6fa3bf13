"""Prints a command's messages, with escapes for characters that the stream cannot encode."""

from __future__ import annotations

import sys

import click


def say(text: str, *, error: bool = False) -> None:
    """Print a line on standard output or error; characters that its encoding lacks are escaped.

    Without an explicit stream, click would write UTF-8 even where only ASCII is allowed.
    """
    click.echo(text, file=sys.stderr if error else sys.stdout)
