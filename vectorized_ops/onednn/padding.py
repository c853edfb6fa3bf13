"""Padding of maps: NumPy's copies, as no library has more."""

from __future__ import annotations

from vectorized_ops.reference.padding import Padding

__all__ = ["Padding"]
