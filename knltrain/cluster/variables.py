"""Variables that other libraries read from the environment of this process."""

from __future__ import annotations

import os
from collections.abc import Mapping

PROCESSOR_SETTINGS = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "ONEDNN_MAX_CPU_ISA")
"""Variables that have Numba or oneDNN compute for another processor than this one."""


def processor_settings(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return those of PROCESSOR_SETTINGS that are set, in os.environ by default."""
    values = os.environ if environment is None else environment
    return {name: values[name] for name in PROCESSOR_SETTINGS if name in values}


def set_unless_set(values: Mapping[str, str]) -> None:
    """Set variables for libraries that this process is about to load; what the user set stays."""
    for name, value in values.items():
        os.environ.setdefault(name, value)


def value_of(name: str) -> str | None:
    """Return what the user has set a variable to; None where it is not set."""
    return os.environ.get(name)
