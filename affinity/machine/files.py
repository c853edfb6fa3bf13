"""Small text files in which the kernel describes a machine; containers hide some of them."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, final

from affinity.cpulist import members_of, parse_cpulist
from affinity.errors import AffinityError, TopologyError
from affinity.numbers import whole_number

CPUINFO = "proc/cpuinfo"

MAX_BYTES = 1 << 28
"""No file that describes a machine, and no capture of one, comes near this."""

_AROUND_TEXT = " \t\r\n\v\f\0"
"""Some kernels (2.6.24 to 3.1, 5.15-rc) count the zero that ends a string as a part of the file."""


class MachineFiles(ABC):
    """What lies below a root: paths are relative to it, such as ``proc/cpuinfo``.

    `name` says to people where the root is.
    """

    name: str

    @abstractmethod
    def read_bytes(self, path: str, limit: int | None = None) -> bytes | None:
        """The file's content or its first `limit` bytes; None if missing or not readable."""

    @abstractmethod
    def names(self, folder: str, prefix: str = "") -> tuple[str, ...]:
        """The sorted names in `folder` that begin with `prefix`; empty if there is no folder."""

    @abstractmethod
    def link(self, path: str) -> str | None:
        """Where the symbolic link `path` points to, as it is written there; None if it is none."""

    def read_text(self, path: str, limit: int | None = None) -> str | None:
        """The stripped text of a file or of its first `limit` bytes; None as `read_bytes`."""
        content = self.read_bytes(path, limit)
        return None if content is None else content.decode("utf-8", "replace").strip(_AROUND_TEXT)

    def where(self, path: str) -> str:
        """The full name of a file, for messages."""
        return f"{self.name.rstrip('/')}/{path}"


@final
class FolderFiles(MachineFiles):
    """The files below a folder: ``/`` for the machine that this runs on."""

    def __init__(self, root: Path) -> None:
        self.name = str(root)
        self._prefix = f"{self.name.rstrip('/')}/"

    def read_bytes(self, path: str, limit: int | None = None) -> bytes | None:
        """See `MachineFiles`."""
        # Not open(): a machine of 480 cpus has several thousand files to read.
        try:
            descriptor = os.open(self._prefix + path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            content = _read_all(descriptor, MAX_BYTES + 1 if limit is None else limit)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return bounded(content, self.where(path))

    def names(self, folder: str, prefix: str = "") -> tuple[str, ...]:
        """See `MachineFiles`."""
        try:
            found = os.listdir(self._prefix + folder)  # noqa: PTH208
        except OSError:
            return ()
        return tuple(sorted(name for name in found if name.startswith(prefix)))

    def link(self, path: str) -> str | None:
        """See `MachineFiles`."""
        try:
            return os.readlink(self._prefix + path)  # noqa: PTH115
        except OSError:
            return None


def only_machine(name: str, roots: Sequence[str]) -> None:
    """Raise TopologyError, naming them, if there are several machines in what `name` is."""
    if len(roots) > 1:
        shown = ", ".join(sorted(roots)[:8]) + (" ..." if len(roots) > 8 else "")
        raise TopologyError(
            f"{name} holds {len(roots)} machines ({shown}): workers are placed on one; give the "
            "folder or file of one of them, or look at all with python -m affinity check --machines"
        )


def bounded(content: bytes, where: str) -> bytes:
    """`content` of the file `where`; TopologyError naming it if that is above `MAX_BYTES`."""
    if len(content) > MAX_BYTES:
        raise TopologyError(f"{where} holds more than {MAX_BYTES >> 20} MiB: this is no machine")
    return content


def _read_all(descriptor: int, limit: int) -> bytes:
    parts: list[bytes] = []
    left = limit
    # A short read is no end: procfs hands its files out page by page.
    while left and (part := os.read(descriptor, min(left, 1 << 16))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def numbers(files: MachineFiles, folder: str, prefix: str) -> tuple[int, ...]:
    """The numbers N, ascending, of all that is called `prefix` + N in `folder`."""
    endings = (whole_number(name[len(prefix) :]) for name in files.names(folder, prefix))
    return tuple(sorted(number for number in endings if number is not None))


def read_int(files: MachineFiles, path: str) -> int | None:
    """The number in a kernel file, None where that is missing or empty; TopologyError if none."""
    text = files.read_text(path)
    # Captures have empty files in the place of those that could not be read.
    return to_int(text, files.where(path)) if text else None


def to_int(text: str, where: str) -> int:
    """`text`, found in the file `where`, as a number; TopologyError naming both if it is none."""
    try:
        return int(text)
    except ValueError:
        raise TopologyError(f"{where} holds {text!r} where a whole number was expected") from None


def read_list(files: MachineFiles, path: str) -> tuple[int, ...] | None:
    """The cpus or nodes in a list such as ``0-3,8``; None if missing, TopologyError if garbage."""
    text = files.read_text(path)
    return None if text is None else to_list(text, files.where(path))


def to_list(text: str, where: str) -> tuple[int, ...]:
    """`text`, found in the file `where`, as a list; TopologyError naming both if it is none."""
    try:
        return parse_cpulist(text)
    except AffinityError as error:
        raise TopologyError(f"{where}: {error}") from None


def find_cpus(files: MachineFiles, folder: str, listed: str, mask: str) -> tuple[int, ...] | None:
    """The cpus in the hexadecimal `mask`, which every kernel has, else those that are `listed`.

    None if `folder` has neither. A kernel writes both from one set. In captures one may be empty,
    and some were altered in their masks alone.
    """
    try:
        bits = int((files.read_text(f"{folder}/{mask}") or "").replace(",", ""), 16)
    except ValueError:
        return read_list(files, f"{folder}/{listed}")
    try:
        return members_of(bits) or read_list(files, f"{folder}/{listed}") or ()
    except AffinityError as error:
        raise TopologyError(f"{files.where(folder)}/{mask}: {error}") from None


def read_cpus(files: MachineFiles, folder: str) -> tuple[int, ...]:
    """The cpus in the ``cpulist`` or ``cpumap`` of a NUMA node, else those that it links to.

    Raises TopologyError if `folder` has none: no cpus and unknown cpus are not the same.
    """
    cpus = find_cpus(files, folder, "cpulist", "cpumap")
    if cpus is None:
        cpus = numbers(files, folder, "cpu") or None
    if cpus is None:
        where = files.where(folder)
        raise TopologyError(f"{where} has neither a cpulist nor a cpumap that can be read")
    return cpus


class MemInfo(NamedTuple):
    """Bytes of a memory; None if not told. `reclaimable` are those of clean file pages.

    The kernel drops these for who may use no other memory, before it kills anybody.
    """

    total: int | None = None
    free: int | None = None
    reclaimable: int = 0


def read_meminfo(files: MachineFiles, path: str) -> MemInfo:
    """What ``/proc/meminfo`` or a node's ``meminfo`` tells; nothing if it is missing."""
    told = _amounts(files, path)
    # On these lists is no shared memory, and nothing that is locked: FilePages has both.
    listed = told.get("Active(file)", 0) + told.get("Inactive(file)", 0)
    unwritten = told.get("Dirty", 0) + told.get("Writeback", 0)
    return MemInfo(told.get("MemTotal"), told.get("MemFree"), max(0, listed - unwritten))


def read_available(files: MachineFiles) -> int | None:
    """Bytes that programs can still take, by the kernel's estimate; None if it is not told."""
    told = _amounts(files, "proc/meminfo")
    # Kernels before 3.14 leave the estimate to their users.
    if "MemAvailable" in told or "MemFree" not in told:
        return told.get("MemAvailable")
    return told["MemFree"] + told.get("Cached", 0)


def _amounts(files: MachineFiles, path: str) -> dict[str, int]:
    # No amount of memory has more digits, and Python itself refuses thousands of them.
    lines = re.findall(r"(\w+(?:\(file\))?):\s*(\d{1,20}) kB", files.read_text(path) or "")
    return {name: int(kilobytes) * 1024 for name, kilobytes in lines}


def read_cpuinfo(files: MachineFiles) -> dict[int, dict[str, str]]:
    """The blocks of ``/proc/cpuinfo`` by processor number; empty where it tells of none.

    Those of s390 and Alpha have no block for each processor: these are empty.
    """
    text = files.read_text(CPUINFO) or ""
    processors: dict[int, dict[str, str]] = {}
    for block in re.split(r"\n\s*\n", text):
        fields = _fields(block)
        if "processor" in fields:
            processors[to_int(fields["processor"], files.where(CPUINFO))] = fields
    if processors:
        return processors
    numbered = re.findall(r"^processor\s+(\d{1,5})\s*:", text, re.MULTILINE)
    counted = re.search(r"^cpus detected\s*:\s*(\d{1,5})\s*$", text, re.MULTILINE)
    return {int(cpu): {} for cpu in numbered or range(int(counted[1]) if counted else 0)}


def read_first_processor(files: MachineFiles) -> dict[str, str]:
    """The first block of ``/proc/cpuinfo``, which is long to make up for hundreds of cpus."""
    text = files.read_text(CPUINFO, limit=1 << 14) or ""
    return _fields(re.split(r"\n\s*\n", text, maxsplit=1)[0])


def _fields(block: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in block.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}
