"""The table [data] of a configuration: its keys and valid values."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from knltrain.config.tables import Count, Finite, Folder, Name, Positive, Table


def _mixes(parameter: float) -> float:
    if parameter and not 0.05 <= parameter <= 1:
        raise ValueError(f"{parameter}: expected 0.05 to 1, or 0 for none")
    return parameter


Mixed: TypeAlias = Annotated[float, AfterValidator(_mixes)]
"""The parameter a of Beta(a, a); 0 for none."""
KnownNumbers: TypeAlias = Literal["training", "imagenet"]


class DataConfig(Table):
    """[data]: what it is trained and tested on."""

    name: Name = Field(
        description="data set: 'digits', 'mnist', 'mnist-t10k', 'synthetic' or 'synthetic-labels'"
    )
    root: Folder | None = Field(default=None, description="folder with the data set's files")
    train_images: Count | None = Field(
        default=None, description="use only the first N training images"
    )
    test_images: Count | None = Field(default=None, description="use only the first N test images")
    side_pixels: Count | None = Field(
        default=None, description="resize all images to so many pixels of height and width"
    )
    recipe: Literal["none", "cifar", "caffe", "vgg", "inception"] = Field(
        default="none",
        description="part of a picture that is shown, and what is changed of it for training: "
        "'none', 'cifar' (moved and mirrored), 'caffe' (a random crop, mirrored), 'vgg' (of a "
        "random size, too, with noise of colours), 'inception' (of random area and proportions, "
        "with other colours)",
    )
    shift_pixels: Annotated[int, Field(ge=0, le=64)] = Field(
        default=0, description="move training images by up to so many pixels, anew in every epoch"
    )
    jitter: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="change brightness, contrast and saturation of training images by up to this "
        "share; left out: 0.4 with recipe 'inception', else 0",
    )
    mixup: Mixed = Field(
        default=0.0,
        description="mix each training image with another one by shares of Beta(a, a) (a); 0: none",
    )
    cutmix: Mixed = Field(
        default=0.0,
        description="replace a box of each training image by that of another one, by shares of "
        "Beta(a, a) (a); 0: none; with mixup, too: half of the images by each",
    )
    mean: KnownNumbers | Finite | Annotated[tuple[Finite, ...], Field(strict=False)] = Field(
        default="training",
        description="what is subtracted from values of 0 to 255: a number, or one for each of the "
        "network's channels; 'imagenet'; 'training': measured over all values of training pictures",
    )
    mean_file: Folder | None = Field(
        default=None,
        description="file with a mean picture that is subtracted instead: .binaryproto or .npy",
    )
    deviation: KnownNumbers | Positive | Annotated[tuple[Positive, ...], Field(strict=False)] = (
        Field(default="training", description="what they are divided by then, as mean")
    )
    network_order: Literal["rgb", "bgr"] = Field(
        default="rgb", description="order of the channels that the network takes; bgr: as Caffe's"
    )

    @model_validator(mode="after")
    def _recipe_moves(self) -> DataConfig:
        if self.shift_pixels and self.recipe not in ("none", "cifar"):
            raise ValueError(
                f"shift_pixels = {self.shift_pixels}: recipe '{self.recipe}' chooses the part of a "
                "picture by itself; expected recipe 'none' or 'cifar', or no shift_pixels"
            )
        return self

    @model_validator(mode="after")
    def _one_mean(self) -> DataConfig:
        if self.mean_file is not None and self.mean != "training":
            raise ValueError(
                f"mean = {self.mean!r} and mean_file = '{self.mean_file}': expected one of them"
            )
        return self
