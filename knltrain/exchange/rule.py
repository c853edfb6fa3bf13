"""The seam between the arithmetic of an exchange and the place where the center lives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float32]


class ExchangeRule(ABC):
    """The arithmetic between the locals of all workers and their common center.

    A rule says the same thing twice. ``synchronise`` is one whole exchange, for a transport that
    sees all the vectors at once. The three verbs are the same exchange cut at the places where a
    vector may travel: every worker contributes against the same center, the contributions are
    added up in rank order, one ``absorb`` takes the sum, every worker follows.

    Every array is float32. A rule works element by element, so a transport may call it on stripes
    of the vectors, one after another or at the same time, and the result does not depend on where
    the stripes were cut.
    """

    @abstractmethod
    def contribute(self, local: FloatArray, center: FloatArray, out: FloatArray) -> None:
        """Write what one worker wants to change about the center to ``out``; may move ``local``.

        ``local``, ``center`` and ``out`` have shape (n,) and must not overlap.
        """

    @abstractmethod
    def absorb(self, center: FloatArray, contribution: FloatArray) -> None:
        """Move ``center`` (n,) by ``contribution`` (n,), which may be a sum of several."""

    @abstractmethod
    def follow(self, local: FloatArray, center: FloatArray) -> None:
        """Let ``local`` (n,) react to the ``center`` (n,) that has absorbed all contributions."""

    @abstractmethod
    def synchronise(self, locals_: FloatArray, center: FloatArray) -> None:
        """Do one whole exchange of all workers, row r of ``locals_`` (P, n) being rank r's local.

        Rows are contiguous, ``center`` has shape (n,), nothing overlaps. Sums run in rank order.
        """
