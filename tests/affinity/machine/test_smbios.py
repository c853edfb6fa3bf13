from __future__ import annotations

import struct
from pathlib import Path

import pytest

from affinity.errors import TopologyError
from affinity.machine.archive import ArchiveFiles
from affinity.machine.description import Description, KnightsFirmware
from affinity.machine.files import FolderFiles
from affinity.machine.smbios import add_firmware

GIB = 2**30
ENTRIES = "sys/firmware/dmi/entries"
GROUP = b"Group: Knights Landing Information"


def _firmware(root: Path) -> Description:
    description = Description()
    add_firmware(FolderFiles(root), description)
    return description


def _write(root: Path, entry: str, table: bytes) -> None:
    raw = root / ENTRIES / entry / "raw"
    raw.parent.mkdir(parents=True, exist_ok=True)
    raw.write_bytes(table)


def _knights(
    root: Path, cluster: int, memory: int, cache: int, group: bytes = GROUP, enabled: int = 0xFF
) -> KnightsFirmware | None:
    """Write the tables of types 14, 170 (modes) and 171 (controllers), and read them."""
    _write(root, "14-0", bytes([14, 11, 2, 0, 1, 170, 0, 0, 171, 1, 0]) + group + b"\0\0")
    modes = struct.pack("<HBBBBBB", 1, 1, 0x1F, cluster, 7, memory, cache)
    _write(root, "170-0", bytes([170, 13, 0, 0]) + modes + b"\0\0")
    controllers = struct.pack("<HBBBB4xBB", 2, 1, 0xFF, enabled, 1, 12, 0)
    _write(root, "171-0", bytes([171, 16, 0, 0]) + controllers + b"\0\0")
    return _firmware(root).knights


def test_real_tables_of_snc4_hybrid_are_decoded(shared_topologies: Path) -> None:
    files = ArchiveFiles(shared_topologies / "hwloc/smbios-knl-snc4h50.tar.bz2")
    description = Description()
    add_firmware(files, description)
    assert description.knights == KnightsFirmware(
        "SNC4", "Hybrid25", GIB, f"SMBIOS tables of Xeon Phi, in /{ENTRIES}"
    )
    assert description.sources == [f"Xeon Phi's modes: SMBIOS tables of Xeon Phi, in /{ENTRIES}"]


@pytest.mark.parametrize(
    ("cluster", "memory", "cache", "modes", "cache_gib"),
    [
        (1, 1, 0, ("Quadrant", "Cache"), 16),
        (2, 2, 0, ("Hemisphere", "Flat"), 0),
        (4, 1, 0, ("SNC4", "Cache"), 4),
        (8, 4, 2, ("SNC2", "Hybrid50"), 4),
        (16, 4, 4, ("All2All", "Hybrid100"), 16),
        (16, 4, 8, ("All2All", None), 0),
        (3, 7, 1, (None, None), 0),
    ],
)
def test_every_mode_is_decoded_and_the_cache_shared_out(
    tmp_path: Path,
    cluster: int,
    memory: int,
    cache: int,
    modes: tuple[str | None, str | None],
    cache_gib: int,
) -> None:
    knights = _knights(tmp_path, cluster, memory, cache)
    assert knights is not None
    assert (knights.cluster_mode, knights.memory_mode) == modes
    assert knights.cache_bytes == cache_gib * GIB


def test_knights_mill_calls_its_group_by_its_own_name(tmp_path: Path) -> None:
    knights = _knights(tmp_path, 1, 1, 0, group=b"Group: Knights Mill Information")
    assert knights is not None
    assert knights.cluster_mode == "Quadrant"


def test_group_of_another_name_is_not_xeon_phi(tmp_path: Path) -> None:
    assert _knights(tmp_path, 1, 1, 0, group=b"Group: Intel(R) Silicon View Technology") is None


def test_mcdram_that_is_switched_off_caches_nothing(tmp_path: Path) -> None:
    knights = _knights(tmp_path, 1, 1, 0, enabled=0)
    assert knights is not None
    assert knights.cache_bytes == 0


def test_table_that_ends_too_early_tells_nothing(tmp_path: Path) -> None:
    _knights(tmp_path, 1, 1, 0)
    _write(tmp_path, "170-0", bytes([170, 13, 0, 0, 1, 0, 1, 0x1F]))
    assert _firmware(tmp_path).knights is None


@pytest.mark.parametrize("folder", ["var/run/hwloc", "run/hwloc"])
def test_dump_of_hwloc_tells_modes_and_cache(tmp_path: Path, folder: str) -> None:
    dump = tmp_path / folder / "knl_memoryside_cache"
    dump.parent.mkdir(parents=True)
    dump.write_text(
        "version: 2\ncache_size: 2147483648\nassociativity: 1\ninclusiveness: 1\nline_size: 64\n"
        "cluster_mode: SNC4\nmemory_mode: Hybrid50\n",
        encoding="utf-8",
    )
    source = f"/{folder}/knl_memoryside_cache, written by hwloc-dump-hwdata"
    assert _firmware(tmp_path).knights == KnightsFirmware("SNC4", "Hybrid50", 2 * GIB, source)
    dump.write_text("version: 1\ncache_size: 17179869184\n", encoding="utf-8")
    assert _firmware(tmp_path).knights == KnightsFirmware(None, None, 16 * GIB, source)
    dump.write_text("version: 1\ncache_size: much\n", encoding="utf-8")
    with pytest.raises(TopologyError, match="knl_memoryside_cache holds 'much'"):
        _firmware(tmp_path)


def test_tables_are_believed_before_a_dump(tmp_path: Path) -> None:
    dump = tmp_path / "run/hwloc/knl_memoryside_cache"
    dump.parent.mkdir(parents=True)
    dump.write_text("version: 1\ncache_size: 1\n", encoding="utf-8")
    knights = _knights(tmp_path, 4, 2, 0)
    assert knights is not None
    assert (knights.cluster_mode, knights.memory_mode) == ("SNC4", "Flat")


def _module(kind: int, size: int = 16_384, technology: int = 3) -> bytes:
    table = bytearray(0x5C)
    table[:4] = bytes([17, len(table), 0, 0])
    table[0x0C:0x0E] = size.to_bytes(2, "little")
    table[0x12], table[0x28] = kind, technology
    return bytes(table) + b"SERIAL42\0\0"


def test_installed_kinds_of_memory_are_told(tmp_path: Path) -> None:
    modules = [_module(0x22), _module(0x22), _module(0x21), _module(0x1A, size=0)]
    for slot, module in enumerate(modules):
        _write(tmp_path, f"17-{slot}", module)
    description = _firmware(tmp_path)
    assert description.installed == ("DDR5", "HBM2")
    assert description.sources == [f"memory modules: SMBIOS, in /{ENTRIES}/17-*"]


def test_optane_is_told_from_the_ddr4_that_it_looks_like(tmp_path: Path) -> None:
    _write(tmp_path, "17-0", _module(0x1A))
    _write(tmp_path, "17-1", _module(0x1F, technology=7))
    _write(tmp_path, "17-2", _module(0x01))
    assert _firmware(tmp_path).installed == ("DDR4", "Optane", "other")


def test_old_short_table_still_tells_its_kind(tmp_path: Path) -> None:
    table = bytearray(_module(0x18))[:0x15]
    table[1] = 0x15
    _write(tmp_path, "17-0", bytes(table) + b"\x07" * 40)
    assert _firmware(tmp_path).installed == ("DDR3",)


def test_tables_that_only_root_can_read_are_said_to_be_hidden(tmp_path: Path) -> None:
    (tmp_path / ENTRIES / "17-0").mkdir(parents=True)
    description = _firmware(tmp_path)
    assert description.installed == ()
    assert description.sources == [
        f"memory modules: hidden, as only root can read /{ENTRIES}/17-*/raw"
    ]


def test_machine_without_tables_says_nothing(tmp_path: Path) -> None:
    assert _firmware(tmp_path) == Description()
