"""Whether the packages of the extra `onnx` are there."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from knltrain.errors import NetworkError

_PACKAGES: Final = ("onnx", "onnxscript")


def check_onnx() -> None:
    """Raise NetworkError where a package is missing."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise NetworkError(
            f"ONNX takes the package {' and '.join(missing)}, which is not installed: expected the "
            "extra, pip install 'knltrain[onnx]'"
        )
