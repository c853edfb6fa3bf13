"""What is known of the kernels of a network, and what a changed source needs."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from knltrain.assembly.kernels import COMPLETE, FEW_KERNELS, Found, KnownKernels
from vectorized_ops.numba.compiling.cache_folder import CacheFolder

SOURCES = {
    "plan.py": 0,
    "emit/rare.py": 1,
    "kernels/few.py": FEW_KERNELS - 1,
    "many.py": FEW_KERNELS + 1,
}

KERNELS = ("one", "other")


def found(known: KnownKernels, counts: dict[str, int]) -> Found:
    """Kernels of two names, of which some are compiled from each source."""
    readers = {str(known.root / source): count for source, count in counts.items()}
    return {"readers": readers, "kernels": [[name, f"packaged-{name}"] for name in KERNELS]}


@pytest.fixture
def known(tmp_path: Path) -> KnownKernels:
    root = tmp_path / "sources"
    for source in SOURCES:
        file = root / source
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    cache = CacheFolder(tmp_path / "cache" / "0123456789abcdef")
    cache.make()
    known = KnownKernels(cache, "network", root)
    assert not known.are_compiled()
    for name in KERNELS:
        cache.write(name, b"code")
    known.keep(found(known, {source: count for source, count in SOURCES.items() if count}))
    assert known.are_compiled()
    return known


def change(known: KnownKernels, *sources: str) -> None:
    for source in sources:
        (known.root / source).write_text("changed")


def test_sources_that_few_kernels_are_compiled_from_may_change_again_and_again(
    known: KnownKernels,
) -> None:
    for content in ("once", "twice", "thrice"):
        (known.root / "kernels/few.py").write_text(content)
        assert known.are_compiled()
    change(known, "emit/rare.py")
    assert known.are_compiled()


def test_the_same_content_is_no_change(known: KnownKernels) -> None:
    for source in SOURCES:
        os.utime(known.root / source, ns=(1, 1))
    assert known.are_compiled()


@pytest.mark.parametrize(
    "sources",
    [
        ("plan.py",),
        ("plan_with_kernels.py",),
        ("kernels/many.py",),
        ("emit/rare.py", "plan.py"),
        ("emit/rare.py", "kernels/many.py"),
    ],
    ids=str,
)
def test_other_changes_need_all_kernels_to_be_found_again(
    known: KnownKernels, sources: tuple[str, ...]
) -> None:
    change(known, *sources)
    assert not known.are_compiled()
    known.keep(found(known, {}))
    assert known.are_compiled()
    change(known, "emit/rare.py")
    (known.root / "emit/rare.py").write_text("of whose kernels nothing is known now")
    assert not known.are_compiled()


def test_few_changes_at_once_may_be_of_many_kernels(known: KnownKernels) -> None:
    (known.root / "kernels/more.py").write_text("")
    readers = {"kernels/few.py": FEW_KERNELS - 1, "emit/rare.py": 1, "kernels/more.py": 1}
    known.keep(found(known, readers))
    change(known, "emit/rare.py", "kernels/few.py", "kernels/more.py")
    assert not known.are_compiled()


def test_sources_that_come_or_go_can_concern_all_kernels(known: KnownKernels) -> None:
    new = known.root / "new.py"
    new.write_text("")
    assert not known.are_compiled()
    new.unlink()
    assert known.are_compiled()
    (known.root / "emit/rare.py").unlink()
    assert not known.are_compiled()


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{", "{}", '{"sources": {"plan.py": 0}, "kernels": []}',
        '{"sources": {"plan.py": ["a", 1, 2]}, "kernels": []}', "null",
    ],
)  # fmt: skip
def test_a_damaged_file_says_nothing(known: KnownKernels, content: str) -> None:
    (file,) = known.cache.path.glob(f"{COMPLETE}/*")
    file.write_text(content)
    assert not known.are_compiled()


def test_where_nothing_can_be_written_nothing_is_known(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    known = KnownKernels(CacheFolder(tmp_path / "file" / "cache"), "network", tmp_path)
    known.keep(found(known, {}))
    assert not known.are_compiled()


def test_kernels_that_were_removed_are_no_longer_there(known: KnownKernels) -> None:
    (known.cache.path / "one.kernel").unlink()
    assert not known.are_compiled()
    known.cache.write("one", b"anew")
    assert known.are_compiled()


def test_what_is_used_is_not_removed_by_age(known: KnownKernels) -> None:
    now = time.time()
    files = [path for path in known.cache.path.rglob("*") if path.is_file()]
    for file in files:
        os.utime(file, (0, 0))
    assert known.are_compiled()
    for name in KERNELS:
        known.cache.read(name)
    known.cache.remove_unused(now)
    assert known.are_compiled()


@pytest.fixture
def packaged(known: KnownKernels, tmp_path: Path) -> KnownKernels:
    """The same kernels in a package, and nothing in the cache."""
    package = CacheFolder(tmp_path / "package" / "processor")
    package.make()
    replace(known, cache=package, name="usual").keep(found(known, SOURCES))
    for name in KERNELS:
        package.write(f"packaged-{name}", b"code")
    cache = CacheFolder(tmp_path / "cache" / "fedcba9876543210")
    cache.make()
    return KnownKernels(cache, "network", known.root, "usual", [package])


def test_a_package_tells_which_kernels_it_has(packaged: KnownKernels) -> None:
    assert packaged.are_compiled()
    assert not replace(packaged, packaged_name="another").are_compiled()
    assert not replace(packaged, packages=()).are_compiled()
    change(packaged, "emit/rare.py")
    assert packaged.are_compiled()
    (package,) = packaged.packages
    (package.path / "packaged-one.kernel").unlink()
    assert not packaged.are_compiled()


def test_a_package_of_other_sources_says_nothing(packaged: KnownKernels) -> None:
    change(packaged, "plan.py")
    assert not packaged.are_compiled()
