"""`knltrain predict`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from knltrain.cli.options import RUN_FOLDER, as_json_option
from knltrain.cli.progress_bar import bar
from knltrain.cli.saying import say
from knltrain.errors import BrokenPicture, DataError

if TYPE_CHECKING:
    from knltrain.launch.model import Prediction


@click.command()
@click.argument("run", type=RUN_FOLDER)
@click.argument("pictures", nargs=-1, required=True, metavar="PICTURE...")
@click.option("--top", type=click.IntRange(1), help="Tell so many classes of each picture.")
@click.option(
    "--crops",
    type=click.Choice(["1", "10"]),
    default="1",
    help="Average over ten parts of each picture.",
)
@as_json_option
def predict(
    run: Path, pictures: tuple[str, ...], top: int | None, crops: str, as_json: bool
) -> None:
    """Tell the classes of pictures by the model of RUN.

    RUN is a run's folder, or that of one of its checkpoints. PICTURE is a file, a folder of
    pictures, or - for names on standard input, one a line. Each line of the output has a file, a
    class and its probability, with tabs between them. With several classes in a picture (sigmoid)
    all from 0.5 on are told, with the mean squared error all outputs.
    """
    from knltrain.launch.model import load_model

    files = [file for each in pictures for file in _files(each)]
    if not files:
        raise DataError("-: standard input names no pictures: expected names, one a line")
    broken = 0
    with load_model(run) as model:
        for note in model.notes:
            say(f"note: {note}", error=True)
        with bar("pictures", len(files)) as tell:
            for file, found in zip(files, model.each(files, crops=int(crops)), strict=True):
                tell(1)
                broken += isinstance(found, BrokenPicture)
                if isinstance(found, BrokenPicture) and not as_json:
                    say(f"broken: {found}", error=True)
                for line in _json(file, found, top) if as_json else _lines(file, found, top):
                    say(line)
    if broken:
        raise BrokenPicture(f"{broken:,} of {len(files):,} pictures cannot be read, see above")


def _files(given: str) -> Iterator[str]:
    """The pictures that an argument stands for, those of a folder sorted by their names."""
    if given == "-":
        yield from (line.rstrip("\n") for line in sys.stdin if line.strip())
        return
    folder = Path(given)
    try:
        is_folder = folder.is_dir()
    except OSError:  # as for a name that is too long: reading it will tell
        is_folder = False
    if not is_folder:
        yield given
        return
    from knltrain.data.readers.picture_files import SUFFIXES

    found = [
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in SUFFIXES
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and path.is_file()
    ]
    if not found:
        raise DataError(
            f"{given}: holds no pictures ({', '.join(sorted(SUFFIXES))}): expected some, in it or "
            "below it"
        )
    yield from sorted(map(str, found), key=os.fsencode)


def _told(found: Prediction, top: int | None) -> list[tuple[str, float]]:
    return found.told if top is None else found.top(top)


def _lines(file: str, found: Prediction | BrokenPicture, top: int | None) -> Iterator[str]:
    if isinstance(found, BrokenPicture):
        return
    told = _told(found, top)
    yield from (f"{file}\t{name}\t{value:.4f}" for name, value in told)
    if not told:
        yield f"{file}\t-\t-"


def _json(file: str, found: Prediction | BrokenPicture, top: int | None) -> Iterator[str]:
    if isinstance(found, BrokenPicture):
        yield json.dumps({"picture": file, "error": str(found)})
        return
    what = "value" if found.tells == "values" else "probability"
    classes = [{"class": name, what: value} for name, value in _told(found, top)]
    yield json.dumps({"picture": file, "classes": classes})
