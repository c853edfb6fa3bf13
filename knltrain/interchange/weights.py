"""Weights of a file for a network: safetensors, PyTorch's state dictionaries, .caffemodel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from knltrain.errors import NetworkError, unknown_name
from knltrain.interchange.torch_terms.terms import TORCH_NAMES
from knltrain.network.layers import ParameterSpec
from knltrain.network.parameters import ParameterVector

Tensors: TypeAlias = Mapping[str, Callable[[], npt.NDArray[Any]]]
"""Names of a file's tensors -> what reads each."""

_PREFIXES: Final = ("module.", "_orig_mod.")
"""What wrappers put before the names of a state: DistributedDataParallel and `torch.compile`."""
_WHOLES: Final = ("state_dict", "model")
"""Under which checkpoints have the state."""
_COUNTER: Final = ".num_batches_tracked"
_TOLD: Final = 5


def load_weights(
    parameters: ParameterVector, file: str | Path, new_layers: Sequence[str] = ()
) -> tuple[str, ...]:
    """Copy the tensors of a file by name; return what it has beside them, as notes.

    The names are those of knltrain ("conv1.weights") or of PyTorch ("conv1.weight", with dots for
    "/"), or of Caffe's layers. Layers that match a pattern of `new_layers` keep their values.

    Raises NetworkError for a file that cannot be read, and names the tensors that are missing or
    have another shape.
    """
    network = parameters.network
    _check_new(parameters, new_layers)
    known = {name for spec in network.parameters for name in _names(spec)}
    file = Path(file)
    tensors = _without_prefixes(_read(file), known)
    taken, missing = set(), []
    found: dict[str, npt.NDArray[Any]] = {}
    for spec in network.parameters:
        if _is_new(spec.layer, new_layers):
            taken |= set(_names(spec))
            continue
        name = next((name for name in _names(spec) if name in tensors), None)
        if name is None:
            missing.append(spec.name)
            continue
        taken.add(name)
        found[spec.name] = _fitting(tensors[name](), spec, f"{file}: {name}")
    if missing:
        raise NetworkError(
            f"{file} lacks {_listed(missing)}: expected all parameters of network "
            f"'{network.name}'; it has {_listed(sorted(tensors))}. Layers that are to start afresh "
            f"are named by network.new_layers = ['{missing[0].rpartition('.')[0]}']"
        )
    for key, values in found.items():
        parameters.views[key][...] = values
    unused = sorted(name for name in tensors.keys() - taken if not name.endswith(_COUNTER))
    return (f"{file}: {_listed(unused)} not used by the network",) if unused else ()


def _check_new(parameters: ParameterVector, new_layers: Sequence[str]) -> None:
    layers = dict.fromkeys(spec.layer for spec in parameters.network.parameters)
    for pattern in new_layers:
        if not any(_is_new(layer, [pattern]) for layer in layers):
            raise NetworkError(unknown_name("layer in network.new_layers", pattern, layers))


def _is_new(layer: str, new_layers: Sequence[str]) -> bool:
    return any(fnmatchcase(layer, pattern) for pattern in new_layers)


def _read(file: Path) -> Tensors:
    readers = {
        ".caffemodel": _caffemodel,
        ".pt": _state,
        ".pth": _state,
        ".safetensors": _safetensors,
    }
    if file.suffix not in readers:
        raise NetworkError(
            f"network.weights = '{file}': expected a file that ends in one of {', '.join(readers)}"
        )
    if not file.is_file():
        raise NetworkError(f"network.weights = '{file}': there is no such file")
    return readers[file.suffix](file)


def _safetensors(file: Path) -> Tensors:
    from safetensors import SafetensorError, safe_open

    def read(name: str) -> npt.NDArray[Any]:
        with safe_open(file, framework="numpy") as content:
            kind = content.get_slice(name).get_dtype()
            if kind not in ("F16", "F32", "F64"):
                raise NetworkError(f"{file}: {name} is {kind}: expected F32; save its float()")
            values: npt.NDArray[Any] = content.get_tensor(name)
            return values

    try:
        with safe_open(file, framework="numpy") as content:
            return {name: partial(read, name) for name in content.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise NetworkError(
            f"{file} cannot be read ({error}): expected a file of safetensors"
        ) from error


def _state(file: Path) -> Tensors:
    import warnings

    import torch

    def read(name: str, value: torch.Tensor) -> npt.NDArray[Any]:
        is_plain = value.layout == torch.strided and not value.is_meta
        if not value.is_floating_point() or not is_plain:
            raise NetworkError(
                f"{file}: {name} is {value.dtype}, {value.layout}, on {value.device}: expected "
                "torch.float32 with values"
            )
        return value.detach().float().numpy()

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content: Any = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file may fail anywhere within
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise NetworkError(
            f"{file} cannot be read ({said}): expected tensors only, as torch.save writes a "
            "state_dict(), or a file of safetensors; other pickles could run any program"
        ) from error
    for key in _WHOLES:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if not isinstance(content, Mapping):
        raise NetworkError(f"{file} holds {type(content).__name__}: expected a state dictionary")
    return {
        str(name): partial(read, str(name), value)
        for name, value in content.items()
        if isinstance(value, torch.Tensor)
    }


def _caffemodel(file: Path) -> Tensors:
    from knltrain.interchange.caffe.caffe_tensors import tensors_of
    from knltrain.interchange.caffe.caffemodel import read_caffemodel

    arrays = tensors_of(read_caffemodel(file), str(file))
    return {name: partial(np.asarray, array) for name, array in arrays.items()}


def _without_prefixes(tensors: Tensors, known: Set[str]) -> Tensors:
    """Take off what wrappers have put before all names, unless it is the network's own."""
    for prefix in _PREFIXES * len(_PREFIXES):
        if not known.isdisjoint(tensors):
            break
        if tensors and all(name.startswith(prefix) for name in tensors):
            tensors = {name.removeprefix(prefix): value for name, value in tensors.items()}
    return tensors


def _names(spec: ParameterSpec) -> tuple[str, ...]:
    """The names under which a file may have a parameter."""
    torch_name = f"{spec.layer}.{TORCH_NAMES[spec.role]}"
    names = spec.name, torch_name, torch_name.replace("/", ".")
    # A scale may be a parameter of its own, beside the modules: "features.1.0.layer_scale".
    return (*names, spec.layer.replace("/", ".")) if spec.role == "scale" else names


def _fitting(value: npt.NDArray[Any], spec: ParameterSpec, where: str) -> npt.NDArray[Any]:
    shape = value.shape
    of_means = spec.role == "weights" and shape == (*spec.shape, 1, 1)  # by a 1x1 convolution
    if of_means or spec.shape == (*shape, 1, 1):  # or a dense layer of maps with channels last
        shape = spec.shape
    if spec.role == "scale" and shape[1:] == (1, 1):  # factors of maps with channels first
        shape = shape[:1]
    while len(shape) > len(spec.shape) and shape[0] == 1:  # Caffe's before 2014
        shape = shape[1:]
    if shape != spec.shape or value.dtype.kind != "f":
        raise NetworkError(
            f"{where} is {value.dtype} {value.shape}: expected float32 {spec.shape}; a layer of "
            f"another size starts afresh by network.new_layers = ['{spec.layer}']"
        )
    if not np.isfinite(value).all():
        raise NetworkError(f"{where} has values that are not finite: expected numbers")
    return value.reshape(shape)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
    return ", ".join(names[:_TOLD]) + more
