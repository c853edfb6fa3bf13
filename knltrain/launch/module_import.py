"""Imports the PyTorch module of a configuration, in a process of its own.

Neither this process nor a worker loads PyTorch for it. A run goes on with the network and the
parameters that are found, and needs the module's file no more.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from affinity import allowed_cpus, pinned_command
from knltrain.assembly import check_names, image_shape_of
from knltrain.config import RunConfig
from knltrain.errors import NetworkError, RunFolderError
from knltrain.files.durable import reason_of, sync
from knltrain.launch.signals import signal_name

if TYPE_CHECKING:
    from knltrain.launch.temporary_folder import TemporaryFolder

LOG: Final = "module.log"
"""What the user's code has printed, in the run folder, too."""

_PROCESS: Final = "knltrain.launch.importing_process"
_LAST_LINES: Final = 5


@dataclass(frozen=True, slots=True)
class ModuleImport:
    """A run whose network is described by a file in `folder`; None: no module was imported."""

    config: RunConfig
    folder: Path | None = None
    notes: tuple[str, ...] = ()

    def kept_in(self, run_folder: Path, config: RunConfig) -> RunConfig:
        """The same `config` with the parameters to start from, moved into the run folder.

        Raises RunFolderError where they cannot be written.
        """
        if self.folder is None:
            return config
        from knltrain.launch.importing_process import WEIGHTS

        weights = run_folder.absolute() / WEIGHTS
        try:
            shutil.move(self.folder / WEIGHTS, weights)
            sync(weights)
            if (self.folder / LOG).stat().st_size:
                shutil.move(self.folder / LOG, run_folder / LOG)
        except OSError as error:
            raise RunFolderError(
                f"cannot write '{weights}' ({reason_of(error)}): make room, or the folder writable"
            ) from error
        network = config.network.model_copy(update={"weights": str(weights)})
        return config.model_copy(update={"network": network})


@contextmanager
def module_import(config: RunConfig, tell: Callable[[str], None]) -> Iterator[ModuleImport]:
    """Import `network.module`, if there is one; what it was made into is there until the end.

    `tell` is called with a line before. Raises ConfigError, DataError or NetworkError.
    """
    module = config.network.module
    if module is None:
        yield ModuleImport(config)
        return
    from knltrain.launch.importing_process import DESCRIPTION
    from knltrain.launch.temporary_folder import temporary_folder

    check_names(config)
    chosen = config.network
    request = {
        "module": module,
        "image_shape": image_shape_of(config),
        "seed": config.seed,
        "auxiliary_weights": config.loss.auxiliary_weights or (),
        "weights": chosen.weights and str(Path(chosen.weights).absolute()),
        "new_layers": chosen.new_layers,
    }
    with temporary_folder() as made:
        tell(f"importing {module}")
        notes = _imported(request, made)
        described = {
            "name": str(made.path / DESCRIPTION),
            "module": None,
            "weights": None,
            "new_layers": (),
        }
        network = chosen.model_copy(update=described)
        found = config.model_copy(update={"network": network})
        yield ModuleImport(found, made.path, notes)


def _imported(request: dict[str, Any], made: TemporaryFolder) -> tuple[str, ...]:
    """Let the process import the module; return its notes, or raise its error."""
    from knltrain.launch.importing_process import OUTCOME, TOLD

    log, file = made.path / LOG, made.path / OUTCOME
    with log.open("wb") as stream:
        command = [sys.executable, "-m", _PROCESS]
        caches = {"TORCHINDUCTOR_CACHE_DIR": str(made.path)}  # which torch.export makes, too
        helper = subprocess.Popen(
            pinned_command(command, allowed_cpus(), caches, die_with_parent=os.getpid()),
            stdin=subprocess.PIPE,
            stdout=stream,
            stderr=stream,
            pass_fds=(made.fd,),
            start_new_session=True,  # with all that the user's code may start
        )
    try:
        helper.communicate(json.dumps({**request, "folder": str(made.path)}).encode())
    finally:
        with suppress(ProcessLookupError):
            os.killpg(helper.pid, signal.SIGKILL)
        helper.wait()
    if not file.exists():
        raise NetworkError(_ended(request["module"], helper.returncode, log))
    outcome = json.loads(file.read_text(encoding="utf-8"))
    if "error" in outcome:
        raise TOLD[outcome["error"]](outcome["message"])
    return tuple(outcome["notes"])


def _ended(module: str, status: int, log: Path) -> str:
    how = signal_name(-status) if status < 0 else f"status {status}"
    printed = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
    told = ":\n" + "\n".join(printed) if printed else ""
    return (
        f"network.module = '{module}': the process that imports it has ended with {how}, expected "
        f"a network{told}"
    )
