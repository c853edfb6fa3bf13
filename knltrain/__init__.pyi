from knltrain.config import RunConfig, load_config
from knltrain.config.methods import METHODS as methods
from knltrain.errors import ConfigError, KnltrainError
from knltrain.interchange.from_torch import from_torch
from knltrain.interchange.onnx.importing import from_onnx
from knltrain.interchange.to_torch import to_torch
from knltrain.interchange.weights import load_weights
from knltrain.launch.evaluate_run import evaluate_run as evaluate
from knltrain.launch.model import Model, Prediction, load_model
from knltrain.launch.training import resume, train
from knltrain.network import layers
from knltrain.network.description import network_from_json, network_to_json
from knltrain.network.graph import Output
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.networks import NETWORKS as networks
from knltrain.report import read_result

__all__ = [
    "ConfigError",
    "KnltrainError",
    "Model",
    "Network",
    "Output",
    "ParameterVector",
    "Prediction",
    "RunConfig",
    "__version__",
    "evaluate",
    "from_onnx",
    "from_torch",
    "layers",
    "load_config",
    "load_model",
    "load_weights",
    "methods",
    "network_from_json",
    "network_to_json",
    "networks",
    "read_result",
    "resume",
    "to_torch",
    "train",
]

__version__: str
