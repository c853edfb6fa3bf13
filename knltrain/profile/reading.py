"""Reads `profile.json` of a run folder."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from knltrain.errors import RunFolderError
from knltrain.profile.document import PROFILE, SCHEMA, VERSION


def read_profile(run_folder: Path) -> dict[str, Any]:
    """The profile of a run. Raises RunFolderError where there is none that could be read."""
    path = run_folder / PROFILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
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
    with whole(run_folder):
        _check_sum(document)
    return document


def _no_number(text: str) -> None:
    raise ValueError(f"{text}: expected finite numbers")


def _check_sum(document: Mapping[str, Any]) -> None:
    """ValueError where stages and parts do not add up to the step, as they do in each profile."""
    step = document["step_seconds"]["mean"]
    found = sum(each["seconds"]["mean"] for each in document["stages"])
    found += sum(each["seconds"] for each in document["parts"])
    if not (step > 0 and math.isclose(found, step, rel_tol=1e-6)):
        raise ValueError(f"stages and parts add up to {found} s, expected those of a step, {step}")


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
