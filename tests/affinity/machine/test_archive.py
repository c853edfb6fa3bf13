from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from affinity.errors import TopologyError
from affinity.machine import archive
from affinity.machine.archive import ArchiveFiles

DAX = "sys/bus/dax/devices/dax0.0"


def _member(name: str, content: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    for field, value in fields.items():
        setattr(member, field, value)
    return member, content


def _tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for member, content in members:
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _files(tmp_path: Path, content: bytes) -> ArchiveFiles:
    path = tmp_path / "machine"
    path.write_bytes(content)
    return ArchiveFiles(path)


ONLINE = _member("sys/devices/system/cpu/online", b"0-3\n")


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_every_compression_is_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    files = _files(tmp_path, pack(_tar(ONLINE)))
    assert files.read_text("sys/devices/system/cpu/online") == "0-3"
    assert files.read_bytes("sys/devices/system/cpu/online", limit=2) == b"0-"
    assert files.names("sys/devices/system") == ("cpu",)
    assert files.names("sys/devices/system", "n") == ()
    assert files.read_bytes("sys/devices/system") is None
    assert files.name == str(tmp_path / "machine")


@pytest.mark.parametrize("before", ["", "./", "/", "node7/", "./a/b/", "sys/x/"])
def test_folders_before_sys_and_proc_are_left_out(tmp_path: Path, before: str) -> None:
    content = _tar(
        _member(f"{before}proc/cpuinfo", b"processor: 0"),
        _member(f"{before}sys/devices/system/cpu/online", b"0"),
        _member(f"{before}var/run/hwloc/knl_memoryside_cache", b"version: 2"),
    )
    files = _files(tmp_path, content)
    assert files.names("") == ("proc", "sys", "var")
    assert files.read_text("var/run/hwloc/knl_memoryside_cache") == "version: 2"


def test_links_are_followed_inside_the_archive(tmp_path: Path) -> None:
    content = _tar(
        _member(DAX, type=tarfile.SYMTYPE, linkname="../../../devices/platform/hmem.0/dax0.0"),
        _member("sys/devices/platform/hmem.0/dax0.0/target_node", b"2"),
        _member("run/hwloc/dump", b"version: 1"),
        _member("var/run", type=tarfile.SYMTYPE, linkname="/run"),
        _member("run/hwloc/latest", type=tarfile.SYMTYPE, linkname="dump"),
        _member("run/hwloc/same", type=tarfile.LNKTYPE, linkname="run/hwloc/dump"),
        _member("sys/devices/again", type=tarfile.SYMTYPE, linkname="again"),
    )
    files = _files(tmp_path, content)
    assert files.link(DAX) == "../../../devices/platform/hmem.0/dax0.0"
    assert files.read_text(f"{DAX}/target_node") == "2"
    assert files.names(DAX) == ("target_node",)
    assert files.read_text("var/run/hwloc/latest") == "version: 1"
    assert files.read_text("run/hwloc/same") == "version: 1"
    assert files.link("var/run/hwloc/latest") == "dump"
    assert files.link("run/hwloc/dump") is None
    assert files.read_text("sys/devices/again") is None


def test_names_that_climb_out_are_left_out(tmp_path: Path) -> None:
    files = _files(tmp_path, _tar(ONLINE, _member("sys/../../etc/passwd", b"root")))
    assert files.names("") == ("sys",)
    assert files.names("sys") == ("devices",)


def test_empty_folders_and_empty_archives_are_no_error(tmp_path: Path) -> None:
    folder = _member("sys/devices/system/node/node0/access0", type=tarfile.DIRTYPE)
    files = _files(tmp_path, _tar(folder))
    assert files.names("sys/devices/system/node/node0") == ("access0",)
    assert _files(tmp_path, _tar()).names("") == ()


def _damaged() -> dict[str, bytes]:
    whole = _tar(ONLINE, _member("sys/devices/system/cpu/present", bytes(5000)))
    packed = gzip.compress(whole)
    wrong_sum = bytearray(packed)
    wrong_sum[-5] ^= 0xFF
    wrong_header = bytearray(whole)
    wrong_header[1024 + 150] ^= 0xFF
    return {
        "packed and cut": packed[:-20],
        "packed and changed": bytes(wrong_sum),
        "cut in a file": whole[:3000],
        "cut after a file": whole[:1024],
        "cut in a header": whole[:1200],
        "second header changed": bytes(wrong_header),
        "no tar inside": gzip.compress(b"<topology/>"),
        "bzip2 cut": bz2.compress(whole)[:-10],
        "xz cut": lzma.compress(whole)[:-10],
        "zstd": b"\x28\xb5\x2f\xfd" + bytes(600),
    }


@pytest.mark.parametrize("damage", list(_damaged()))
def test_damaged_archive_is_an_error_that_names_it(tmp_path: Path, damage: str) -> None:
    with pytest.raises(TopologyError) as caught:
        _files(tmp_path, _damaged()[damage])
    assert str(caught.value).startswith(f"{tmp_path / 'machine'} cannot be read as an archive (")
    assert "python -m affinity snapshot" in str(caught.value)


def test_missing_archive_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match="No such file"):
        ArchiveFiles(tmp_path / "absent.tgz")


def test_archive_that_unpacks_to_far_more_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_BYTES", 1 << 20)
    bomb = gzip.compress(_tar(_member("sys/devices/zeros", bytes(2 << 20))))
    with pytest.raises(TopologyError, match="unpacks to more than 1 MiB"):
        _files(tmp_path, bomb)


def test_reading_puts_nothing_on_the_disk(tmp_path: Path) -> None:
    _files(tmp_path, _tar(ONLINE))
    assert [path.name for path in tmp_path.iterdir()] == ["machine"]


def test_archive_of_several_machines_names_them(tmp_path: Path) -> None:
    members = [_member(f"{root}/proc/cpuinfo", b"processor : 0") for root in ("a/cat", "a/dog")]
    with pytest.raises(TopologyError, match=r"holds 2 machines \(a/cat, a/dog\): .*--machines"):
        _files(tmp_path, _tar(*members))
    inner = _member("a/cat/sys/devices/x/proc/cpuinfo", b"")
    assert _files(tmp_path, _tar(members[0], inner)).read_text("proc/cpuinfo") == "processor : 0"
