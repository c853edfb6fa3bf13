"""Output options and lists of names that the commands of `knltrain bench` share."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import click

from knltrain.cli.options import PathFromHome
from knltrain.cli.saying import say
from knltrain.errors import ConfigError, first_repeated

Report: TypeAlias = dict[str, Any]
Item = TypeVar("Item", str, int, float)
Number = TypeVar("Number", int, float)

PICTURE_FORMATS = (".png", ".svg", ".pdf")

_NEW_FILE = PathFromHome(dir_okay=False, writable=True, path_type=Path)

workers_per_core_option = click.option(
    "--workers-per-core",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="So many share a core, where there are more workers or hosts than cores.",
)

report_option = click.option("--json", "report_file", type=_NEW_FILE, help="Write a JSON file.")


def rounds_option(default: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The option --rounds: so many times contestants are measured in turn."""
    return click.option("--rounds", type=click.IntRange(min=1), default=default, show_default=True)


def picture_option(of: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The option --picture, which draws `of`."""
    formats = ", ".join(PICTURE_FORMATS)
    return click.option("--picture", type=_NEW_FILE, help=f"Draw {of}: {formats}.")


def parted(text: str) -> tuple[str, ...]:
    """The words in a comma-separated text."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def listed(option: str, names: str) -> tuple[str, ...]:
    """The names in a comma-separated text; BadParameter for one that is there twice."""
    return tuple(_each_once(option, parted(names)))


def decimals(option: str, text: str) -> list[float]:
    """The numbers in a comma-separated text; BadParameter for others, and for one given twice."""
    return _numbers(option, text, float, "numbers with commas between them, as 2.5,5")


def numbers(option: str, text: str) -> list[int]:
    """The whole numbers in a comma-separated text; BadParameter as for `decimals`."""
    return _numbers(option, text, int, "whole numbers with commas between them, as 1,2")


def _numbers(option: str, text: str, kind: Callable[[str], Number], expected: str) -> list[Number]:
    try:
        found = [kind(each) for each in parted(text)]
        are_numbers = all(map(math.isfinite, found))
    except (ValueError, OverflowError):
        are_numbers = False
    if not are_numbers:
        raise click.BadParameter(f"'{text}': expected {expected}", param_hint=option)
    return list(_each_once(option, found))


def _each_once(option: str, found: Sequence[Item]) -> Sequence[Item]:
    if (twice := first_repeated(found)) is not None:
        raise click.BadParameter(f"{twice} is there twice: expected it once", param_hint=option)
    return found


def check_files(report_file: Path | None, picture: Path | None = None) -> None:
    """Refuse output files that cannot be written, before anything is measured.

    Raises BadParameter for a missing folder, ConfigError for an unknown picture format.
    """
    for file, option in ((report_file, "--json"), (picture, "--picture")):
        if file is not None and not file.parent.is_dir():
            raise click.BadParameter(
                f"there is no folder '{file.parent}' to write '{file.name}' into: make it first",
                param_hint=option,
            )
    if picture is not None and picture.suffix not in PICTURE_FORMATS:
        raise ConfigError(
            f"--picture {picture}: expected a name that ends in one of {', '.join(PICTURE_FORMATS)}"
        )


def show(
    report: Report,
    format_table: Callable[[Report], str],
    report_file: Path | None,
    picture: Path | None = None,
    draw: Callable[[Report, Path], None] = lambda _report, _path: None,
) -> None:
    """Print the table, write the JSON and draw the picture, in this order, as far as requested.

    Raises FileError when the JSON cannot be written.
    """
    say(format_table(report))
    if report_file is not None:
        try:
            report_file.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise click.FileError(str(report_file), error.strerror) from error
    if picture is not None:
        draw(report, picture)
