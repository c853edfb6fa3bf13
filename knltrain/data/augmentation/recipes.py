"""The recipes that `data.recipe` names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from knltrain.data.augmentation.framing import Corner, Fitted, Framing, RandomArea, ShortSide
from knltrain.errors import ConfigError, unknown_name

COLOUR_NOISE: Final = 0.1
JITTER: Final = 0.4
OPERATIONS: Final = 2
MAGNITUDE: Final = 9
"""Of ImageNet's best in the paper on RandAugment, and torchvision's own."""
VGG_LARGEST: Final = 2.0
CIFAR_SHARE: Final = 8
"""Images of 32 pixels are moved by up to 4."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Which part of a picture becomes the image, and what is changed of it for training.

    `flips` tells whether half of the images are mirrored; `jitter` and `noise` are the strengths of
    `colours.jittered` and `colours.colour_noise`, 0 for none; so many `operations` of a `magnitude`
    are those of `operations.random_operations`. `mirrors` tells that images are mirrored always,
    also in evaluation.
    """

    framing: Framing
    flips: bool = False
    jitter: float = 0.0
    noise: float = 0.0
    mirrors: bool = False
    operations: int = 0
    magnitude: int = MAGNITUDE


def _none(image: tuple[int, int], shift: int) -> Recipe:
    return Recipe(Fitted(image, shift))


def _cifar(image: tuple[int, int], shift: int) -> Recipe:
    return Recipe(Fitted(image, shift or -(-min(image) // CIFAR_SHARE)), flips=True)


def _caffe(image: tuple[int, int], _shift: int) -> Recipe:
    return Recipe(ShortSide(image), flips=True)


def _vgg(image: tuple[int, int], _shift: int) -> Recipe:
    return Recipe(ShortSide(image, VGG_LARGEST), flips=True, noise=COLOUR_NOISE)


def _inception(image: tuple[int, int], _shift: int) -> Recipe:
    return Recipe(RandomArea(image), flips=True, jitter=JITTER)


def _randaugment(image: tuple[int, int], _shift: int) -> Recipe:
    return Recipe(RandomArea(image), flips=True, operations=OPERATIONS)


RECIPES: Final[dict[str, Callable[[tuple[int, int], int], Recipe]]] = {
    "none": _none,
    "cifar": _cifar,
    "caffe": _caffe,
    "vgg": _vgg,
    "inception": _inception,
    "randaugment": _randaugment,
}


def recipe_named(name: str, image: tuple[int, int], shift: int = 0) -> Recipe:
    """The recipe for images (H,W), moved by up to `shift` pixels; 0: as the recipe has it.

    Raises ConfigError for unknown names.
    """
    if name not in RECIPES:
        raise ConfigError(unknown_name("data.recipe", name, RECIPES))
    return RECIPES[name](image, shift)


def ten_crops(recipe: Recipe) -> tuple[Recipe, ...]:
    """Recipes for evaluation that show a frame's corners and middle, and their mirror images.

    As Krizhevsky et al. (2012) tested AlexNet. Raises ConfigError where the frame is no larger than
    the image.
    """
    framing = recipe.framing
    if isinstance(framing, Fitted):
        raise ConfigError(
            "evaluation.crops = 10: with this data.recipe images are all of a picture; expected "
            "one that cuts them out of a larger one: 'caffe', 'vgg', 'inception' or 'randaugment'"
        )
    corners = [Corner(framing, *place) for place in ((0, 0), (0, 1), (1, 0), (1, 1), (0.5, 0.5))]
    return tuple(Recipe(corner, mirrors=mirrors) for mirrors in (False, True) for corner in corners)
