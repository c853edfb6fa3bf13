"""Options and argument types that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Any, final

import click


@final
class PathFromHome(click.Path):
    """A path whose leading ~ is the home folder, also where a shell leaves it: --json=~/a."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, checked as `click.Path` does."""
        try:
            value = Path(value).expanduser() if str(value).startswith("~") else value
        except RuntimeError:
            self.fail(
                f"'{value}': no home folder is known for it; expected a path in full, or ./~ for a "
                "file that is called so",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


CONFIG = PathFromHome(path_type=Path)
RUN_FOLDER = PathFromHome(exists=True, file_okay=False, path_type=Path)

overrides_option = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Replace one key of CONFIG."
)
workers_option = click.option(
    "--workers",
    metavar="N|auto|UNIT",
    help="Number of workers, or one for each core, tile, l3, numa (node) or package.",
)
other_data_option = click.option(
    "--accept-other-data",
    "accepts_other_data",
    is_flag=True,
    help="Take the data that are there now, though the run has learned from others.",
)
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
