"""Reads `profile.json` of a run folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from knltrain.errors import RunFolderError
from knltrain.profile.document import PROFILE, SCHEMA, VERSION


def read_profile(run_folder: Path) -> dict[str, Any]:
    """The profile of a run. Raises RunFolderError where there is none that could be read."""
    path = run_folder / PROFILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunFolderError(
            f"{path}: no such file: expected a run by `knltrain profile CONFIG`, or by `knltrain "
            "train` with train.profile_steps, that has come to its end"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise RunFolderError(f"{path}: cannot be read ({error})") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise RunFolderError(f"{path}: expected a document of schema '{SCHEMA}'")
    version = document.get("version")
    if not isinstance(version, list) or version[:1] != [VERSION[0]]:
        raise RunFolderError(
            f"{path}: of version {version}: expected {VERSION[0]}; profile the run anew, or read "
            "it by the release that wrote it"
        )
    return document


@contextmanager
def whole(run_folder: Path) -> Iterator[None]:
    """What is read of a profile within the block is there; RunFolderError for a damaged one."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise RunFolderError(
            f"{run_folder / PROFILE}: damaged ({type(error).__name__}: {error}); profile the run "
            "anew"
        ) from error
