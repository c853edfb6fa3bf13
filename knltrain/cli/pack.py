"""`knltrain pack`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from knltrain.cli.options import CONFIG, PathFromHome, overrides_option
from knltrain.cli.progress_bar import bar
from knltrain.cli.saying import say
from knltrain.errors import DataError

_FILE: Final = PathFromHome(dir_okay=False, path_type=Path)
_MOST_SIDE: Final = 65_500
_MOST_NAMED: Final = 20
"""Damaged places that are told."""


@click.command()
@click.argument("config", type=CONFIG, required=False)
@click.argument("file", type=_FILE, required=False)
@overrides_option
@click.option(
    "--short-side",
    type=click.IntRange(1, _MOST_SIDE),
    help="Resize larger pictures to so many pixels of the shorter side, as JPEGs.",
)
@click.option(
    "--side",
    type=click.IntRange(1, _MOST_SIDE),
    help="Resize the largest square in the middle to so many pixels, raw.",
)
@click.option(
    "--quality",
    type=click.IntRange(1, 100),
    help="Of the JPEGs of --short-side.  [default: 90]",
)
@click.option(
    "--threads", type=click.IntRange(min=1), help="Left out: as many as this process has cpus."
)
@click.option("--check", type=_FILE, metavar="FILE", help="Verify all checksums of a packed file.")
def pack(
    config: Path | None,
    file: Path | None,
    overrides: tuple[str, ...],
    short_side: int | None,
    side: int | None,
    quality: int | None,
    threads: int | None,
    check: Path | None,
) -> None:
    """Write the data set of CONFIG to FILE, for data.name = 'packed'.

    An interrupted packing goes on where it was when the same command is given again.
    """
    if check is not None:
        if config is not None:
            raise click.UsageError("--check takes one FILE, and no CONFIG")
        _check(check)
        return
    if config is None or file is None:
        raise click.UsageError("expected CONFIG and FILE, or --check FILE")
    if side is not None and short_side is not None:
        raise click.UsageError("--side and --short-side: expected one of them")
    if quality is not None and short_side is None:
        raise click.UsageError("--quality is that of JPEGs: expected --short-side, too")
    _pack(config, file, overrides, (short_side, side, quality), threads)


def _pack(
    config: Path,
    file: Path,
    overrides: tuple[str, ...],
    stored: tuple[int | None, int | None, int | None],
    threads: int | None,
) -> None:
    from affinity.numbers import format_bytes
    from affinity.process.binding import allowed_cpus
    from knltrain.assembly.names import read_halves
    from knltrain.assembly.packing import packing_work
    from knltrain.config import load_config
    from knltrain.data.mapped import bus_errors_told
    from knltrain.data.packed_records import QUALITY, StoredAs
    from knltrain.data.packing import pack as write
    from knltrain.data.source import SKIPPED

    run = load_config(config, overrides)
    SKIPPED.reasons.clear()
    halves = read_halves(run)
    for note in halves.notes:
        say(f"note: {note}", error=True)
    short_side, side, quality = stored
    as_asked = StoredAs(short_side, side, quality or QUALITY)
    work = packing_work(run, halves, as_asked, threads or len(allowed_cpus()))
    with bus_errors_told(), bar("pictures", len(work)) as tell:
        write(work, file, tell, lambda note: say(f"note: {note}", error=True))
    if SKIPPED:
        say(f"note: {SKIPPED}", error=True)
    size = format_bytes(file.stat().st_size)
    say(f"{file}: {len(halves.train):,} training and {len(halves.test):,} test pictures, {size}")
    say(f"train on it by --set data.name=packed --set data.root={file}")


def _check(file: Path) -> None:
    from knltrain.data.packed_check import check_packed, picture_bytes

    with bar("bytes", picture_bytes(file)) as tell:
        found = check_packed(file, tell)
    if not found:
        say(f"{file}: all checksums agree")
        return
    more = [f"and {len(found) - _MOST_NAMED:,} more"] if len(found) > _MOST_NAMED else []
    told = "; ".join([*found[:_MOST_NAMED], *more])
    raise DataError(f"{file}: damaged: {told}: pack the data set anew, or copy the file again")
