"""From the labels of pictures, as texts, to the numbers of classes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from knltrain.data.readers.labels import as_labels
from knltrain.data.readers.texts import shown
from knltrain.errors import DataError, first_repeated, unknown_name
from knltrain.files.durable import reason_of
from knltrain.files.regular import regular

if TYPE_CHECKING:
    from knltrain.data.readers.files import DataFiles

CLASSES_FILE: Final = "classes.txt"
"""Below `data.root`, the names of the classes, unless the user names another file."""

_NUMBER = re.compile(r"[+-]?\d{1,18}")
_LISTED_AT_MOST: Final = 20

Codes = npt.NDArray[np.int64]


def class_names_in(root: Path, name: str | None) -> tuple[str, ...]:
    """The names of classes in a file below `root`, one a line, in the order of their numbers.

    Without `name` those of `classes.txt`, and none where there is no such file. Raises DataError
    where it cannot be read, names less than two classes, or one twice.
    """
    path = root / (name or CLASSES_FILE)
    if name is None and not path.exists():
        return ()
    try:
        lines = regular(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{path}: cannot be read ({reason_of(error)}): expected the names of the classes in "
            "UTF-8, one a line; name another file by data.class_names"
        ) from error
    names = tuple(line.strip() for line in lines if line.strip())
    if len(names) < 2:
        raise DataError(f"{path}: names {len(names)} classes: expected two or more, one a line")
    check_distinct(names, path)
    return names


def check_distinct(names: Sequence[str], where: object) -> None:
    """Refuse names of which one stands twice: DataError, with `where` they stand."""
    if (twice := first_repeated(names)) is not None:
        raise DataError(f"{where}: names class '{twice}' twice: expected each once")


def are_numbers(texts: Sequence[str]) -> bool:
    """Whether labels are whole numbers."""
    return all(map(_NUMBER.fullmatch, texts))


def mixed_labels(
    texts: Sequence[str], codes: Codes, where: Callable[[int], str]
) -> tuple[str, ...]:
    """A note on labels of which most are numbers, and some are none: they may be damaged."""
    odd = [code for code, text in enumerate(texts) if not _NUMBER.fullmatch(text)]
    if not 0 < len(odd) < len(texts) / 2:
        return ()
    is_odd = np.isin(codes, odd)
    place = int(is_odd.argmax())
    return (
        f"{where(place)}: label '{shown(texts[codes[place]])}' is no whole number, as most labels "
        f"are ({int(is_odd.sum()):,} of {len(codes):,} images have such ones): so all labels are "
        "names of classes; mend those that are damaged",
    )


def sorted_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Names of classes for labels that are no numbers, sorted by their bytes."""
    return tuple(sorted(map(shown, texts)))


def classes_by_name(
    files: DataFiles,
    texts: Sequence[str],
    codes: Codes,
    training: Callable[[], Sequence[str]],
    where: Callable[[int], str],
    *,
    may_count: bool = True,
) -> tuple[Codes, tuple[str, ...]]:
    """The numbers of classes int64 (n,) of a half, and their names; () where labels are numbers.

    Picture i has label texts[codes[i]], which stand once. Names are those of the user's file; else
    `training` gives the labels of the training half, which are names unless all are numbers and
    they `may_count`. `where` says where the label of picture i stands. Raises DataError.
    """
    names = given = files.class_names()
    if not given:
        known = training()
        names = () if may_count and are_numbers(known) else sorted_names(known)
    counts = bool(given) or not names
    return numbered_labels(texts, codes, names, files.first_label if counts else None, where), names


def numbered_labels(
    texts: Sequence[str],
    codes: Codes,
    names: Sequence[str],
    first_label: int | None,
    where: Callable[[int], str],
) -> Codes:
    """The numbers of classes int64 (n,): picture i has label texts[codes[i]], which stand once.

    They are places in `names`, unless all texts are numbers and none of them is a name: these count
    from `first_label`; None: there are no such. `where` says where the label of picture i stands.
    Raises DataError for labels that are no class.
    """
    places = {name: place for place, name in enumerate(names)}
    if first_label is not None and are_numbers(texts) and not any(text in places for text in texts):
        return np.asarray(
            as_labels(
                np.array([int(text) for text in texts], np.int64)[codes], where(0), first_label
            )
        ).astype(np.int64)
    found = [places.get(shown(text), -1) for text in texts]
    if -1 in found:
        unknown = found.index(-1)
        place = where(int(np.argmax(codes == unknown)))
        raise DataError(f"{place}: {_unknown(shown(texts[unknown]), names)}")
    return np.array(found, np.int64)[codes]


def _unknown(name: str, names: Sequence[str]) -> str:
    if not names:
        return f"label '{name}': expected a whole number, as all labels for training are"
    if len(names) <= _LISTED_AT_MOST:
        return unknown_name("class", name, names)
    return f"unknown class '{name}': expected one of the {len(names):,} that are known"
