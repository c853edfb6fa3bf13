"""`knltrain data`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from knltrain.cli.options import CONFIG, PathFromHome, as_json_option, overrides_option
from knltrain.cli.progress_bar import bar
from knltrain.cli.saying import say
from knltrain.errors import ConfigError
from knltrain.files.durable import reason_of, write_whole_bytes

if TYPE_CHECKING:
    from knltrain.config import DataConfig
    from knltrain.data.dataset import Halves
    from knltrain.data.survey import HalfSurvey

MOST_ROWS: Final = 20
"""Classes up to which each has its line."""


@click.command()
@click.argument("config", type=CONFIG)
@overrides_option
@click.option(
    "--sheet",
    type=PathFromHome(dir_okay=False, writable=True, path_type=Path),
    help="Draw training pictures of each class into this file: .png.",
)
@as_json_option
def data(config: Path, overrides: tuple[str, ...], sheet: Path | None, as_json: bool) -> None:
    """Describe the data set of CONFIG: images by class, sizes, values, broken pictures.

    Every picture is read once.
    """
    if sheet is not None and sheet.suffix != ".png":
        raise ConfigError(f"--sheet {sheet}: expected a name that ends in .png")
    from knltrain.assembly.names import read_halves
    from knltrain.config import load_config
    from knltrain.data.mapped import bus_errors_told
    from knltrain.data.survey import survey

    run = load_config(config, overrides)
    told = run.data.model_copy(update={"broken": "stop"})  # so that none is passed over
    halves = read_halves(run.model_copy(update={"data": told}))
    halves = _with_order(run.data, halves)
    for note in halves.notes:
        say(f"note: {note}", error=True)
    surveys = {}
    for half, source in (("training", halves.train), ("test", halves.test)):
        with bus_errors_told(), bar(f"{half} pictures", len(source)) as tell:
            surveys[half] = survey(source, tell)
    say(json.dumps(_fields(halves, surveys)) if as_json else "\n".join(_lines(halves, surveys)))
    if sheet is not None:
        _draw(halves, sheet)


def _with_order(config: DataConfig, halves: Halves) -> Halves:
    """The halves with a note on an order that is no true shuffle."""
    if config.order == "shuffle":
        return halves
    from knltrain.data.blocks import chosen_blocks

    _, told = chosen_blocks(halves.train, config.block_images)
    return replace(halves, notes=(*halves.notes, *told))


def _fields(halves: Halves, surveys: dict[str, HalfSurvey]) -> dict[str, Any]:
    return {
        "name": halves.name,
        "description": halves.description,
        "class_names": halves.train.class_names,
        **{half: asdict(found) for half, found in surveys.items()},
        "notes": halves.notes,
    }


def _lines(halves: Halves, surveys: dict[str, HalfSurvey]) -> Iterator[str]:
    names = halves.train.class_names
    yield f"{halves.description}: {len(names):,} classes"
    for half, found in surveys.items():
        yield ""
        yield f"{half + ' images':16}  {found.images:,}"
        yield f"{'height':16}  {found.height}"
        yield f"{'width':16}  {found.width}"
        yield f"{'channels':16}  {found.channels}"
        yield f"{'mean':16}  {_numbers(found.mean)} of 255"
        yield f"{'deviation':16}  {_numbers(found.deviation)} of 255"
        yield f"{'broken':16}  {found.broken:,}"
        yield from (f"  {each}" for each in found.broken_pictures)
        if found.broken > len(found.broken_pictures):
            yield f"  and {found.broken - len(found.broken_pictures):,} more"
    yield ""
    counts = [found.counts for found in surveys.values()]
    if len(names) <= MOST_ROWS:
        yield from _by_class(names, *counts)
        return
    for half, found in surveys.items():
        least, most = min(found.counts), max(found.counts)
        yield (
            f"{half} images of a class: {least:,} ('{names[found.counts.index(least)]}') to "
            f"{most:,} ('{names[found.counts.index(most)]}')"
        )


def _by_class(
    names: tuple[str, ...], train: tuple[int, ...], test: tuple[int, ...]
) -> Iterator[str]:
    width = max(len("class"), *map(len, names))
    yield f"{'class':{width}}  training      test"
    for name, *found in zip(names, train, test, strict=True):
        yield f"{name:{width}}  {found[0]:8,}  {found[1]:8,}"


def _numbers(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def _draw(halves: Halves, sheet: Path) -> None:
    from knltrain.data.contact_sheet import contact_sheet

    drawn = contact_sheet(halves.train)
    try:
        write_whole_bytes(sheet, [drawn])
    except OSError as error:
        raise ConfigError(
            f"--sheet {sheet}: it cannot be written ({reason_of(error)}); expected a folder that "
            "exists, with room"
        ) from error
