"""Finds a library to preload by its short name, wherever the system or Python keeps it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from affinity.errors import AffinityError

_LDCONFIG = ("/sbin/ldconfig", "-p")


def preload_value(names: Sequence[str], environment: Mapping[str, str] = os.environ) -> str:
    """The value of LD_PRELOAD that loads these libraries before those in it already.

    A name is a path, or as in ``tcmalloc`` for the library libtcmalloc.so of any version, which is
    looked for in LD_LIBRARY_PATH, in Python's own lib folder, and where the system's linker does.
    Raises AffinityError if there is none.
    """
    paths = [str(_library(name, environment)) for name in names]
    return ":".join(paths + list(filter(None, [environment.get("LD_PRELOAD")])))


def _library(name: str, environment: Mapping[str, str]) -> Path:
    if "/" in name:
        path = Path(name).absolute()
        if not path.is_file():
            raise AffinityError(f"cannot preload {name}: there is no such file")
        return path
    form = re.compile(rf"lib{re.escape(name)}\.so(\.\d+)*")
    for path in _candidates(environment):
        if form.fullmatch(path.name) and path.is_file():
            return path
    raise AffinityError(
        f"cannot preload {name}: no lib{name}.so in LD_LIBRARY_PATH, {Path(sys.prefix, 'lib')} or "
        "the system's folders; install it, or give its path"
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    own = environment.get("LD_LIBRARY_PATH", "").split(":")
    for folder in filter(None, [*own, str(Path(sys.prefix, "lib"))]):
        yield from sorted(Path(folder).glob("lib*.so*"))
    told = ""
    with suppress(OSError, subprocess.SubprocessError):
        told = subprocess.run(
            _LDCONFIG, capture_output=True, text=True, timeout=10, check=True
        ).stdout
    for kind, path in re.findall(r"\((.*?)\) => (\S+)$", told, re.MULTILINE):
        if os.uname().machine != "x86_64" or "x86-64" in kind:
            yield Path(path)
