"""How fast pictures come from files in the page cache: packed, from an LMDB, decoded from JPEGs.

One thread, whose processor time counts. What each is compared with takes turns with it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import simplejpeg

from knltrain.bench.data.benchmark import PICTURE_BYTES, preprocessing_named, processor_seconds
from knltrain.bench.data.written import (
    smooth_pictures,
    written_folder,
    written_lmdb,
    written_packed,
)
from knltrain.data.dataset import Batch
from knltrain.data.packed_records import StoredAs
from knltrain.data.preprocessing import Draws
from knltrain.data.readers.files import DataFiles
from knltrain.data.readers.folder import open_folder
from knltrain.data.readers.lmdb import open_lmdb
from knltrain.data.readers.lmdb_index import scanned
from knltrain.data.readers.packed import load_packed
from knltrain.data.source import ImageSource
from knltrain.errors import ConfigError, unknown_name
from vectorized_ops.layout import aligned_zeros

MOST_JPEGS: Final = 128
"""Pictures that are encoded: decoding them takes long."""
PHOTO: Final = 375, 500
"""Height and width of those in a folder."""


def check_sources(names: tuple[str, ...]) -> None:
    """Raise ConfigError for unknown names."""
    for name in names:
        if name not in _SOURCES:
            raise ConfigError(unknown_name("source", name, _SOURCES))


def run_sources_benchmark(
    names: tuple[str, ...], pixels: int, side: int, channels: int, rounds: int, implementation: str
) -> list[dict[str, Any]]:
    """A row for each source, of pictures of `pixels` pixels, each square.

    All have `pictures_per_second`: of "packed" read as they are, of the others made into images of
    `side` pixels by a crop. `share` is that of a copy of as many bytes for "packed" and "lmdb" (of
    those read and written), that of reading again for "lmdb-first", and that of simplejpeg's own
    rate for "jpeg" and "folder" (decoding alone); `of` says which. Those of "folder" are JPEGs of
    375 x 500 pixels, whatever `pixels` is. All are medians over the rounds.
    """
    count = max(1, -(-PICTURE_BYTES // (pixels * pixels * channels)))
    pictures = smooth_pictures(count, pixels, channels)
    with TemporaryDirectory(prefix="knltrain-bench-") as folder:
        return [
            {"source": name, **_SOURCES[name](Path(folder), pictures, side, rounds, implementation)}
            for name in names
        ]


_Pictures = np.ndarray[Any, np.dtype[np.uint8]]


def _packed(
    folder: Path, pictures: _Pictures, _side: int, rounds: int, _implementation: str
) -> dict[str, Any]:
    source = load_packed(written_packed(folder / "raw.pack", pictures, StoredAs())).train
    rows = _shuffled(len(pictures))
    # As batches are: copies to other places in a cache line are slower, whatever is copied.
    out = aligned_zeros(pictures.shape, np.uint8)
    copied = np.zeros_like(pictures)
    seconds, copies = _in_turns(
        rounds, lambda _turn: source.read(rows, out), lambda: np.copyto(copied, pictures)
    )
    return _row(len(pictures), seconds, copies, "copy")


def _lmdb(
    folder: Path, pictures: _Pictures, side: int, rounds: int, implementation: str
) -> dict[str, Any]:
    written_lmdb(folder / "train_lmdb", pictures)
    source = open_lmdb(DataFiles(folder), "train")
    assert source is not None
    made, count = _images(source, side, implementation)
    bytes_moved = count * side * side * source.channels * (1 + 4)
    given = np.ones(bytes_moved // 2, np.uint8)
    copied = np.ones_like(given)
    seconds, copies = _in_turns(rounds, made, lambda: np.copyto(copied, given))
    return _row(count, seconds, copies, "copy")


def _lmdb_first(
    folder: Path, pictures: _Pictures, side: int, rounds: int, implementation: str
) -> dict[str, Any]:
    """As at the first start: all records are got and parsed, then images made of the pictures."""
    path = folder / "first_train_lmdb"
    written_lmdb(path, pictures)
    source = open_lmdb(DataFiles(folder, train=(path.name,)), "train")
    assert source is not None
    made, count = _images(source, side, implementation)
    scan = partial(scanned, path, str(path.resolve()))
    found, again = _in_turns(rounds, lambda _turn: scan(), partial(made, 0))
    part = count / len(source)
    seconds = [part * all_records + later for all_records, later in zip(found, again, strict=True)]
    return _row(count, seconds, again, "later reading")


def _jpeg(
    folder: Path, pictures: _Pictures, side: int, rounds: int, implementation: str
) -> dict[str, Any]:
    pictures, stored = pictures[:MOST_JPEGS], StoredAs(short_side=pictures.shape[1])
    source = load_packed(written_packed(folder / "jpeg.pack", pictures, stored)).train
    return _decoded(source, side, rounds, implementation)


def _folder(
    folder: Path, pictures: _Pictures, side: int, rounds: int, implementation: str
) -> dict[str, Any]:
    """JPEGs of 375 x 500 pixels, as most of ImageNet's are, in files of their own."""
    height, width = PHOTO
    photos = smooth_pictures(MOST_JPEGS, width, pictures.shape[3])[:, :height]
    written_folder(folder / "photos", np.ascontiguousarray(photos), MOST_JPEGS)
    source = open_folder(DataFiles(folder / "photos", channels=pictures.shape[3]), "train")
    assert source is not None
    return _decoded(source, min(side, height), rounds, implementation)


def _decoded(source: ImageSource, side: int, rounds: int, implementation: str) -> dict[str, Any]:
    made, count = _images(source, side, implementation)
    rows = np.arange(count)
    data = [bytes(source.encoded(row) or b"") for row in rows.tolist()]
    space = "RGB" if source.channels == 3 else "GRAY"

    def decode(_turn: int) -> None:
        for row in rows.tolist():
            source.picture(row)

    def decode_alone() -> None:
        for each in data:
            simplejpeg.decode_jpeg(each, space)

    decoded, own = _in_turns(rounds, decode, decode_alone)
    seconds = [processor_seconds(partial(made, turn)) for turn in range(rounds)]
    row = _row(count, decoded, own, "simplejpeg")
    return {**row, "pictures_per_second": count / statistics.median(seconds)}


_SOURCES: Final = {
    "packed": _packed,
    "lmdb": _lmdb,
    "lmdb-first": _lmdb_first,
    "jpeg": _jpeg,
    "folder": _folder,
}


def _images(
    source: ImageSource, side: int, implementation: str
) -> tuple[Callable[[int], None], int]:
    """What makes images of pictures at random places, in batches, and how many."""
    count = min(len(source), 512)
    batch = Batch.allocate(min(count, 64), (side, side, source.channels))
    recipe = "caffe" if source.size()[0] > side else "cifar"  # which cuts a part out, each
    made = preprocessing_named(recipe, batch, implementation)
    rows = _shuffled(len(source))[:count]

    def run(turn: int) -> None:
        for begin in range(0, count, len(batch.labels)):
            part = rows[begin : begin + len(batch.labels)]
            made.write(source, part, Draws(1, turn), batch.images_nhwc[: len(part)])

    run(0)
    return run, count


def _in_turns(
    rounds: int, run: Callable[[int], object], other: Callable[[], object]
) -> tuple[list[float], list[float]]:
    """Seconds of both, in turns, after one that is not counted."""
    run(0)
    other()
    seconds, others = [], []
    for turn in range(rounds):
        others.append(processor_seconds(other))
        seconds.append(processor_seconds(partial(run, turn)))
    return seconds, others


def _row(count: int, seconds: list[float], others: list[float], of: str) -> dict[str, Any]:
    shares = [other / own for own, other in zip(seconds, others, strict=True)]
    return {
        "pictures_per_second": count / statistics.median(seconds),
        "share": statistics.median(shares),
        "of": of,
    }


def _shuffled(count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.random.default_rng(1).permutation(count).astype(np.int64)
