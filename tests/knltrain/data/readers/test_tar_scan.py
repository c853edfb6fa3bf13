"""Samples in tar shards follow webdataset's conventions, and nothing leaves the shard."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from knltrain.data.readers.tar_scan import ShardScan
from knltrain.errors import DataError

Members = dict[str, bytes | tarfile.TarInfo] | list[tuple[str, bytes | tarfile.TarInfo]]


def link(kind: bytes, target: str = "x") -> tarfile.TarInfo:
    info = tarfile.TarInfo()
    info.type, info.linkname = kind, target
    return info


def write(path: Path, members: Members, form: int = tarfile.PAX_FORMAT) -> Path:
    with tarfile.open(path, "w", format=form) as tar:
        for name, content in members.items() if isinstance(members, dict) else members:
            if isinstance(content, tarfile.TarInfo):
                content.name = name
                tar.addfile(content)
            else:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return path


def scan(tmp_path: Path, members: Members) -> ShardScan:
    return ShardScan.of(write(tmp_path / "a.tar", members))


def labels(found: ShardScan) -> dict[str, str]:
    return {sample.name: sample.label for sample in found.samples}


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_samples_are_files_of_one_key(tmp_path: Path, form: int) -> None:
    deep = f"{'long' * 20}/{'name' * 20}/7"
    members = {"a/1.JPG": b"one", "a/1.cls": b" 3\n", "a/2.cls": b"4", "a/2.jpeg": b"two!"}
    path = write(tmp_path / "a.tar", {**members, f"{deep}.png": b"", f"{deep}.cls": b"5"}, form)
    found = ShardScan.of(path)
    assert labels(found) == {"a/1.JPG": "3", "a/2.jpeg": "4", f"{deep}.png": "5"}
    content = path.read_bytes()
    bytes_of = [content[it.offset : it.offset + it.size] for it in found.samples]
    assert bytes_of == [b"one", b"two!", b""]
    assert (found.left_out, found.has_end) == ([], True)


def test_a_key_ends_at_the_first_dot_of_the_files_name(tmp_path: Path) -> None:
    members = {"v1.2/1.jpg": b"", "v1.2/1.cls": b"0", "v1.2/1.seg.png": b"", "./b/2.png": b""}
    found = scan(tmp_path, members)
    assert labels(found) == {"v1.2/1.jpg": "0", "b/2.png": ""}


@pytest.mark.parametrize(
    ("files", "label"),
    [
        ({"cls": b"1", "json": b'{"label": 2}', "txt": b"3"}, "1"),
        ({"txt": b"a cat\n", "json": b'{"label": 2}'}, "2"),
        ({"json": b'{"caption": "x", "cls": "dog"}'}, "dog"),
        ({"json": b'{"caption": "x"}', "txt": b"cat"}, "cat"),
        ({"json": b"7"}, "7"),
        ({"json": b'{"label": true}'}, ""),
        ({"json": b'{"label": [1]}'}, ""),
        ({"cls": b""}, ""),
    ],
)
def test_labels_are_told_by_cls_json_or_txt(
    files: dict[str, bytes], label: str, tmp_path: Path
) -> None:
    members = {f"1.{suffix}": content for suffix, content in files.items()}
    assert labels(scan(tmp_path, {**members, "1.jpg": b""})) == {"1.jpg": label}


def test_metadata_and_what_is_no_sample_are_left_out(tmp_path: Path) -> None:
    members: Members = {
        "__index__": b"",
        "__meta__.json": b"{}",
        "1.jpg": b"",
        "README": b"",
        ".hidden.jpg": b"",
        "2.cls": b"1",
        "folder": link(tarfile.DIRTYPE),
        "3.jpg": link(tarfile.SYMTYPE, "/etc/passwd"),
        "4.jpg": link(tarfile.LNKTYPE, "1.jpg"),
        "5.jpg": link(tarfile.CHRTYPE),
        "6.jpg": link(tarfile.FIFOTYPE),
    }
    found = scan(tmp_path, members)
    assert labels(found) == {"1.jpg": ""}
    expected = {"README", ".hidden.jpg", "2.cls", "3.jpg", "4.jpg", "5.jpg", "6.jpg"}
    assert {*found.left_out} - {"__meta__.json"} == expected


@pytest.mark.parametrize("name", ["../1.jpg", "/1.jpg", "a/../../1.jpg", "./../1.jpg"])
def test_names_that_leave_the_shard_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a.tar: holds '.*1.jpg', a path that leaves the folder"):
        scan(tmp_path, {name: b""})


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("1.jpg", b""), ("2.jpg", b""), ("1.cls", b"0")], "files of '1' do not lie next to"),
        ([("1.jpg", b""), ("2.jpg", b""), ("1.jpg", b"")], "or it is there twice"),
        ([("1.jpg", b""), ("1.jpg", b"")], "sample '1' has two files .jpg"),
        ([("1.jpg", b""), ("1.JPG", b"")], "sample '1' has two files .jpg"),
        ([("1.jpg", b""), ("1.png", b"")], "sample '1' has several pictures, .jpg and .png"),
        ([("1.jpg", b""), ("1.json", b"{")], "'1.json' is no JSON"),
        ([("1.jpg", b""), ("1.json", b"[" * 100_000)], "'1.json' is no JSON"),
    ],
)
def test_samples_that_are_not_one_picture_are_refused(
    members: list[tuple[str, bytes | tarfile.TarInfo]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        scan(tmp_path, members)


def test_sparse_pictures_are_refused_by_name(tmp_path: Path) -> None:
    info = tarfile.TarInfo("1.jpg")
    info.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "1.jpg",
        "GNU.sparse.realsize": "4096",
    }
    blocks = b"1\n0\n5\n".ljust(512, b"\0") + b"hello"
    info.size = len(blocks)
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.addfile(info, io.BytesIO(blocks))
    with pytest.raises(DataError, match=r"'1.jpg' is stored sparsely: expected whole files"):
        ShardScan.of(tmp_path / "a.tar")


def test_truncated_and_damaged_shards_are_told(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", {f"{number}.jpg": bytes(3000) for number in range(4)})
    whole = path.read_bytes()
    for size in (100, 600, 2 * 3584 + 700, 3 * 3584 + 512 + 2999):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match=r"a.tar: is no whole tar file .*fetch it again"):
            ShardScan.of(path)
    path.write_bytes(whole[:3584] + b"\xff" * 512 + whole[4096:])
    with pytest.raises(DataError, match="is damaged at byte 3,584, where a file should begin"):
        ShardScan.of(path)
    path.write_bytes(whole[: 4 * 3584])
    found = ShardScan.of(path)
    assert (len(found.samples), found.has_end) == (4, False)


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_compressed_shards_are_refused(kind: str, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", f"w:{kind}") as tar:
        tar.addfile(tarfile.TarInfo("1.jpg"))
    with pytest.raises(DataError, match=r"is compressed by .*z.*: expected a plain tar file"):
        ShardScan.of(tmp_path / "a.tar")


def test_what_is_no_tar_file_is_told(tmp_path: Path) -> None:
    for content in (b"", b"hello" * 1000):
        (tmp_path / "a.tar").write_bytes(content)
        with pytest.raises(DataError, match=r"a.tar: is no whole tar file"):
            ShardScan.of(tmp_path / "a.tar")
