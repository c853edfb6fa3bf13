"""The folder of one run: created so that no two runs share it, locked while a run uses it."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from knltrain.checkpoint.folders import step_of
from knltrain.config import RunConfig, load_config, to_toml
from knltrain.errors import DataError, RunFolderError
from knltrain.files.durable import sync, write_whole
from knltrain.network.network import Network
from knltrain.network.zoo.networks import network_named

if TYPE_CHECKING:
    from knltrain.data.model_preprocessing import ModelPreprocessing

CONFIG: Final = "config.toml"
NETWORK: Final = "network.json"
PREPROCESSING: Final = "preprocessing.json"
PLACEMENT: Final = "placement.json"
PART: Final = "data.json"


def create_run_folder(runs_folder: Path, name: str) -> Path:
    """Make `<runs_folder>/<name>`, or `<name>-2`, `<name>-3`, ... if that is taken.

    Two runs that start at once get two folders. Raises RunFolderError when no folder can be made.
    """
    try:
        runs_folder.mkdir(parents=True, exist_ok=True)
        for number in itertools.count(1):
            folder = runs_folder / (name if number == 1 else f"{name}-{number}")
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            sync(runs_folder)
            return folder
    except OSError as error:
        raise RunFolderError(
            f"cannot make a run folder in '{runs_folder}' ({error.strerror}: {error.filename}): "
            "name a folder that can be written, as in --set runs_folder=/tmp/runs"
        ) from error
    raise AssertionError("itertools.count does not end")


def read_config(run_folder: Path, overrides: tuple[str, ...] = ()) -> RunConfig:
    """Configuration of an existing run, whose network is that of its folder.

    Raises RunFolderError when `run_folder` is not the folder of a run.
    """
    path = run_folder / CONFIG
    if not path.is_file():
        raise RunFolderError(
            f"'{run_folder}' is not the folder of a run: expected a file '{path}' in it"
        )
    return _with_network_of(run_folder, load_config(path, overrides))


def write_network(run_folder: Path, network: Network) -> None:
    """Write the network's description: a run of a described network goes on with this one."""
    from knltrain.network.description import network_to_json

    _write_whole(run_folder / NETWORK, network_to_json(network))


def write_preprocessing(run_folder: Path, known: ModelPreprocessing | None) -> None:
    """Write how pictures become images, and the names of the classes, if that is known."""
    if known is not None:
        _write_whole(run_folder / PREPROCESSING, known.to_json())


def read_preprocessing(run_folder: Path) -> ModelPreprocessing | None:
    """What training has written; None in the folders of older versions.

    Raises DataError for a file that is none, and RunFolderError for one that cannot be read.
    """
    from knltrain.data.model_preprocessing import ModelPreprocessing

    path = run_folder / PREPROCESSING
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text at byte {error.start}: copy it anew") from error
    except OSError as error:
        raise RunFolderError(
            f"cannot read '{path}' ({error.strerror}): make it readable"
        ) from error
    return ModelPreprocessing.from_json(text, str(path))


def run_folder_of(source: Path) -> tuple[Path, Path | None]:
    """The folder of a run, and the checkpoint in it that is meant; None: the newest.

    `source` is a run folder, or the folder of one of its checkpoints.
    """
    source = source.absolute()
    if step_of(source) is not None and not (source / CONFIG).is_file():
        return source.parent, source
    return source, None


def network_name(config: RunConfig, run_folder: Path) -> str:
    """The name of a run's network: as configured, or that which a described network has itself."""
    name = config.network.name
    return network_named(str(run_folder / NETWORK)).name if name.endswith(".json") else name


def write_config(run_folder: Path, config: RunConfig) -> None:
    """Write the complete configuration, from which the run can be repeated.

    A described network is that of the folder, which is to be written before.
    """
    _write_whole(run_folder / CONFIG, to_toml(_with_network_of(run_folder.resolve(), config)))


def write_placement(
    run_folder: Path,
    workers: list[dict[str, object]],
    first: int = 0,
    pool: dict[str, object] | None = None,
) -> None:
    """Write the place that each worker was to get on the machine, and the one it got.

    And that of the data pool, if there is one.

    Each process that starts workers writes a file of its own. The file name has the rank of the
    process's `first` worker, unless that is the run's first.
    """
    name = _numbered(PLACEMENT, first)
    places = {"workers": workers} if pool is None else {"workers": workers, "data_pool": pool}
    _write_whole(run_folder / name, json.dumps(places, indent=2) + "\n")


def forget_places(run_folder: Path) -> None:
    """Remove what nodes have written of their places and parts: a resumed run may have fewer."""
    for name in (PLACEMENT, PART):
        later = run_folder.glob(_numbered(name, "[0-9]*"))
        for file in (run_folder / name, *later):
            file.unlink(missing_ok=True)


def write_part(run_folder: Path, part: Mapping[str, int | float | str]) -> None:
    """Write what part of a distributed data set a node holds: `data.json`, or `data-NODE.json`."""
    _write_whole(
        run_folder / _numbered(PART, part["node"]), json.dumps(dict(part), indent=2) + "\n"
    )


def _numbered(name: str, number: float | str) -> str:
    """The name of a file of which the first process has the plain one, 0."""
    return name.replace(".json", f"-{number}.json") if number else name


def log_of(run_folder: Path, rank: int) -> Path:
    """The log file of worker `rank`: all that it prints.

    Below 0: that of a data pool, whose name has the rank of its first worker.
    """
    return run_folder / (f"worker-{rank}.log" if rank >= 0 else f"data-pool-{-1 - rank}.log")


@contextmanager
def held(run_folder: Path) -> Iterator[None]:
    """Lock the folder against other runs; the kernel unlocks it however this process ends.

    Raises RunFolderError when a run is in it, or when it cannot be written.
    """
    try:
        descriptor = os.open(run_folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise RunFolderError(
            f"cannot open the run folder '{run_folder}': {error.strerror}"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise RunFolderError(
            f"another run is using '{run_folder}': wait for its end, or stop it"
        ) from None
    try:
        yield
    finally:
        os.close(descriptor)


def _with_network_of(run_folder: Path, config: RunConfig) -> RunConfig:
    if not config.network.name.endswith(".json"):
        return config
    network = config.network.model_copy(update={"name": str(run_folder / NETWORK)})
    return config.model_copy(update={"network": network})


def _write_whole(path: Path, text: str) -> None:
    try:
        write_whole(path, text)
    except OSError as error:
        raise RunFolderError(
            f"cannot write '{path}': {error.strerror}: make room, or the folder writable, or copy "
            "it elsewhere"
        ) from error
