"""Intel's archived bindings of oneCCL for PyTorch, for users who still have them."""

from __future__ import annotations

import importlib

from knltrain.errors import ConfigError

MODULE = "oneccl_bindings_for_pytorch"


def load_archived_bindings() -> None:
    """Import them, so that "ccl" is their backend instead of ours.

    To be called before `knltrain.torch_distributed` is imported. Raises ConfigError if they are
    not installed, or do not fit this PyTorch.
    """
    try:
        importlib.import_module(MODULE)
    except (ImportError, OSError, RuntimeError) as error:
        raise ConfigError(
            f"exchange.between_nodes = 'oneccl_bindings': {MODULE} cannot be loaded: {error}; it "
            "is archived, its last release is for PyTorch 2.8: expected 'ccl', which needs oneCCL "
            "alone, 'gloo' or 'mpi'"
        ) from error
