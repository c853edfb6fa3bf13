"""Mapped files: arrays are found again in them, and a process that they kill has words."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from knltrain.data import mapped
from knltrain.data.mapped import array_at, bus_error_hint, map_array, mapped_base, place_of
from knltrain.errors import DataError

VALUES = np.arange(4 * 6 * 5, dtype=np.int16).reshape(4, 6, 5)


@pytest.fixture(autouse=True)
def no_files_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "_SIZES", {})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "values").write_bytes(b"header!" + VALUES.tobytes())
    return tmp_path / "values"


@pytest.mark.parametrize(
    "view",
    [
        lambda whole: whole,
        lambda whole: whole[1:, ::2],
        lambda whole: whole.transpose(2, 0, 1)[::-1],
        lambda whole: np.ndarray((3,), np.uint8, whole, 5),
    ],
)
def test_an_array_is_found_again_in_its_file(path: Path, view: object) -> None:
    assert callable(view)
    array = view(map_array(path, np.int16, 7, VALUES.shape))
    place = place_of(array)
    assert place is not None
    again = array_at(*place)
    np.testing.assert_array_equal(again, array)
    assert (again.dtype, again.strides) == (array.dtype, array.strides)
    assert not again.flags.writeable
    assert mapped_base(again) is not None


def test_an_array_in_memory_lies_in_no_file() -> None:
    assert place_of(VALUES[1:]) is mapped_base(VALUES) is None


def test_a_file_that_got_shorter_is_not_mapped_again(path: Path) -> None:
    place = place_of(map_array(path, np.int16, 7, VALUES.shape))
    assert place is not None
    path.write_bytes(b"short")
    with pytest.raises(DataError, match=r"values: cannot be mapped any more .*put the data back"):
        array_at(*place)
    path.unlink()
    with pytest.raises(DataError, match="No such file"):
        array_at(*place)


def test_files_that_are_shorter_or_gone_are_named(path: Path) -> None:
    assert bus_error_hint() == "perhaps /dev/shm is full"
    map_array(path, np.int16, 7, VALUES.shape)
    assert bus_error_hint() == f"perhaps /dev/shm is full, or the disk of {path} fails"
    path.write_bytes(b"short")
    assert bus_error_hint().startswith(f"{path} has 5 bytes, and had 247 when it was mapped: put")
    others = [path.with_name(f"other{number}") for number in range(4)]
    for each in others:
        each.write_bytes(b"x")
        map_array(each, np.uint8, 0, (1,))
        each.unlink()
    told = bus_error_hint()
    assert f"{others[1]} cannot be read any more, No such file" in told
    assert "; 2 more files: put the data back" in told


KILLED = """
import sys, threading
import numpy as np
from pathlib import Path
from knltrain.data.mapped import bus_errors_told, map_array
path = Path(sys.argv[1])
path.write_bytes(bytes(2**16))
found = map_array(path, np.uint8, 0, (2**16,))
with bus_errors_told():
    pass
def read():
    path.write_bytes(b"short")
    found[8192:].sum()
if "told" in sys.argv:
    with bus_errors_told():
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
read()
"""


@pytest.mark.parametrize("told", ["told", "not"])
def test_a_process_that_reads_beyond_the_end_says_so_and_is_killed(
    tmp_path: Path, told: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "file"), told],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == -signal.SIGBUS
    expected = f"killed by SIGBUS ({tmp_path}/file has 5 bytes, and had 65,536 when it was mapped: "
    assert (expected in done.stderr) is (told == "told")
    assert "Traceback" not in done.stderr
