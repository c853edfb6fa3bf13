"""Weights of a file for a network: safetensors, PyTorch's state dictionaries, .caffemodel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from knltrain.errors import NetworkError
from knltrain.interchange.torch_terms.terms import TORCH_NAMES
from knltrain.network.layers import ParameterSpec
from knltrain.network.parameters import ParameterVector

Tensors = Mapping[str, npt.NDArray[Any]]

_PREFIXES: Final = ("module.", "_orig_mod.")
"""What wrappers put before the names of a state: DistributedDataParallel and `torch.compile`."""
_WHOLES: Final = ("state_dict", "model")
"""Under which checkpoints have the state."""
_COUNTER: Final = ".num_batches_tracked"
_TOLD: Final = 5


def load_weights(
    parameters: ParameterVector, file: Path, new_layers: Sequence[str] = ()
) -> tuple[str, ...]:
    """Copy the tensors of a file by name; return what it has beside them, as notes.

    The names are those of knltrain ("conv1.weights") or of PyTorch ("conv1.weight", with dots for
    "/"), or of Caffe's layers. Layers that match a pattern of `new_layers` keep their values.

    Raises NetworkError for a file that cannot be read, and names the tensors that are missing or
    have another shape.
    """
    tensors = _without_prefixes(_read(file))
    taken, missing = set(), []
    for spec in parameters.network.parameters:
        if any(fnmatchcase(spec.layer, pattern) for pattern in new_layers):
            taken |= set(_names(spec))
            continue
        name = next((name for name in _names(spec) if name in tensors), None)
        if name is None:
            missing.append(spec.name)
            continue
        taken.add(name)
        parameters.views[spec.name][...] = _fitting(tensors[name], spec, f"{file}: {name}")
    if missing:
        raise NetworkError(
            f"{file} lacks {_listed(missing)}: expected all parameters of network "
            f"'{parameters.network.name}'; it has {_listed(sorted(tensors))}. Layers that are to "
            f"start afresh are named by network.new_layers = ['{missing[0].rpartition('.')[0]}']"
        )
    unused = sorted(name for name in tensors.keys() - taken if not name.endswith(_COUNTER))
    return (f"{file}: {_listed(unused)} not used by the network",) if unused else ()


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

    found = {}
    try:
        with safe_open(file, framework="numpy") as content:
            for name in content.keys():  # noqa: SIM118 (it is no dictionary)
                kind = content.get_slice(name).get_dtype()
                if kind == "BF16":
                    raise NetworkError(
                        f"{file}: {name} is bfloat16: expected float32; save its float()"
                    )
                found[name] = content.get_tensor(name)
    except (SafetensorError, OSError) as error:
        raise NetworkError(
            f"{file} cannot be read ({error}): expected a file of safetensors"
        ) from error
    return found


def _state(file: Path) -> Tensors:
    import pickle
    import warnings

    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content: Any = torch.load(file, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError) as error:
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
        str(name): value.detach().float().numpy()
        for name, value in content.items()
        if isinstance(value, torch.Tensor)
    }


def _caffemodel(file: Path) -> Tensors:
    from knltrain.interchange.caffe.caffemodel import read_caffemodel

    return {
        f"{layer.name}.{role}": blob
        for layer in read_caffemodel(file)
        for role, blob in zip(("weights", "bias"), layer.blobs, strict=False)
    }


def _without_prefixes(tensors: Tensors) -> Tensors:
    for prefix in _PREFIXES * len(_PREFIXES):
        if tensors and all(name.startswith(prefix) for name in tensors):
            tensors = {name.removeprefix(prefix): value for name, value in tensors.items()}
    return tensors


def _names(spec: ParameterSpec) -> tuple[str, ...]:
    """The names under which a file may have a parameter."""
    torch_name = f"{spec.layer}.{TORCH_NAMES[spec.role]}"
    return spec.name, torch_name, torch_name.replace("/", ".")


def _fitting(value: npt.NDArray[Any], spec: ParameterSpec, where: str) -> npt.NDArray[Any]:
    shape = value.shape
    while len(shape) > len(spec.shape) and shape[0] == 1:  # Caffe's before 2014
        shape = shape[1:]
    if shape != spec.shape or value.dtype.kind != "f":
        raise NetworkError(
            f"{where} is {value.dtype} {value.shape}: expected float32 {spec.shape}; a layer of "
            f"another size starts afresh by network.new_layers = ['{spec.layer}']"
        )
    return np.asarray(value).reshape(shape)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _TOLD} more" if len(names) > _TOLD else ""
    return ", ".join(names[:_TOLD]) + more
