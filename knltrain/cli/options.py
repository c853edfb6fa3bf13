"""Options and kinds of argument that several commands take."""

from __future__ import annotations

from pathlib import Path

import click

CONFIG = click.Path(path_type=Path)
RUN_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)

overrides_option = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Replace one key of CONFIG."
)
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
