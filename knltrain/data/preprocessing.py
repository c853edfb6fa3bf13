"""The seam of preprocessing: from pictures as they are kept to what a network takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from knltrain.data.source import ImageSource, Rows
from knltrain.vectors import FloatArray


@dataclass(frozen=True, slots=True)
class Draws:
    """Where the random decisions of augmentation come from.

    Each is a function of (seed, epoch, number of the picture, what is decided) alone: neither the
    number of workers, nor reading ahead, nor resuming a run changes a picture.
    """

    seed: int
    epoch: int


class Preprocessing(ABC):
    """Crops, resizes, flips, recolours and normalises pictures in one pass."""

    image_shape: tuple[int, int, int]
    """(H,W,C) of what it makes, whatever the size of the pictures."""

    @abstractmethod
    def write(
        self, source: ImageSource, rows: Rows, draws: Draws | None, out_nhwc: FloatArray
    ) -> None:
        """Write the pictures `rows` (n,) of `source` to `out_nhwc` (n,H,W,C), normalised.

        Without `draws` nothing is random, as evaluation needs it. Raises BrokenPicture.
        """

    def copies(self, source: ImageSource) -> bool:  # noqa: ARG002
        """Whether all pictures of a source are known to keep their size and colours."""
        return False
