"""Options and argument types that several commands take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import click
from click.core import ParameterSource


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


@final
class FiniteRange(click.FloatRange):
    """A float in a range, which is neither NaN nor infinite."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, checked as `click.FloatRange` does."""
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{found} is no finite number.", param, ctx)
        return found


NOT_NEGATIVE = FiniteRange(min=0)
ABOVE_ZERO = FiniteRange(min=0, min_open=True)

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


def refuse_own_keys(overrides: Sequence[str], own: Mapping[str, str]) -> None:
    """UsageError for --set of a key that the command sets itself; `own` tells what is expected."""
    for each in overrides:
        if (key := each.partition("=")[0].strip()) in own:
            raise click.UsageError(f"--set {key}: expected {own[key]}")


def refuse_without(option: str, is_given: bool, others: Sequence[str]) -> None:
    """UsageError where one of the `others`, parameters that only `option` needs, stands alone."""
    context = click.get_current_context()
    for name in () if is_given else others:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} without {option}: expected both")
