"""`knltrain doctor`."""

from __future__ import annotations

import click

from knltrain.cli.options import as_json_option
from knltrain.cli.saying import say


@click.command()
@as_json_option
def doctor(as_json: bool) -> int:
    """Look whether this machine is fit for training; exit code 1 if something is not."""
    from knltrain.doctor import diagnose, format_text, to_json

    diagnosis = diagnose()
    say(to_json(diagnosis) if as_json else format_text(diagnosis))
    return int(diagnosis.level == "fail")
