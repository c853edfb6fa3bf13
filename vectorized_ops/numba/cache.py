"""Numba's compiled kernels on disk, in place of Numba's own cache.

Numba keeps an index per function, which every process reads, changes and writes without a lock: of
two that compile at once one is forgotten, or its number comes to stand for the other's machine
code (numba issue 10128). Here each kernel is a file named by all that it was made from, and while
one process compiles it the others wait for it.
"""

from __future__ import annotations

import hashlib
import pickle
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, final

from numba.core import config, sigutils
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from vectorized_ops.numba.cache_folder import CacheFolder
from vectorized_ops.numba.fingerprint import fingerprint
from vectorized_ops.numba.journal import JOURNAL

PATIENCE_SECONDS: Final = 300.0
"""How long a process waits for another that compiles a kernel, before it does so itself."""

_LONGEST_PAUSE_SECONDS = 0.25
_SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "USING_SVML")
"""What is set in Numba and changes machine code."""


class KernelCacheWarning(UserWarning):
    """Kernels cannot be kept, or not be shared: this process compiles its own."""


@final
class KernelCache(_Cache):
    """The cache of one kernel, in the words by which Numba's dispatcher asks for it.

    Numba asks and compiles under its one lock, so of the threads of a process only one is here.
    """

    def __init__(
        self, dispatcher: Any, folder: CacheFolder, made_by: Callable[..., Any] | None
    ) -> None:
        self._function = dispatcher.py_func
        self._dispatcher = dispatcher
        self.made_by = made_by
        self._folder = folder
        self._fingerprint: str | None = None
        self._claims: list[tuple[str, bool]] = []  # being compiled: name, whether it is locked

    @property
    def cache_path(self) -> str:
        """The folder of all kernels."""
        return str(self._folder.path)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the kernel for a signature, waiting if another process is at it.

        None means that Numba is to compile it now.
        """
        target_context.refresh()
        name = self._name(sig, target_context.codegen())
        JOURNAL.begin()
        found = _rebuilt(self._folder.read(name), target_context)
        if found is None:
            found = self._claim(name, target_context)
        if found is not None:
            JOURNAL.end(self._function.__name__, str(sig), compiled=False)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what Numba has compiled, and let those who wait for it have it."""
        name, _ = self._claims[-1]
        try:
            content = _reduced(data)
            if content is None:
                _tell(f"{self._function.__qualname__} cannot be kept: it holds addresses")
            else:
                self._folder.write(name, content)
                self._folder.remove_unused(time.time())
        except OSError as error:
            _tell_unshared(error)
        finally:
            self._let_go()
        JOURNAL.end(self._function.__name__, str(sig), compiled=True)

    def guarded(self, compile_kernel: Callable[..., Any]) -> Callable[..., Any]:
        """Return Numba's `compile_kernel` such that nobody waits for what failed."""

        def compile_or_let_go(*args: Any) -> Any:
            try:
                return compile_kernel(*args)
            except BaseException:
                self._let_go()
                JOURNAL.give_up()
                raise

        return compile_or_let_go

    def enable(self) -> None:
        """Do nothing: it is always on."""

    def disable(self) -> None:
        """Do nothing: it is always on."""

    def flush(self) -> None:
        """Do nothing: what has changed is found under another name."""

    def _claim(self, name: str, target_context: Any) -> Any:
        """Return the kernel as soon as it is there, or None when this process is to compile it."""
        pause, deadline, locked = 0.005, time.monotonic() + PATIENCE_SECONDS, False
        while time.monotonic() < deadline:
            try:
                locked = self._folder.lock(name)
                content = self._folder.read_anew(name)
            except OSError as error:
                _tell_unshared(error)
                break
            found = _rebuilt(content, target_context)
            if found is not None or locked:
                self._claims.append((name, locked))
                if found is not None:
                    self._let_go()
                return found
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        else:
            _tell(f"another process has been compiling {name} for {PATIENCE_SECONDS:.0f} seconds")
        self._claims.append((name, locked))
        return None

    def _let_go(self) -> None:
        name, locked = self._claims.pop()
        if locked:
            self._folder.unlock(name)

    def _name(self, sig: Any, codegen: Any) -> str:
        """Name the entry by what its machine code depends on, processor and settings included."""
        if self._fingerprint is None:
            self._fingerprint = fingerprint(self._dispatcher)
        arguments, _ = sigutils.normalize_signature(sig)  # type: ignore[no-untyped-call]
        types = [_text_of(kind) for kind in arguments]
        settings = [(name, repr(getattr(config, name))) for name in _SETTINGS]
        made_from = self._fingerprint, types, codegen.magic_tuple(), settings
        digest = hashlib.sha256(repr(made_from).encode()).hexdigest()[:32]
        return f"{self._function.__name__}-{digest}"


_folders: dict[Path, CacheFolder] = {}
_told: set[str] = set()


def keep(
    dispatcher: Any,
    folder: Path,
    is_shared: bool = False,
    made_by: Callable[..., Any] | None = None,
) -> None:
    """Let the kernel of a fresh `dispatcher` be loaded from `folder`, and be kept there.

    `made_by` is a function that has made what is compiled of the dispatcher's.
    """
    known = _folders.setdefault(folder, CacheFolder(folder, is_shared))
    cache = KernelCache(dispatcher, known, made_by)
    dispatcher._cache = cache
    dispatcher._compiler.compile = cache.guarded(dispatcher._compiler.compile)


def _reduced(compiled: Any) -> bytes | None:
    if compiled.lifted or compiled.library.has_dynamic_globals:
        return None
    return dumps(compiled._reduce())  # type: ignore[no-any-return, no-untyped-call]


def _rebuilt(content: bytes | None, target_context: Any) -> Any:
    if content is None:
        return None
    try:
        payload = pickle.loads(content)
        return CompileResult._rebuild(target_context, *payload)  # type: ignore[no-untyped-call]
    except Exception:  # noqa: BLE001  (whatever is wrong with it, it can be compiled anew)
        return None


def _text_of(kind: Any) -> str:
    """Describe a type of Numba's, which names a named tuple without its module and fields."""
    python = getattr(kind, "instance_class", None)
    if python is None:
        return str(kind)
    return f"{kind} {python.__module__}.{python.__qualname__} {getattr(python, '_fields', ())}"


def _tell_unshared(error: OSError) -> None:
    _tell(
        "kernels are not shared with other processes, this one compiles its own: "
        f"{error}; or set NUMBA_CACHE_DIR to a folder where files can be written and locked"
    )


def _tell(message: str) -> None:
    if message not in _told:
        _told.add(message)
        warnings.warn(message, KernelCacheWarning, stacklevel=2)
