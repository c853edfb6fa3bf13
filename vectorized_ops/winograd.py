"""The matrices of Winograd's minimal filtering F(m, r), by the Toom-Cook construction.

A correlation of n = m + r - 1 inputs d with r weights g gives m outputs with n multiplications:
y = A^T [(G g) * (B^T d)]. In two dimensions the transforms are applied to rows and columns (Lavin
and Gray, "Fast Algorithms for Convolutional Neural Networks", arXiv 1509.09308). All matrices are
exact.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

Matrix = tuple[tuple[Fraction, ...], ...]

POINTS = tuple(map(Fraction, ("0", "1", "-1", "2", "-2", "1/2", "-1/2", "4", "-4", "1/4", "-1/4")))
"""Interpolation points in order of use; the last point of every set is infinity."""


@dataclass(frozen=True, slots=True)
class WinogradTransform:
    """The three maps of F(outputs, taps): shapes A^T (m, n), G (n, r), B^T (n, n).

    `numbers` tells which points they are of those of the F(m, r) whose weights they take.
    """

    outputs: int
    taps: int
    output_map: Matrix
    weights_map: Matrix
    input_map: Matrix
    numbers: tuple[int, ...]

    @property
    def points(self) -> int:
        """Multiplications per row of outputs: n = outputs + taps - 1."""
        return self.outputs + self.taps - 1


@functools.cache
def winograd_transform(outputs: int, taps: int, kept: int | None = None) -> WinogradTransform:
    """Return F(outputs, taps); errors grow with their sum, 9 is the sensible end in float32.

    With `kept` it is F(kept, taps), kept <= outputs, from some of the points of F(outputs, taps)
    and with its weights there: what other maps would scale in the weights is scaled in the inputs.
    """
    known = _finite_points(outputs, taps)
    if kept is None or kept == outputs:
        return _transform(outputs, taps, known, known, infinite=True)
    points = kept + taps - 1
    odd = points - 1 + points % 2  # so that with p there is -p, which saves additions
    return _transform(kept, taps, known, known[:odd], infinite=points > odd)


def _finite_points(outputs: int, taps: int) -> tuple[Fraction, ...]:
    finite = POINTS[: outputs + taps - 2]
    if len(finite) < outputs + taps - 2:
        raise ValueError(
            f"F({outputs}, {taps}) needs {outputs + taps - 1} points, {len(POINTS) + 1} are known"
        )
    return finite


def _transform(
    outputs: int,
    taps: int,
    known: Sequence[Fraction],
    finite: Sequence[Fraction],
    infinite: bool,
) -> WinogradTransform:
    """Return the maps at the first `finite` of the `known` points, and at infinity or not."""
    output_map = [[point**power for point in finite] for power in range(outputs)]
    input_map = []
    weights_map = []
    for point in finite:
        left_out = prod(point - other for other in known[len(finite) :])
        rest = [other for other in finite if other != point]
        divisor = left_out * prod(point - other for other in rest)
        weights_map.append([point**power / divisor for power in range(taps)])
        input_map.append([left_out * coefficient for coefficient in _polynomial(rest)])
    numbers = [*range(len(finite))]
    if infinite:
        for power, row in enumerate(output_map):
            row.append(Fraction(int(power == outputs - 1)))
        weights_map.append([Fraction(int(power == taps - 1)) for power in range(taps)])
        input_map = [[*row, Fraction(0)] for row in input_map]
        input_map.append(_polynomial(finite))
        numbers.append(len(known))
    return WinogradTransform(
        outputs, taps, _frozen(output_map), _frozen(weights_map), _frozen(input_map), tuple(numbers)
    )


def transposed(matrix: Matrix) -> Matrix:
    """Return the transpose: the adjoint maps serve the backward passes."""
    return tuple(zip(*matrix, strict=True))


def _polynomial(roots: Sequence[Fraction]) -> list[Fraction]:
    """Return the coefficients of prod (x - root), lowest power first."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *coefficients]
        scaled = [*(-root * c for c in coefficients), Fraction(0)]
        coefficients = [a + b for a, b in zip(shifted, scaled, strict=True)]
    return coefficients


def _frozen(rows: Sequence[Sequence[Fraction]]) -> Matrix:
    return tuple(tuple(row) for row in rows)
