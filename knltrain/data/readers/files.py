"""The files of a data set below its folder: by the format's own names, or the user's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from knltrain.errors import DataError
from knltrain.files.durable import reason_of
from knltrain.files.regular import regular

if TYPE_CHECKING:
    from knltrain.data.encoded import DecodingRules

HalfName: TypeAlias = Literal["train", "test"]
HALVES: Final[dict[HalfName, str]] = {"train": "training", "test": "test"}
"""The halves, and what messages call their images."""

_MOST_LISTED: Final = 12
"""Names of a folder that a message lists."""
_MOST_NAMED: Final = 3
"""Patterns that it repeats."""
_SHARD: Final = re.compile(r"-(\d{5})-of-(\d{5})(?!\d)")
"""The number of a file and how many there are, as Hugging Face and TensorFlow write them."""


@dataclass(frozen=True, slots=True)
class DataFiles:
    """What a user says of the files of a data set: `[data]` as far as readers need it.

    `train` and `test` are paths or patterns below `root`; without any, the format's own names.
    `label` names the labels to take where files have several, `channel_order` is that of colours in
    arrays; `channels` and `decoding` are those of encoded pictures. `class_names_file` lies below
    `root`; `follow_links` lets links of image folders, and paths of lists, leave it. Images of idx
    files that are `transposed` lie column by column.
    """

    root: Path
    train: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    test_share: float | None = None
    first_label: int = 0
    label: str | None = None
    channel_order: Literal["rgb", "bgr"] = "rgb"
    channels: int = 3
    decoding: DecodingRules | None = None
    class_names_file: str | None = None
    follow_links: bool = False
    transposed: bool = False

    def class_names(self) -> tuple[str, ...]:
        """The names of classes in the user's file, or in classes.txt; none without. DataError."""
        from knltrain.data.readers.classes import class_names_in

        return class_names_in(self.root, self.class_names_file)

    def of_half(
        self, half: HalfName, own_names: Mapping[HalfName, Sequence[str]], shared: bool = False
    ) -> list[Path]:
        """The files of a half: those that the user names, or by the format's patterns.

        They are sorted by name; of a file and the same with .gz only the file. Empty where no file
        for testing has the format's own names. Raises DataError where none for training has, for a
        name of the user's without files, and where halves share some files, unless `shared`.
        """
        check_folder(self.root)
        found = self._of_half(half, own_names)
        if half == "test" and found and not shared:
            self._check_apart(self._of_half("train", own_names), found)
        return found

    def _of_half(self, half: HalfName, own_names: Mapping[HalfName, Sequence[str]]) -> list[Path]:
        given = self.train if half == "train" else self.test
        if given:
            return _sorted(path for name in given for path in self._named(half, name))
        own = own_names[half]
        found = _sorted(path for name in own for path in self.root.glob(name))
        _check_shards(half, found)
        if not found and half == "train":
            raise DataError(
                f"{self.root}: no files with training images, such as {' or '.join(own)} "
                f"({listing(self.root)}): set data.train to their names, or data.root to their "
                "folder"
            )
        return found

    def _check_apart(self, train: Sequence[Path], test: Sequence[Path]) -> None:
        """Refuse halves that share some files: DataError."""
        known = {path.resolve() for path in train}
        both = [path for path in test if path.resolve() in known]
        if 0 < len(both) < max(len(train), len(test)):  # all are named so to evaluate on them
            told = (
                f"data.{half} = {list(given[:_MOST_NAMED])}" if given else f"no data.{half}"
                for half, given in (("train", self.train), ("test", self.test))
            )
            raise DataError(
                f"{' and '.join(told)}: {len(both):,} files would be for training and for testing, "
                f"such as {both[0]}: expected those of each half alone, by patterns as 'train*' "
                "and 'test*'; or set data.test_share to test on a share of all"
            )

    def _named(self, half: HalfName, name: str) -> list[Path]:
        path, why = self.root / name, f"no such file in {self.root}"
        try:
            if path.exists():
                return [path]
            found = [] if Path(name).is_absolute() else list(self.root.glob(name))
        except OSError as error:  # as for a name that is too long
            found, why = [], f"{reason_of(error)}, in {self.root}"
        if not found:
            raise DataError(
                f"data.{half} = '{name}': {why} ({listing(self.root)}): expected a path or a "
                "pattern below data.root"
            )
        return found


def check_folder(root: Path, key: str = "data.root") -> None:
    """Refuse what is no folder: DataError."""
    try:
        what = "" if S_ISDIR(root.stat().st_mode) else "is a file"
    except FileNotFoundError:
        what = "is not there"
    except (OSError, ValueError) as error:  # ValueError: a null byte in its name
        what = f"cannot be read ({reason_of(error)})"
    if what:
        raise DataError(f"{key} = '{root}' {what}: expected the folder with the images")


def listing(folder: Path) -> str:
    """What a folder holds, for messages."""
    try:
        names = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir())
    except OSError as error:
        return f"the folder cannot be read: {reason_of(error)}"
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"the folder holds {', '.join(names[:_MOST_LISTED]) or 'nothing'}{more}"


def _sorted(paths: Iterable[Path]) -> list[Path]:
    found = set(paths)
    kept = (path for path in found if not (path.suffix == ".gz" and path.with_suffix("") in found))
    return sorted(map(_checked, kept))


def _checked(path: Path) -> Path:
    """The path; DataError for a FIFO, a device, or a link to nothing."""
    try:
        return regular(path)
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({reason_of(error)}): expected a file of the data set"
        ) from error


def _check_shards(half: HalfName, found: Sequence[Path]) -> None:
    """Refuse files whose names tell that others are missing, as a-00000-of-00003: DataError."""
    sets: dict[tuple[str, int], set[int]] = {}
    for path in found:
        if told := _SHARD.search(path.name):
            number, count = map(int, told.groups())
            key = str(path.with_name(path.name[: told.start()])), count
            sets.setdefault(key, set()).add(number)
    for (begin, count), numbers in sets.items():
        missing = [number for number in range(count) if number not in numbers]
        if 0 < len(missing) < count:
            raise DataError(
                f"{begin}-{missing[0]:05}-of-{count:05}: is missing, as {len(missing):,} of its "
                f"{count:,} files are: fetch them, or name those to take by data.{half}"
            )
