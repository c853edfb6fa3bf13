"""Training convolutional networks on many-core CPUs by elastic averaging between pinned workers."""

import atexit
import gc
import importlib
import sys
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "ConfigError": "knltrain.errors.ConfigError",
    "KnltrainError": "knltrain.errors.KnltrainError",
    "Model": "knltrain.launch.model.Model",
    "Network": "knltrain.network.network.Network",
    "Output": "knltrain.network.graph.Output",
    "ParameterVector": "knltrain.network.parameters.ParameterVector",
    "Prediction": "knltrain.launch.model.Prediction",
    "RunConfig": "knltrain.config.RunConfig",
    "evaluate": "knltrain.launch.evaluate_run.evaluate_run",
    "from_onnx": "knltrain.interchange.onnx.importing.from_onnx",
    "from_torch": "knltrain.interchange.from_torch.from_torch",
    "layers": "knltrain.network.layers",
    "load_config": "knltrain.config.load_config",
    "load_model": "knltrain.launch.model.load_model",
    "load_weights": "knltrain.interchange.weights.load_weights",
    "methods": "knltrain.config.methods.METHODS",
    "network_from_json": "knltrain.network.description.network_from_json",
    "network_to_json": "knltrain.network.description.network_to_json",
    "networks": "knltrain.network.zoo.networks.NETWORKS",
    "read_result": "knltrain.report.read_result",
    "resume": "knltrain.launch.training.resume",
    "to_torch": "knltrain.interchange.to_torch.to_torch",
    "train": "knltrain.launch.training.train",
}
"""Where what programs need is defined; it is imported when it is first asked for."""

__all__ = ["__version__", *_HOMES]  # `__init__.pyi` says the same to type checkers.


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'knltrain' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].rpartition(".")
    home = importlib.import_module(module)
    is_module = not hasattr(home, attribute)
    value = importlib.import_module(_HOMES[name]) if is_module else getattr(home, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _collect_garbage_rarely() -> None:
    """Have a process start and end sooner, by a tenth.

    Loading torch or Numba makes some 400,000 objects, which all stay; Python's collector would look
    through the new ones at every 700th. At the end nothing is to be looked for in what is to go.
    """
    gc.set_threshold(100_000)
    atexit.register(gc.freeze)


_program = (getattr(sys, "argv", None) or [""])[0]
# In programs of ours alone: Python calls `-m knltrain...` just "-m" until this import is done.
if _program == "-m" or _program.endswith("/bin/knltrain"):
    _collect_garbage_rarely()
