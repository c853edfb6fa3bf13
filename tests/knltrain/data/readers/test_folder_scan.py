"""Pictures of an image folder are listed by class, and remembered until a folder changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from knltrain.data.readers import folder_scan
from knltrain.data.readers.folder_scan import FolderScan, folders_in, scan_folder
from knltrain.errors import DataError


def tree(root: Path, *names: str) -> None:
    """Files, each with its own name as content, and empty folders."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(path.name.encode())


def settle(root: Path, when: float = 1e9) -> None:
    """As if nothing was changed lately."""
    for path in (root, *root.rglob("*")):
        if path.is_dir():
            os.utime(path, (when, when))


def scan(root: Path, follow_links: bool = False) -> FolderScan:
    return scan_folder(root, root, follow_links)


def names(found: FolderScan) -> list[str]:
    root = str(found.folder)
    return [found.pictures.name(row).removeprefix(root + "/") for row in range(len(found.codes))]


def test_classes_and_pictures_are_sorted_by_the_bytes_of_their_names(tmp_path: Path) -> None:
    tree(tmp_path, "b/2.png", "b/10.JPG", "B/ä.webp", "B/z.jpeg", "ü/1.tiff")
    found = scan(tmp_path)
    assert found.classes == ("B", "b", "ü")
    assert names(found) == ["B/z.jpeg", "B/ä.webp", "b/10.JPG", "b/2.png", "ü/1.tiff"]
    assert found.codes.tolist() == [0, 0, 1, 1, 2]
    assert found.pictures.data(2) == b"10.JPG"
    assert found.class_folder(4) == f"{tmp_path}/ü"


def test_hidden_and_other_files_are_counted(tmp_path: Path) -> None:
    tree(tmp_path, "a/1.jpg", "a/.2.jpg", "a/notes.txt", "b/1.jpg", "b/noname", ".git/1.jpg")
    tree(tmp_path, "readme.md", "loose.jpg")
    found = scan(tmp_path)
    assert names(found) == ["a/1.jpg", "b/1.jpg"]
    assert found.skipped == 6
    assert (tmp_path / found.example).exists()


def test_pictures_in_folders_of_a_class_are_of_that_class(tmp_path: Path) -> None:
    tree(tmp_path, "a/images/1.jpg", "a/images/x/2.jpg", "b/3.jpg", "b/more/4.jpg", "b/5.jpg")
    assert names(scan(tmp_path)) == [
        *("a/images/1.jpg", "a/images/x/2.jpg", "b/3.jpg", "b/5.jpg", "b/more/4.jpg"),
    ]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["readme.txt"], "holds no pictures and no folders: expected a folder for each class"),
        (["1.jpg", "2.jpg"], "holds 2 pictures, but no folders: expected a folder for each class"),
        (["a/1.jpg", "b/"], "/b: holds no pictures .*put some in, or remove the folder"),
        (["a/1.jpg", "b/x.txt"], "/b: holds no pictures"),
        (["all/a/1.jpg", "all/b/1.jpg"], "folders of them, such as .*set data.root = '.*/all'"),
        (["x/a/1.jpg", "x/b/1.jpg", "y/a/1.jpg", "y/b/1.jpg"], "no class has pictures of its own"),
    ],
)
def test_folders_that_are_no_classes_are_told_of(
    files: list[str], message: str, tmp_path: Path
) -> None:
    tree(tmp_path, *files)
    with pytest.raises(DataError, match=message):
        scan(tmp_path)


def test_links_within_the_root_are_followed_and_others_if_asked_to(tmp_path: Path) -> None:
    root = tmp_path / "root"
    tree(tmp_path, "root/a/1.jpg", "root/b/1.jpg", "elsewhere/2.jpg")
    (root / "a/within.jpg").symlink_to("../b/1.jpg")
    assert names(scan(root)) == ["a/1.jpg", "a/within.jpg", "b/1.jpg"]
    (root / "a/without.jpg").symlink_to(tmp_path / "elsewhere/2.jpg")
    with pytest.raises(DataError, match=r"without.jpg: a link to .*/elsewhere/2.jpg, outside"):
        scan(root)
    assert "a/without.jpg" in names(scan(root, follow_links=True))
    (root / "a/without.jpg").unlink()
    (root / "c").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=r"/c: a link .*data.follow_links = true"):
        scan(root)
    assert names(scan(root, follow_links=True))[-1] == "c/2.jpg"


def test_links_to_nowhere_and_to_a_folder_above_are_told(tmp_path: Path) -> None:
    tree(tmp_path, "a/1.jpg", "b/1.jpg")
    (tmp_path / "b/up").symlink_to("..")
    with pytest.raises(DataError, match=r"b/up(/b)?: leads back to"):
        scan(tmp_path)
    (tmp_path / "b/up").unlink()
    (tmp_path / "b/2.jpg").symlink_to("nowhere.jpg")
    with pytest.raises(DataError, match=r"2.jpg: a link to .*nowhere.jpg, which is not there"):
        scan(tmp_path)


def test_a_list_is_remembered_until_a_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, "a/1.jpg", "a/more/2.jpg", "b/1.jpg")
    settle(tmp_path)
    first = names(scan(tmp_path))
    listings = []
    listing = folder_scan._Listing.of
    monkeypatch.setattr(
        folder_scan._Listing, "of", lambda self, at: (listings.append(at), listing(self, at))[1]
    )
    assert names(scan(tmp_path)) == first
    assert listings == []
    tree(tmp_path, "a/more/3.jpg")
    assert names(scan(tmp_path)) == ["a/1.jpg", "a/more/2.jpg", "a/more/3.jpg", "b/1.jpg"]
    assert len(listings) == 1
    settle(tmp_path, 1.1e9)
    scan(tmp_path)
    (tmp_path / "b/1.jpg").write_bytes(b"of another size")  # in place: the folder stays as it is
    found = scan(tmp_path)
    assert found.pictures.data(3) == b"of another size"
    assert len(listings) == 3


def test_a_list_of_a_folder_that_changed_just_now_is_not_remembered(
    tmp_path: Path, home: Path
) -> None:
    tree(tmp_path, "a/1.jpg", "b/1.jpg")
    scan(tmp_path)
    assert not (home / ".cache/knltrain/indexes").exists()
    settle(tmp_path)
    scan(tmp_path)
    assert len(list((home / ".cache/knltrain/indexes").iterdir())) == 1


def test_names_that_are_no_text_are_read(tmp_path: Path) -> None:
    tree(tmp_path, "a/1.jpg")
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)  # noqa: PTH102  (Path has no bytes)
    with open(folder + b"/\xff.jpg", "wb") as file:  # noqa: PTH123
        file.write(b"x")
    settle(tmp_path)
    for _ in range(2):
        assert scan(tmp_path).pictures.data(1) == b"x"


def test_folders_that_are_not_there_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere: cannot be read .No such file.*data.root"):
        folders_in(tmp_path / "nowhere")
