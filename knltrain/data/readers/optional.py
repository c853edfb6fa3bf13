"""Libraries that only some readers need, imported when they are."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from knltrain.errors import DataError


def optional(module: str, extra: str, what: str) -> Any:
    """The module, for files of `what`; DataError with the command that installs the extra."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise DataError(
            f"{what} files are read by {package}, which cannot be imported ({error}): install it "
            f"by pip install 'knltrain[{extra}]'"
        ) from error
