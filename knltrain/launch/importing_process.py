"""The process that imports a PyTorch module: `python -m knltrain.launch.importing_process`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from knltrain.errors import ConfigError, DataError, KnltrainError, NetworkError
from knltrain.files.durable import write_whole
from knltrain.network.description import network_to_json

DESCRIPTION: Final = "network.json"
WEIGHTS: Final = "start.safetensors"
OUTCOME: Final = "outcome.json"
"""What the process leaves in the request's folder: the network, its parameters, how it went."""
TOLD: Final = {kind.__name__: kind for kind in (ConfigError, DataError, NetworkError)}
"""Kinds of errors that an outcome names; all others are a NetworkError."""


def main() -> None:
    """Import the module that standard input names; write the outcome, which may be an error."""
    request = json.load(sys.stdin)
    try:
        outcome: dict[str, Any] = {"notes": import_into(request)}
    except KnltrainError as error:
        kinds = (name for name, kind in TOLD.items() if isinstance(error, kind))
        outcome = {"error": next(kinds, NetworkError.__name__), "message": str(error)}
    write_whole(Path(request["folder"], OUTCOME), json.dumps(outcome))


def import_into(request: Mapping[str, Any]) -> tuple[str, ...]:
    """Write the network and the parameters to start from; return notes.

    Those of a file, `weights`, take the place of the module's, but for `new_layers`. Raises
    ConfigError where there is no PyTorch, and the errors of `import_own` and `load_weights`.
    """
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"network.module = '{request['module']}' is imported by PyTorch, which cannot be "
            f"loaded ({error}): expected it to be installed, as by pip install torch"
        ) from error
    from safetensors.numpy import save_file

    from knltrain.interchange.own_module import import_own
    from knltrain.interchange.weights import load_weights

    height, width, channels = request["image_shape"]
    shape, weighting = (height, width, channels), request["auxiliary_weights"]
    imported = import_own(request["module"], shape, request["seed"], weighting)
    folder, weights = Path(request["folder"]), request["weights"]
    notes: tuple[str, ...] = ()
    if weights is not None:
        notes = load_weights(imported.parameters, weights, request["new_layers"])
    (folder / DESCRIPTION).write_text(network_to_json(imported.network), encoding="utf-8")
    save_file(dict(imported.parameters.views), folder / WEIGHTS)
    return notes


if __name__ == "__main__":
    main()
