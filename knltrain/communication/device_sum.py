"""Sums of tensors over the workers of one node, by the library of their devices."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, final

import torch
import torch.distributed as dist

from knltrain.communication.internode.torch_failure import first_line, kind_of
from knltrain.communication.shared_memory.polling import nap_until
from knltrain.errors import ConfigError, ExchangeTimeout, KnltrainError

LIBRARIES: Final = {"cuda": "nccl", "xpu": "xccl", "cpu": "gloo"}
"""What adds up tensors on each kind of device. PyTorch calls AMD's RCCL "nccl", too."""

_OF_DEVICES: Final = {"nccl": "ProcessGroupNCCL", "xccl": "ProcessGroupXCCL"}
_HERE: Final = "127.0.0.1"
_ERRORS: Final = (RuntimeError, ValueError)
_OF_DEVICES_ALONE: Final = ("OutOfMemoryError", "AcceleratorError")
_OF_OTHERS: Final = (
    KnltrainError,
    *(getattr(torch, name) for name in _OF_DEVICES_ALONE if hasattr(torch, name)),
)
"""What is told elsewhere; those of PyTorch are RuntimeErrors, too."""


def check_library(kind: str) -> None:
    """Raise ConfigError unless this PyTorch has a library for a kind of device."""
    name = LIBRARIES.get(kind)
    if name is None or not dist.is_backend_available(name):
        raise ConfigError(
            f"exchange.within_nodes = 'device' with devices '{kind}': PyTorch {torch.__version__} "
            f"has no {name or 'library'} for them; expected 'segment'"
        )


@final
class TensorSum:
    """Worker ``rank`` of ``workers`` of a node, whose devices are of this ``kind``.

    They find each other at a port of this computer that rank 0 opens; ``tell`` brings its number
    from rank 0 to all (collective), as the sum of what all give. A sum may take
    ``timeout_seconds``. Raises what `kind_of` finds where others do not come.
    """

    def __init__(
        self,
        kind: str,
        rank: int,
        workers: int,
        tell: Callable[[int], int],
        timeout_seconds: float,
    ) -> None:
        check_library(kind)
        self._name, self._timeout_seconds = LIBRARIES[kind], timeout_seconds
        self._is_adding = False
        limit = timedelta(seconds=timeout_seconds)
        try:
            self._group = self._joined(_store(rank, tell, limit), rank, workers, limit)
        except _ERRORS as error:
            raise self._failure(error) from error

    def _joined(self, store: Any, rank: int, workers: int, limit: timedelta) -> Any:
        if self._name == "gloo":
            gloo: Any = dist.ProcessGroupGloo  # type: ignore[attr-defined, unused-ignore]
            return gloo(store, rank, workers, limit)
        group = getattr(dist, _OF_DEVICES[self._name])
        if not hasattr(group, "Options"):  # Intel's, of PyTorch before 2.10
            return group(store, rank, workers)
        options = group.Options()
        options._timeout = limit
        return group(store, rank, workers, options)

    def all_reduce(self, tensor: torch.Tensor, check: Callable[[], None]) -> None:
        """Replace a tensor by its sum; waits until that is done.

        ``check`` is called meanwhile, and may raise: the library tells nothing of a worker that
        fails elsewhere.
        """
        try:
            self._is_adding = True
            work = self._group.allreduce([tensor])
            if not nap_until(work.is_completed, check, _nothing, self._timeout_seconds):
                raise ExchangeTimeout(
                    f"the sum over the devices of a node by '{self._name}' took more than "
                    f"{self._timeout_seconds:g} s; if a worker can be so late, raise "
                    "exchange.timeout_seconds"
                )
            work.wait()
            self._is_adding = False
        except _OF_OTHERS:
            raise
        except _ERRORS as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """Leave the group; without waiting for others where a sum has failed."""
        group, self._group = self._group, None
        if group is None or self._name == "gloo":
            return
        if self._is_adding:
            group.abort()
        else:
            group.shutdown()

    def _failure(self, error: Exception) -> Exception:
        return kind_of(error)(
            f"the sum over the devices of a node by '{self._name}' failed: {first_line(error)}"
        )


def _nothing() -> None:
    """Do nothing."""


def _store(rank: int, tell: Callable[[int], int], limit: timedelta) -> Any:
    """A store that rank 0 serves as long as its group lives."""
    make: Any = dist.TCPStore  # type: ignore[attr-defined, unused-ignore]
    if rank == 0:
        served = make(_HERE, 0, None, True, limit, wait_for_workers=False)
        tell(served.port)
        return served
    return make(_HERE, tell(0), None, False, limit, wait_for_workers=False)
