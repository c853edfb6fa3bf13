"""Prints a command's messages, with escapes for characters that the stream cannot encode."""

from __future__ import annotations

import sys

import click


def say(text: str, *, error: bool = False) -> None:
    """Print a line on standard output or error, with escapes for letters that it lacks.

    Left to choose a stream, click writes UTF-8 where only ASCII was to be written.
    """
    click.echo(text, file=sys.stderr if error else sys.stdout)
