"""A cache of compiled kernels on disk, in place of Numba's own.

Numba keeps an index per function, which every process reads, changes and writes without a lock. If
two compile at once, one entry is lost, or its number refers to the other's machine code (numba
issue 10128). Here each kernel is a file named by all that it was made from. While one process
compiles it, the others wait for it.
"""

from __future__ import annotations

import hashlib
import pickle
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, final

from numba.core import config, sigutils
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.runtime.nrt import rtsys
from numba.core.serialize import dumps

from vectorized_ops.numba.compiling.cache_folder import CacheFolder, UntrustedError
from vectorized_ops.numba.compiling.fingerprint import CompiledCode, compiled_code
from vectorized_ops.numba.compiling.journal import JOURNAL
from vectorized_ops.numba.compiling.packages import kernel_packages, packaged_processor

PATIENCE_SECONDS: Final = 300.0
"""How long a process waits for another that compiles a kernel, before it does so itself."""

_LONGEST_PAUSE_SECONDS = 0.25
_SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "USING_SVML")
"""Settings of Numba that change machine code."""


class KernelCacheWarning(UserWarning):
    """Kernels cannot be kept, or not be shared: this process compiles its own."""


@final
class SharedKernels:
    """Kernels by name; one process compiles each while the others wait for it.

    Kernels are compiled under Numba's one lock, so only one thread of a process is here. Kernels in
    `packages` are taken from there, and not compiled.
    """

    def __init__(self, folder: CacheFolder, packages: Sequence[CacheFolder] = ()) -> None:
        self._folder, self._packages = folder, packages
        self._claims: list[_Claim] = []
        """What this process is making, each for the one before."""
        self.lost: list[tuple[str, OSError]] = []
        """Kernels that were compiled and could not be written, and why."""

    @property
    def path(self) -> Path:
        """The folder of all kernels."""
        return self._folder.path

    def obtain(
        self, names: EntryNames, told: tuple[str, str], rebuild: Callable[[bytes], Any]
    ) -> Any | None:
        """Return the kernel, by `rebuild` of its entry; waits if another process compiles it.

        None means that this process must compile it now, and then call `keep` or `give_up`. `told`
        is its name and signature, for messages.
        """
        JOURNAL.begin()
        found = _rebuilt(self._folder.read(names.own), rebuild)
        for package in self._packages:
            if found is None:
                found = _rebuilt(package.read(names.packaged), rebuild)
                if found is None and package.has(names.packaged):
                    _tell_damaged(package, names.packaged)
        if found is None:
            found = self._claim(names.own, told, rebuild)
        if found is not None:
            JOURNAL.end(*told, compiled=False)
        return found

    def has(self, names: EntryNames) -> bool:
        """Tell whether the kernel seems to be there."""
        packaged = any(package.has(names.packaged) for package in self._packages)
        return packaged or self._folder.has(names.own)

    def is_being_made(self, name: str) -> bool:
        """Tell whether another process is compiling the kernel; False where that cannot be told."""
        try:
            if not self._folder.lock(name):
                return True
        except OSError:
            return False
        self._folder.unlock(name)
        return False

    def keep(self, content: bytes | None) -> None:
        """Write the last kernel that was begun, unless it is None, and release its lock."""
        claim = self._claims[-1]
        try:
            if content is None:
                _tell(f"{claim.told[0]} cannot be kept: it holds addresses")
            else:
                self._folder.write(claim.name, content)
                self._folder.remove_unused(time.time())
        except OSError as error:
            self.lost.append((claim.told[0], error))
            _tell_unshared(error)
        finally:
            self._let_go()
        JOURNAL.end(*claim.told, compiled=True)

    def give_up(self) -> None:
        """Release the lock of the last kernel that was begun, whose compilation has failed."""
        self._let_go()
        JOURNAL.give_up()

    def _claim(self, name: str, told: tuple[str, str], rebuild: Callable[[bytes], Any]) -> Any:
        """Return the kernel as soon as it is there, or None when this process is to make it."""
        pause, deadline, locked = 0.005, time.monotonic() + PATIENCE_SECONDS, False
        while time.monotonic() < deadline:
            try:
                locked = self._folder.lock(name)
                content = self._folder.read_anew(name)
            except OSError as error:
                _tell_unshared(error)
                break
            found = _rebuilt(content, rebuild)
            if found is not None or locked:
                self._claims.append(_Claim(name, told, locked))
                if found is not None:
                    self._let_go()
                return found
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        else:
            _tell(f"another process has been compiling {name} for {PATIENCE_SECONDS:.0f} seconds")
        self._claims.append(_Claim(name, told, locked))
        return None

    def _let_go(self) -> None:
        claim = self._claims.pop()
        if claim.locked:
            self._folder.unlock(claim.name)


class _Claim(NamedTuple):
    name: str
    told: tuple[str, str]
    locked: bool


@final
class KernelCache(_Cache):
    """The cache of one kernel, with the interface that Numba's dispatcher expects."""

    def __init__(
        self, dispatcher: Any, shared: SharedKernels, made_by: Callable[..., Any] | None
    ) -> None:
        self._function = dispatcher.py_func
        self._dispatcher = dispatcher
        self.made_by = made_by
        self._shared = shared
        self._code: CompiledCode | None = None

    @property
    def cache_path(self) -> str:
        """The folder of all kernels."""
        return str(self._shared.path)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the kernel for a signature, or None: Numba must compile it now.

        Numba's knowledge of functions, which takes a quarter of a second to load, is needed for
        compiling only.
        """
        rtsys.initialize(target_context)

        def rebuild(content: bytes) -> Any:
            rebuilt: Any = CompileResult._rebuild
            return rebuilt(target_context, *pickle.loads(content))

        names = self.names_of(sig, target_context)
        return self._shared.obtain(names, (self._function.__name__, str(sig)), rebuild)

    def save_overload(self, sig: Any, data: Any) -> None:  # noqa: ARG002 (of Numba's form)
        """Write what Numba has compiled, and release its lock."""
        self._shared.keep(_reduced(data))

    def guarded(self, compile_kernel: Callable[..., Any]) -> Callable[..., Any]:
        """Return Numba's `compile_kernel`, wrapped so that a failure releases the lock."""

        def compile_or_give_up(*args: Any) -> Any:
            try:
                return compile_kernel(*args)
            except BaseException:
                self._shared.give_up()
                raise

        return compile_or_give_up

    def enable(self) -> None:
        """Do nothing: it is always on."""

    def disable(self) -> None:
        """Do nothing: it is always on."""

    def flush(self) -> None:
        """Do nothing: a changed kernel has another name."""

    @property
    def shared(self) -> SharedKernels:
        """Those among which it is kept."""
        return self._shared

    @property
    def code(self) -> CompiledCode:
        """What is compiled for it, whatever the signature."""
        if self._code is None:
            self._code = compiled_code(self._dispatcher)
        return self._code

    def names_of(self, sig: Any, target_context: Any) -> EntryNames:
        """Return the names of the entry for a signature."""
        arguments, _ = sigutils.normalize_signature(sig)  # type: ignore[no-untyped-call]
        types = [_text_of(kind) for kind in arguments]
        made_from = self.code.fingerprint, types
        return entry_names(self._function.__name__, made_from, target_context.codegen())


class EntryNames(NamedTuple):
    """The name of an entry in the cache, and in packages, which are for a processor by its name."""

    own: str
    packaged: str


def entry_names(kernel: str, made_from: object, codegen: Any) -> EntryNames:
    """Name an entry by all that its machine code depends on, processor and settings included.

    `made_from` has a representation that is the same in every process.
    """
    settings = [(name, repr(getattr(config, name))) for name in _SETTINGS]
    magic = codegen.magic_tuple()

    def named(*target: Any) -> str:
        depends_on = made_from, target, settings
        return f"{kernel}-{hashlib.sha256(repr(depends_on).encode()).hexdigest()[:32]}"

    return EntryNames(named(*magic), named(magic[0], packaged_processor(), ""))


_shared: dict[Path, SharedKernels] = {}
_told: set[str] = set()


def shared_kernels(folder: Path, is_shared: bool = False) -> SharedKernels:
    """Return the kernels of a folder, of which there is one in a process; see `CacheFolder`."""
    if folder not in _shared:
        packages = kernel_packages(folder.name)
        for package in packages:
            if package.refusal is not None:
                _tell(f"packaged kernels are not used: {package.refusal}")
        folders = [package.folder for package in packages if package.folder is not None]
        _shared[folder] = SharedKernels(CacheFolder(folder, is_shared), folders)
    return _shared[folder]


def keep(
    dispatcher: Any,
    folder: Path,
    is_shared: bool = False,
    made_by: Callable[..., Any] | None = None,
) -> None:
    """Let the kernel of a fresh `dispatcher` be loaded from `folder`, and be kept there.

    `made_by` is a function that has made what is compiled of the dispatcher's.
    """
    cache = KernelCache(dispatcher, shared_kernels(folder, is_shared), made_by)
    dispatcher._cache = cache
    dispatcher._compiler.compile = cache.guarded(dispatcher._compiler.compile)


def _reduced(compiled: Any) -> bytes | None:
    if compiled.lifted or compiled.library.has_dynamic_globals:
        return None
    return dumps(compiled._reduce())  # type: ignore[no-any-return, no-untyped-call]


def _rebuilt(content: bytes | None, rebuild: Callable[[bytes], Any]) -> Any:
    if content is None:
        return None
    try:
        return rebuild(content)
    except Exception:  # noqa: BLE001  (whatever is wrong with it, it can be compiled anew)
        return None


def _text_of(kind: Any) -> str:
    """Describe a type of Numba's, which names a named tuple without its module and fields."""
    python = getattr(kind, "instance_class", None)
    if python is None:
        return str(kind)
    return f"{kind} {python.__module__}.{python.__qualname__} {getattr(python, '_fields', ())}"


def _tell_unshared(error: OSError) -> None:
    way = "; or set NUMBA_CACHE_DIR to a folder where files can be written and locked"
    if isinstance(error, IsADirectoryError):
        way = ": a folder has the name of a kernel; remove it"
    elif isinstance(error, UntrustedError):
        way = ""  # it has told one
    _tell(
        f"kernels are not shared with other processes, this one compiles its own: {error}{way}",
        f"{type(error)} {error.errno}",
    )


def _tell_damaged(package: CacheFolder, name: str) -> None:
    _tell(
        f"not all packaged kernels are used: {package.path}: {name} is {package.fault(name)}; "
        "knltrain doctor lists all such",
        str(package.path),
    )


def _tell(message: str, once: str | None = None) -> None:
    """Warn once of each message, or of each matter `once`."""
    if (once or message) not in _told:
        _told.add(once or message)
        warnings.warn(message, KernelCacheWarning, stacklevel=2)
