"""Reads a machine from the kernel's files, from a capture or from other tools' output.

read_topology()                       the machine that this runs on
read_machine(Path("machine.tgz"))     another, from a snapshot, hwloc's XML, `numactl -H` ...
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from affinity.errors import NoMachine, TopologyError
from affinity.machine.captor import note_captor
from affinity.machine.description import Description
from affinity.machine.files import MAX_BYTES, FolderFiles, MachineFiles, bounded, only_machine
from affinity.machine.inference import conclude
from affinity.machine.memory_kind import HbmWord, hbm_from_environment
from affinity.machine.sysfs import describe_sysfs
from affinity.process.binding import allowed_cpus
from affinity.topology import Topology

KNOWN_FORMATS = (
    "expected a folder or tar archive with sys and proc (from `python -m affinity snapshot`), "
    "hwloc's XML (lstopo machine.xml), the text of lstopo or `numactl -H`, or libvirt's domain XML"
)

_ARCHIVES = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
"""What gzip, bzip2, xz and zstd begin with; a bare tar has its mark at byte 257."""

DEEPEST_ROOT = 4
"""How many folders may lie around ``sys`` and ``proc``."""

MOST_FOLDERS = 200
"""No more folders are looked into at one level: a file system is no capture."""

_OPINIONS = re.compile(r"lstopo.*\.(xml|txt)|.*\.(lstopo|output)", re.IGNORECASE)
"""Names of files beside ``sys`` and ``proc`` in which hwloc tells of the same machine."""

_BEFORE_ROOT = re.compile(r"\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(\[.*?\]\s*)?>", re.DOTALL)


def read_topology(
    root: Path = Path("/"),
    allowed: Iterable[int] | None = None,
    hbm: Sequence[HbmWord] | None = None,
) -> Topology:
    """Read the machine whose ``sys`` and ``proc`` trees lie under `root`.

    `allowed` are cpus that exist for certain even if the files do not show them. `hbm` are the
    nodes that the user names as high-bandwidth memory. Where `root` is ``/`` both have defaults:
    the cpus of this process, and the environment's variable.

    Raises TopologyError when no file tells the cpus, or a file holds what the kernel never writes.
    """
    own = root == Path("/")
    if allowed is None:
        allowed = allowed_cpus() if own else ()
    if hbm is None:
        hbm = hbm_from_environment() if own else ()
    return conclude(describe_sysfs(FolderFiles(root), allowed), hbm)


def read_machine(path: Path, hbm: Sequence[HbmWord] = ()) -> Topology:
    """Read the machine of which `path` is a capture or another tool's description.

    The format is recognised by the content, not by the name. Raises TopologyError naming the file
    if it is missing or damaged, and its subclass NoMachine if it is empty or of no known format.
    """
    found = _open(path)
    if isinstance(found, bytes):
        return conclude(_describe_text(found, path), hbm)
    return conclude(_describe_files(found, path), hbm)


def read_opinions(path: Path) -> Iterator[tuple[str, Topology]]:
    """The topologies in lstopo's output on a machine, where a capture contains it.

    With the name of each file; those of no known format are left out. Raises as `read_machine`.
    """
    found = _open(path)
    if isinstance(found, bytes):
        return
    for name in found.names(""):
        content = found.read_bytes(name) if _OPINIONS.fullmatch(name) else None
        if content is not None:
            with suppress(NoMachine):
                yield name, conclude(_describe_text(content, path / name))


def _open(path: Path) -> MachineFiles | bytes:
    """The files of a capture, or the content of what is no capture."""
    if path.is_dir():
        return _folder(path)
    try:
        with path.open("rb") as file:
            content = bounded(file.read(MAX_BYTES + 1), str(path))
    except OSError as error:
        raise TopologyError(f"cannot read {path}: {error.strerror}; {KNOWN_FORMATS}") from None
    if content.startswith(_ARCHIVES) or content[257:262] == b"ustar":
        from affinity.machine.archive import ArchiveFiles

        return ArchiveFiles(path)
    return content


def _folder(path: Path) -> FolderFiles:
    """The files of the folder, or of the only one below it with a machine, as archives unpack to.

    Raises TopologyError if there are several.
    """
    files = FolderFiles(path)
    level = [] if _has_trees(files) else [path]
    for _ in range(DEEPEST_ROOT):
        level = [inner for folder in level for inner in _folders(folder)][:MOST_FOLDERS]
        if roots := [folder for folder in level if _has_trees(FolderFiles(folder))]:
            only_machine(str(path), [str(root.relative_to(path)) for root in roots])
            return FolderFiles(roots[0])
    return files


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(
            inner for inner in path.iterdir() if inner.is_dir() and not inner.is_symlink()
        )
    except OSError:
        return []


def _has_trees(files: MachineFiles) -> bool:
    return not {"sys", "proc"}.isdisjoint(files.names(""))


def _describe_files(files: MachineFiles, path: Path) -> Description:
    if files.names("sys/devices") or files.names("proc"):
        description = describe_sysfs(files)
        note_captor(files, description)
        return description
    if _has_trees(files):
        raise NoMachine(
            f"{path} cannot tell the cpus of a machine, as it has neither proc nor sys/devices"
        )
    tops = files.names("")
    if any(re.fullmatch(r"pu\d+", name) for top in ("", *tops) for name in files.names(top, "pu")):
        raise NoMachine(
            f"{path} holds only raw cpuid dumps (pu0, pu1 ...), which tell nothing of memory: "
            "give hwloc's XML of that machine instead, as lstopo machine.xml writes it"
        )
    raise NoMachine(f"{path} has neither sys nor proc in it: {KNOWN_FORMATS}")


def _describe_text(content: bytes, path: Path) -> Description:
    # Each reader is imported only where it is needed: XML alone doubles the time to start.
    text = content.decode("utf-8-sig", "replace")
    if text.lstrip().startswith("<"):
        return _describe_xml(text, path)
    if re.search(r"^(available: \d+ nodes|node \d+ (cpus|size):)", text, re.MULTILINE):
        from affinity.machine.numactl_text import describe_numactl

        return describe_numactl(text, str(path))
    if re.match(r"\s*(Machine|System)\b[^\n]*\n\s*[A-Z]", text):
        from affinity.machine.lstopo_text import describe_lstopo

        return describe_lstopo(text, str(path))
    raise NoMachine(
        f"{path} is {'of no known format' if text.strip() else 'empty'}: {KNOWN_FORMATS}"
    )


def _describe_xml(text: str, path: Path) -> Description:
    root = _root_tag(text)
    if root == "topology":
        from affinity.machine.hwloc_xml import describe_hwloc_xml

        return describe_hwloc_xml(text, str(path))
    if root == "domain":
        from affinity.machine.libvirt_xml import describe_libvirt_xml

        return describe_libvirt_xml(text, str(path))
    raise NoMachine(f"{path} is XML about {root!r}: {KNOWN_FORMATS}")


def _root_tag(text: str) -> str:
    # Not by a parser: that would stop at damage before it is known whose format it is.
    start = 0
    while before := _BEFORE_ROOT.match(text, start):
        start = before.end()
    found = re.compile(r"<([\w:.-]+)").match(text, start)
    return found[1] if found else "nothing"
