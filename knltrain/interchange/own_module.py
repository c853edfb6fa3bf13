"""Makes a network of what a function of a user's file returns."""

from __future__ import annotations

import importlib.util
import random
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

from knltrain.errors import ConfigError, DataError, NetworkError, unknown_name
from knltrain.interchange.exported_graph import is_users
from knltrain.interchange.from_torch import ImportedNetwork, from_torch

_IMAGES = 2


def import_own(
    module: str,
    image_shape: tuple[int, int, int],
    seed: int,
    auxiliary_weights: Sequence[float] = (),
) -> ImportedNetwork:
    """The network of a function, named as "my_model.py:build", for images of that shape (H,W,C).

    The function takes no arguments, and returns a module, or what `from_torch` has made of one.
    `auxiliary_weights` are those of the losses of a module's auxiliary outputs.
    What it draws from PyTorch, Python or NumPy follows from `seed`. Its file is run as a module,
    and finds modules beside itself.

    Raises ConfigError if there is no such file or function, or the file's name is taken;
    NetworkError, with the lines of the user's code, for errors in it; and those of `from_torch`.
    """
    file, _, name = module.rpartition(":")
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 (what the user's code may draw from)
    found = _done(module, _function(module, Path(file).expanduser(), name))
    if isinstance(found, ImportedNetwork):
        return found
    if not isinstance(found, nn.Module):
        raise NetworkError(
            f"network.module = '{module}' returned {_shortened(found)}: expected a "
            "torch.nn.Module, or what knltrain.from_torch(module, example) has made of one"
        )
    height, width, channels = image_shape
    example = torch.randn(_IMAGES, channels, height, width, dtype=torch.float32, device="cpu")
    convert = partial(from_torch, found, example, auxiliary_weights)
    imported: ImportedNetwork = _done(module, convert)
    return imported


def _function(module: str, file: Path, name: str) -> Callable[[], Any]:
    if not file.is_file():
        raise ConfigError(f"network.module = '{module}': there is no such file")
    content = _done(module, lambda: _run(file.absolute()))
    function = getattr(content, name, None)
    if not callable(function):
        known = [
            key
            for key, value in vars(content).items()
            if _is_own(value, content) and not key.startswith("_")
        ]
        raise ConfigError(f"network.module = '{module}': {unknown_name('function', name, known)}")
    return function  # type: ignore[no-any-return]


def _run(file: Path) -> ModuleType:
    """Run a file as Python does with `import`, but that it leaves no compiled file beside it."""
    loaded = sys.modules.get(file.stem)
    if loaded is not None and getattr(loaded, "__file__", None) != str(file):
        raise ConfigError(
            f"network.module: {file} would hide the module '{file.stem}' of Python or a library: "
            "expected another name of the file"
        )
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    content = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = content  # where dataclasses and pickles look for it
    spec.loader.exec_module(content)
    return content


def _is_own(value: object, content: ModuleType) -> bool:
    return callable(value) and getattr(value, "__module__", None) == content.__name__


def _done(module: str, work: Callable[[], Any]) -> Any:
    """What `work` returns; NetworkError, with the lines of the user's code, for what it raises."""
    try:
        return work()
    except (ConfigError, DataError, NetworkError):
        raise
    except (Exception, SystemExit) as error:
        frames = [
            each for each in traceback.extract_tb(error.__traceback__) if is_users(each.filename)
        ]
        lines = [*traceback.format_list(frames), *traceback.format_exception_only(error)]
        raise NetworkError(
            f"network.module = '{module}' raised {type(error).__name__}, expected a function of no "
            f"arguments that returns a torch.nn.Module:\n{''.join(lines).rstrip()}"
        ) from error


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
