"""A PyTorch model's tensors as one packed float32 vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from knltrain.errors import ElasticError, NetworkError
from knltrain.vectors import FloatArray

Moved: TypeAlias = "list[tuple[PackedTensor, Tensor]]"
"""Tensors, and by how much the values of each in a vector have moved, float32."""

Place: TypeAlias = Callable[[FloatArray], Tensor]
"""The tensor (n,) that a vector's values are computed with."""

_LINE_FLOATS = 16
"""Every tensor begins on a cache line."""


@dataclass(frozen=True, slots=True)
class PackedTensor:
    """Where a tensor of the model lies in the vector: its values from `offset` on."""

    name: str
    offset: int
    tensor: Tensor
    strides: tuple[int, ...]
    """Those of its values in the vector."""

    @property
    def is_statistic(self) -> bool:
        """Whether it is a buffer, as running statistics are."""
        return not isinstance(self.tensor, nn.Parameter)

    @property
    def part(self) -> slice:
        """Its values in the vector."""
        return slice(self.offset, self.offset + self.tensor.numel())

    def values_in(self, vector: FloatArray) -> Tensor:
        """Its values in `vector` as a tensor of its shape."""
        return self.values_of(torch.from_numpy(vector))

    def values_of(self, packed: Tensor) -> Tensor:
        """Those in a vector that is a tensor."""
        return packed.as_strided(self.tensor.shape, self.strides, self.offset)


@final
class PackedModel:
    """All floating-point parameters and buffers of `model`, module by module, in one vector.

    The model may have any such dtype and lie on any device. Weights of float32 where `place` has
    vectors, on the CPU or on a device, can lie in a vector themselves, so that nothing is copied;
    such a vector has its newest values there whenever this is called. Buffers, which are running
    statistics, change during a forward pass, so they stay where they are. A tensor that several
    modules share is packed once. Raises NetworkError for a model without parameters, or with
    sparse, complex or lazy ones.
    """

    def __init__(
        self,
        model: nn.Module,
        place: Place = torch.from_numpy,
        device: torch.device = torch.device("cpu"),  # noqa: B008 (it does not change)
    ) -> None:
        self.name = type(model).__name__
        self._place = place
        self.parameters, self.packed_size = _packed(model)
        """All tensors, in the order of the vector, and its length (n)."""
        self._weights = [each for each in self.parameters if not each.is_statistic]
        self._statistics = [each for each in self.parameters if each.is_statistic]
        self.is_in_place = all(
            each.tensor.dtype == torch.float32 and each.tensor.device == device
            for each in self._weights
        )
        """Whether a vector can be the memory of the weights."""

    def read_all(self, vector: FloatArray) -> None:
        """Write all values into `vector` (n,) on the host, which is zero."""
        for each in self.parameters:
            each.values_in(vector).copy_(each.tensor.detach())

    def read_weights(self, vector: FloatArray) -> None:
        """Move the vector's weights to the model's; those in place are there already.

        Of another dtype they move as far as the model has moved since both were equal: so they keep
        what a narrower one, as bfloat16, has rounded away.
        """
        if self.is_in_place:
            return
        for each in self._weights:
            values, given = self._values(each, vector), each.tensor.detach()
            if given.dtype == torch.float32:
                values.copy_(given)
                continue
            wide = torch.promote_types(given.dtype, torch.float32)
            moved = given.cpu().to(wide) - values.to(given.dtype).to(wide)
            values += moved.to(torch.float32)

    def keep_in_place(self, vector: FloatArray) -> None:
        """Take weights in place back into `vector`, if the model has them elsewhere now.

        Modules may move theirs, as recurrent ones do on a GPU. ElasticError where they are of
        another dtype or on another device.
        """
        if not self.is_in_place:
            return
        with torch.no_grad():
            for each in self._weights:
                tensor, values = each.tensor, self._values(each, vector)
                if tensor.data_ptr() == values.data_ptr():
                    continue
                if tensor.dtype != values.dtype or tensor.device != values.device:
                    raise ElasticError(
                        f"{each.name} is {tensor.dtype} on {tensor.device} now, but was "
                        f"{values.dtype} on {values.device}: expected a model that is brought to "
                        "its device and dtype before Elastic is made"
                    )
                tensor.data = values.copy_(tensor)

    def follow_weights(self, vector: FloatArray) -> None:
        """Give the model the weights of `vector`; in place, all later changes of it, too.

        Those in float64 move as far as the vector has moved, so they keep their own precision.
        """
        with torch.no_grad():
            for each in self._weights:
                tensor, values = each.tensor, self._values(each, vector)
                if self.is_in_place:
                    tensor.data = values
                elif tensor.dtype == torch.float64:
                    moved = values.double() - tensor.cpu().float().double()
                    tensor += moved.to(tensor.device)
                else:
                    tensor.copy_(values)

    def copy_all(self, vector: FloatArray) -> None:
        """Write all values of `vector` (n,), on the host, to where the model's are."""
        self.put_back([each.values_in(vector) for each in self.parameters])

    def follow_statistics(self, vector: FloatArray) -> None:
        """Give the model the statistics of `vector`."""
        with torch.no_grad():
            for each in self._statistics:
                each.tensor.copy_(self._values(each, vector))

    def statistics_since(self, vector: FloatArray) -> Moved:
        """How far the statistics have moved from those of `vector`."""
        found = []
        for each in self._statistics:
            values = self._values(each, vector)
            found.append((each, each.tensor.detach().to(values.device).float() - values))
        return found

    def write_statistics(self, moved: Moved, gradient: FloatArray) -> None:
        """Write by how much statistics have moved, as the gradients that move them so."""
        for each, by in moved:
            self._values(each, gradient).copy_(by).neg_()

    def moved_by(self, moved: Moved, gradient: FloatArray) -> Moved:
        """How far the same statistics move by a gradient that was written so."""
        return [(each, -self._values(each, gradient)) for each, _ in moved]

    def move_statistics(self, moved: Moved, vector: FloatArray) -> None:
        """Move those of `vector`."""
        for each, by in moved:
            self._values(each, vector).add_(by)

    def read_gradient(self, gradient: FloatArray) -> None:
        """Write the weights' gradients into `gradient` (n,); 0 where there is none."""
        for each in self._weights:
            values = self._values(each, gradient)
            if each.tensor.grad is None:
                values.zero_()
            else:
                values.copy_(each.tensor.grad)

    def follow_gradient(self, gradient: FloatArray) -> None:
        """Give all weights that are learned the gradients of `gradient` (n,)."""
        for each in self._weights:
            if each.tensor.requires_grad:
                if each.tensor.grad is None:
                    each.tensor.grad = torch.empty_like(each.tensor)
                each.tensor.grad.copy_(self._values(each, gradient))

    def copies(self) -> list[Tensor]:
        """Copies of all tensors, in order."""
        return [each.tensor.detach().clone() for each in self.parameters]

    def put_back(self, copies: Sequence[Tensor]) -> None:
        """Give all tensors back the values of `copies`."""
        with torch.no_grad():
            for each, values in zip(self.parameters, copies, strict=True):
                each.tensor.copy_(values)

    def leave(self) -> None:
        """Give the weights memory of their own, with the same values."""
        if self.is_in_place:
            for each in self._weights:
                each.tensor.data = each.tensor.data.clone()

    def _values(self, packed: PackedTensor, vector: FloatArray) -> Tensor:
        return packed.values_of(self._place(vector))


def _strides_in_vector(tensor: Tensor) -> tuple[int, ...]:
    """The strides of a tensor without gaps: a weight that is channels_last stays so.

    A buffer does not lie in the vector itself, so its values are there in the plain order.
    """
    order = list(range(tensor.dim()))
    if isinstance(tensor, nn.Parameter):
        order.sort(key=lambda at: -tensor.stride()[at])
    strides, step = [0] * tensor.dim(), 1
    for at in reversed(order):
        strides[at] = step
        step *= tensor.shape[at]
    return tuple(strides)


def _packed(model: nn.Module) -> tuple[tuple[PackedTensor, ...], int]:
    found: list[PackedTensor] = []
    seen: set[int] = set()
    offset = 0
    for module_name, module in model.named_modules():
        own: list[tuple[str, Any]] = [*module._parameters.items(), *module._buffers.items()]
        for own_name, tensor in own:
            if tensor is None or id(tensor) in seen:
                continue
            seen.add(id(tensor))
            name = f"{module_name}.{own_name}".lstrip(".")
            _check(name, tensor)
            if tensor.is_floating_point() and tensor.numel():
                found.append(PackedTensor(name, offset, tensor, _strides_in_vector(tensor)))
                offset += -(-tensor.numel() // _LINE_FLOATS) * _LINE_FLOATS
    if all(each.is_statistic for each in found):
        raise NetworkError(
            f"{type(model).__name__} has no floating-point parameters: expected a model to train"
        )
    return tuple(found), offset


def _check(name: str, tensor: Tensor) -> None:
    if is_lazy(tensor):
        raise NetworkError(f"{name} has no shape yet: expected a batch to pass the model before")
    if tensor.is_complex() or tensor.layout != torch.strided:
        raise NetworkError(
            f"{name} is a tensor of {tensor.dtype}, {tensor.layout}: expected dense real numbers"
        )
