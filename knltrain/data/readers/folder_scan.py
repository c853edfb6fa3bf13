"""What an image folder holds: the pictures of each class, listed once and remembered."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import numpy as np
import numpy.typing as npt

from knltrain.data.readers.index import SETTLED_SECONDS, Arrays, load_index, save_index
from knltrain.data.readers.picture_files import SUFFIXES, PictureFiles
from knltrain.data.readers.texts import Texts
from knltrain.errors import DataError

EXPECTED = "expected a folder for each class, with its pictures in it"


@final
@dataclass(frozen=True, slots=True)
class FolderScan:
    """The pictures below `folder`, sorted by class and name.

    Classes are names of folders, sorted by their bytes; `codes` int64 (n,) are their numbers,
    `sizes` int64 (n,) bytes. `skipped` counts files that are no pictures by their names, such as
    `example`.
    """

    folder: Path
    classes: tuple[str, ...]
    pictures: PictureFiles
    codes: npt.NDArray[np.int64]
    skipped: int
    example: str

    def class_folder(self, row: int) -> str:
        """Where pictures of the class of picture `row` lie."""
        return f"{self.folder}/{self.classes[self.codes[row]]}"


def scan_folder(folder: Path, root: Path, follow_links: bool) -> FolderScan:
    """List the pictures of `folder`, or take the list of an earlier start.

    The earlier list is taken if no folder was changed since, and a few files are as large as they
    were. Links that leave `root` are refused unless `follow_links`: DataError. So are folders
    without classes, and classes without pictures.
    """
    key = f"folder {folder.absolute()} {root.absolute()} {follow_links}"
    known = load_index(key)
    if known is not None:
        found = _scan_of(folder, known)
        if _is_unchanged(known) and found.pictures.still_there():
            return found
    begin = time.time()
    arrays = _Listing(root, follow_links).of(folder)
    if begin - float(arrays["times"].max()) / 1e9 > SETTLED_SECONDS:
        save_index(key, arrays)
    return _scan_of(folder, arrays)


def folders_in(folder: Path) -> list[str]:
    """The names of the folders in it that are not hidden, sorted by their bytes; else DataError."""
    try:
        with os.scandir(folder) as entries:
            names = [each.name for each in entries if each.is_dir() and each.name[0] != "."]
    except OSError as error:
        raise _unreadable(str(folder), error) from error
    return sorted(names, key=os.fsencode)


def _scan_of(folder: Path, arrays: Arrays) -> FolderScan:
    texts = {
        name: Texts(arrays[f"{name}_content"], arrays[f"{name}_ends"])
        for name in ("names", "classes", "example")
    }
    classes = texts["classes"]
    return FolderScan(
        folder,
        tuple(classes[number] for number in range(len(classes))),
        PictureFiles(folder, texts["names"], arrays["sizes"]),
        arrays["codes"],
        int(arrays["skipped"]),
        texts["example"][0],
    )


def _is_unchanged(arrays: Arrays) -> bool:
    folders = Texts(arrays["folders_content"], arrays["folders_ends"])
    try:
        return all(
            Path(folders[number]).stat().st_mtime_ns == when
            for number, when in enumerate(arrays["times"].tolist())
        )
    except OSError:
        return False


def _unreadable(path: str, error: OSError) -> DataError:
    return DataError(
        f"{path}: cannot be read ({error.strerror}): {EXPECTED}; set data.root, data.train and "
        "data.test to folders that this user may list and enter"
    )


@final
@dataclass(slots=True)
class _Listing:
    """One pass over a folder."""

    root: Path
    follow_links: bool
    names: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    folders: dict[str, int] = field(default_factory=dict)
    """Every folder that was listed, and the time of its last change."""
    skipped: list[str] = field(default_factory=list)

    def of(self, folder: Path) -> Arrays:
        """What it holds, as arrays."""
        top = str(folder)
        classes, loose = self._entries(top, "")
        if not classes:
            what = f"holds {len(loose):,} pictures, but no" if loose else "holds no pictures and no"
            raise DataError(f"{top}: {what} folders: {EXPECTED}; set data.root to theirs")
        self.skipped += [name for name, _ in loose]
        deep = []
        for code, name in enumerate(classes):
            begin = len(self.names)
            below = self._take(top, name, code, (os.path.realpath(top),))
            if len(self.names) == begin:
                raise DataError(
                    f"{top}/{name}: holds no pictures ({', '.join(sorted(SUFFIXES))}): {EXPECTED}; "
                    "put some in, or remove the folder"
                )
            deep.append(below)
        if all(len(below) > 1 for below in deep):
            first = f"{top}/{classes[0]}"
            raise DataError(
                f"{top}: no class has pictures of its own, but folders of them, such as {first}/"
                f"{deep[0][0]} and {first}/{deep[0][1]}: {EXPECTED}; set data.root = '{first}', if "
                "these are the classes, or write a list of the pictures (data.name = 'list')"
            )
        return self._arrays(classes)

    def _arrays(self, classes: list[str]) -> Arrays:
        example = self.skipped[0] if self.skipped else ""
        found: dict[str, npt.NDArray[np.generic]] = {
            "sizes": np.array(self.sizes, np.int64),
            "codes": np.array(self.codes, np.int64),
            "times": np.array(list(self.folders.values()), np.int64),
            "skipped": np.array(len(self.skipped), np.int64),
        }
        texts = {
            "names": self.names,
            "classes": classes,
            "folders": self.folders,
            "example": [example],
        }
        for name, each in texts.items():
            kept = Texts.of(each)
            found |= {f"{name}_content": kept.content, f"{name}_ends": kept.ends}
        return found

    def _take(self, top: str, name: str, code: int, above: tuple[str, ...]) -> list[str]:
        """Take all pictures of folder `name` and below; return the folders in it that have some.

        None are returned where it has pictures of its own.
        """
        here = os.path.realpath(f"{top}/{name}")
        if here in above:
            raise DataError(
                f"{top}/{name}: leads back to {here}, which it lies in: remove the link"
            )
        folders, pictures = self._entries(f"{top}/{name}", f"{name}/")
        self.names += [picture for picture, _ in pictures]
        self.sizes += [size for _, size in pictures]
        self.codes += [code] * len(pictures)
        with_pictures = []
        for folder in folders:
            begin = len(self.names)
            self._take(top, f"{name}/{folder}", code, (*above, here))
            if len(self.names) > begin:
                with_pictures.append(folder)
        return [] if pictures else with_pictures

    def _entries(self, path: str, prefix: str) -> tuple[list[str], list[tuple[str, int]]]:
        """Folders in `path`, and pictures with their sizes, sorted by the bytes of their names."""
        folders: list[str] = []
        pictures: list[tuple[str, int]] = []
        try:
            self.folders[str(Path(path).absolute())] = Path(path).stat().st_mtime_ns
            with os.scandir(path) as entries:
                for entry in entries:
                    name = entry.name
                    suffix = name[name.rfind(".") :].lower() if "." in name else ""
                    if name[0] != "." and (suffix in SUFFIXES or not entry.is_file()):
                        if entry.is_symlink():
                            self._check_link(entry.path)
                        if entry.is_dir():
                            folders.append(name)
                            continue
                        if entry.is_file():
                            pictures.append((prefix + name, entry.stat().st_size))
                            continue
                    self.skipped.append(prefix + name)
        except OSError as error:
            raise _unreadable(path, error) from error
        folders.sort(key=os.fsencode)
        pictures.sort(key=lambda each: os.fsencode(each[0]))
        return folders, pictures

    def _check_link(self, path: str) -> None:
        target = os.path.realpath(path)
        if not Path(target).exists():
            raise DataError(f"{path}: a link to {target}, which is not there: remove or mend it")
        if not self.follow_links and not Path(target).is_relative_to(os.path.realpath(self.root)):
            raise DataError(
                f"{path}: a link to {target}, outside {self.root}: expected links that stay within "
                "data.root; set data.follow_links = true to follow all"
            )
