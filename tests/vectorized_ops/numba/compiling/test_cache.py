from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba import types
from numba.extending import intrinsic

import vectorized_ops
from vectorized_ops.numba.compiling import cache
from vectorized_ops.numba.compiling.cache import KernelCacheWarning, keep
from vectorized_ops.numba.compiling.cache_folder import CacheFolder
from vectorized_ops.numba.compiling.journal import JOURNAL

ROOT = Path(vectorized_ops.__file__).parents[2]
SCRIPT = Path(__file__).with_name("compiling_process.py")

Start = Callable[..., "Process"]


class Process:
    """A process of `compiling_process.py`, ready to begin."""

    def __init__(self, folder: Path, words: tuple[str, ...]) -> None:
        environment = {
            **os.environ,
            "NUMBA_CACHE_DIR": str(folder),
            "NUMBA_NUM_THREADS": "2",
            "PYTHONPATH": str(ROOT),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", SCRIPT, *words],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def begin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.says())
        return found

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A function that starts a process on the test's cache folder."""
    with ExitStack() as stack:

        def started(*words: str) -> Process:
            process = Process(tmp_path, words)
            stack.callback(process.kill)
            return process

        yield started


def run(processes: list[Process]) -> list[dict[str, Any]]:
    """Let processes begin at once."""
    assert [process.says() for process in processes] == ["ready"] * len(processes)
    for process in processes:
        process.begin()
    return [process.answer() for process in processes]


def compiled(answers: list[dict[str, Any]]) -> Counter[str]:
    return Counter(name for answer in answers for name, made in answer["made"] if made)


@pytest.mark.slow
def test_of_many_processes_one_compiles_each_kernel(start: Start) -> None:
    answers = run([start("squares,five,six") for _ in range(4)])
    assert compiled(answers) == {"squares": 1, "multiple": 2}
    assert [answer["results"] for answer in answers] == [answers[0]["results"]] * 4
    assert answers[0]["results"][0] == 30.0
    again = run([start("squares,five,six")])
    assert compiled(again) == {}
    assert again[0]["results"] == answers[0]["results"]


@pytest.mark.slow
def test_when_the_compiling_process_is_killed_one_of_the_others_compiles(start: Start) -> None:
    hanging, *others = (start("slow", how) for how in ("hang", "", ""))
    assert hanging.says() == "ready"
    hanging.begin()
    assert hanging.says() == "compiling"
    assert [other.says() for other in others] == ["ready"] * 2
    for other in others:
        other.begin()
    hanging.kill()
    answers = [other.answer() for other in others]
    assert [answer["results"] for answer in answers] == [[2.0]] * 2
    assert compiled(answers) == {"slow": 1}


@pytest.mark.slow
def test_when_a_compilation_fails_others_do_not_wait_for_it(start: Start) -> None:
    failing = start("slow,slow", "fail")
    other = start("slow")
    assert failing.says() == other.says() == "ready"
    failing.begin()
    assert "cannot be compiled" in failing.answer()["results"][1]
    other.begin()
    assert other.answer()["results"] == [2.0]


@pytest.mark.slow
def test_kernels_of_one_factory_that_two_processes_compiled_are_told_apart(start: Start) -> None:
    """Numba's names for machine code would be the same, and `both` call one of them twice."""
    (one,), (other,) = (run([start(name)])[0]["results"] for name in ("five", "six"))
    (answer,) = run([start("both")])
    assert answer["results"] == [[one, other]]
    assert one != other
    assert compiled([answer]) == {"both": 1}


def decorated(folder: Path, number: int = 3, **options: bool) -> Any:
    """A new kernel, made from the same source each time; `made` tells how it was made."""

    def function(x: float) -> float:
        return x * number

    dispatcher = numba.njit(**options)(function)
    keep(dispatcher, folder)
    return dispatcher


def made(kernel: Any, argument: Any = 2.0) -> str:
    before = len(JOURNAL.made)
    kernel(argument)
    (one,) = JOURNAL.made[before:]
    return "compiled" if one.compiled else "loaded"


@pytest.fixture
def entry(tmp_path: Path) -> Path:
    """The entry of `decorated`."""
    assert made(decorated(tmp_path)) == "compiled"
    (path,) = tmp_path.glob("*.kernel")
    return path


def test_a_kernel_is_loaded_by_who_needs_the_same(tmp_path: Path, entry: Path) -> None:
    kernel = decorated(tmp_path)
    assert made(kernel) == "loaded"
    assert kernel(4.0) == 12.0
    assert kernel.stats.cache_path == str(tmp_path)
    assert (sum(kernel.stats.cache_hits.values()), len(kernel.stats.cache_misses)) == (1, 0)


@pytest.mark.parametrize(
    ("number", "options", "argument"),
    [(4, {}, 2.0), (3, {"nogil": True}, 2.0), (3, {}, 2), (3, {}, np.float32(2))],
)
def test_other_closures_options_and_types_are_other_kernels(
    tmp_path: Path, entry: Path, number: int, options: dict[str, bool], argument: Any
) -> None:
    assert made(decorated(tmp_path, number, **options), argument) == "compiled"
    assert made(decorated(tmp_path, number, **options), argument) == "loaded"
    assert made(decorated(tmp_path)) == "loaded"


def test_each_processor_has_kernels_of_its_own(
    tmp_path: Path, entry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codegen = numba.core.registry.cpu_target.target_context.codegen()
    triple, name, features = codegen.magic_tuple()
    for other in [(triple, "knl", features), (triple, name, f"{features},-avx512f")]:
        with monkeypatch.context() as context:
            context.setattr(type(codegen), "magic_tuple", lambda self, it=other: it)
            assert made(decorated(tmp_path)) == "compiled"
            assert made(decorated(tmp_path)) == "loaded"
    assert made(decorated(tmp_path)) == "loaded"


def test_settings_that_change_machine_code_make_other_kernels(
    tmp_path: Path, entry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, "LOOP_VECTORIZE", 0)
    assert made(decorated(tmp_path)) == "compiled"


@pytest.mark.parametrize("keeps", [0, 20, 1000])
def test_torn_entries_are_compiled_anew(tmp_path: Path, entry: Path, keeps: int) -> None:
    entry.write_bytes(entry.read_bytes()[:keeps])
    assert made(decorated(tmp_path)) == "compiled"
    assert made(decorated(tmp_path)) == "loaded"


def test_whole_entries_that_numba_cannot_read_are_compiled_anew(
    tmp_path: Path, entry: Path
) -> None:
    for content in (b"no pickle", b"N."):
        entry.write_bytes(hashlib.sha256(content).digest() + content)
        assert made(decorated(tmp_path)) == "compiled"
    assert made(decorated(tmp_path)) == "loaded"


@pytest.fixture
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was told yet by this process."""
    monkeypatch.setattr(cache, "_told", set())


def refuse(number: int) -> Callable[..., None]:
    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return refused


@pytest.mark.usefixtures("untold")
def test_without_locks_a_process_compiles_its_own_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CacheFolder, "lock", refuse(errno.ENOLCK))
    with pytest.warns(KernelCacheWarning, match="not shared .*No locks available.*NUMBA_CACHE_DIR"):
        assert made(decorated(tmp_path)) == "compiled"
    assert made(decorated(tmp_path, 4)) == "compiled"
    assert made(decorated(tmp_path)) == "loaded"


@pytest.mark.usefixtures("untold")
def test_from_a_read_only_folder_kernels_are_loaded_and_what_is_missing_is_compiled(
    tmp_path: Path, entry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("lock", "read_anew", "write"):
        monkeypatch.setattr(CacheFolder, name, refuse(errno.EROFS))
    assert made(decorated(tmp_path)) == "loaded"
    with pytest.warns(KernelCacheWarning, match="Read-only file system"):
        assert made(decorated(tmp_path, 4)) == "compiled"
    assert made(decorated(tmp_path, 4)) == "compiled"
    assert list(tmp_path.glob("*.kernel")) == [entry]


@pytest.mark.usefixtures("untold")
def test_a_kernel_that_cannot_be_written_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CacheFolder, "write", refuse(errno.ENOSPC))
    with pytest.warns(KernelCacheWarning, match="No space left"):
        assert made(decorated(tmp_path)) == "compiled"


@pytest.mark.usefixtures("untold")
def test_what_has_the_name_of_a_kernel_is_to_be_removed(tmp_path: Path, entry: Path) -> None:
    entry.unlink()
    entry.mkdir()
    with pytest.warns(KernelCacheWarning, match=r"Is a directory.*\.kernel'.*remove it$"):
        assert made(decorated(tmp_path)) == "compiled"
    ((name, error),) = cache.shared_kernels(tmp_path).lost
    assert (name, error.filename) == ("function", str(entry))


@pytest.mark.usefixtures("untold")
def test_a_lock_in_a_folder_that_cannot_be_written_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[str] = []
    monkeypatch.setattr(CacheFolder, "lock", lambda _, name: held.append(name) or True)
    monkeypatch.setattr(CacheFolder, "unlock", lambda _, name: held.remove(name))
    monkeypatch.setattr(CacheFolder, "read_anew", refuse(errno.ENOSPC))
    with pytest.warns(KernelCacheWarning, match="No space left"):
        assert made(decorated(tmp_path)) == "compiled"
    assert held == []


@pytest.mark.usefixtures("untold")
def test_kernel_that_others_may_have_written_is_not_loaded_but_compiled_and_put_in_its_place(
    tmp_path: Path, entry: Path
) -> None:
    """It would be run as code: here it says so by a file."""
    ran = tmp_path / "ran"
    content = pickle.dumps(Touches(str(ran)))
    entry.write_bytes(hashlib.sha256(content).digest() + content)
    entry.chmod(0o666)
    with pytest.warns(KernelCacheWarning, match=rf"{entry} may be written by others \(mode 0666\)"):
        assert made(decorated(tmp_path)) == "compiled"
    assert not ran.exists()
    assert entry.stat().st_mode & 0o777 == 0o600
    assert made(decorated(tmp_path)) == "loaded"


@pytest.mark.usefixtures("untold")
def test_folder_that_others_may_write_keeps_no_kernels(tmp_path: Path, entry: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.warns(KernelCacheWarning, match=rf"{tmp_path} may be written by others"):
        assert made(decorated(tmp_path)) == "compiled"
    assert made(decorated(tmp_path)) == "compiled"
    tmp_path.chmod(0o700)
    assert made(decorated(tmp_path)) == "loaded"


class Touches:
    """Makes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (self.path, "w")


@pytest.mark.usefixtures("untold")
def test_patience_with_another_process_has_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CacheFolder, "lock", lambda *_: False)
    monkeypatch.setattr(cache, "PATIENCE_SECONDS", 0.05)
    with pytest.warns(KernelCacheWarning, match="another process has been compiling function-"):
        assert made(decorated(tmp_path)) == "compiled"
    with warnings.catch_warnings():
        assert made(decorated(tmp_path)) == "loaded"


@pytest.mark.usefixtures("untold")
def test_kernels_that_hold_addresses_are_not_kept(tmp_path: Path) -> None:
    @intrinsic
    def address(_typing: Any) -> Any:
        def generate(context: Any, builder: Any, *_: Any) -> Any:
            pointer = context.add_dynamic_addr(builder, 4096, "somewhere")
            return builder.ptrtoint(pointer, context.get_value_type(types.int64))

        return types.int64(), generate

    @numba.njit
    def function(x: int) -> int:
        return x + address()

    keep(function, tmp_path)
    with pytest.warns(KernelCacheWarning, match="cannot be kept: it holds addresses"):
        assert function(1) == 4097
    assert [path.stat().st_size for path in tmp_path.glob("*.kernel")] == [0]
