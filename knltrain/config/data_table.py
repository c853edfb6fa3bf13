"""The table [data] of a configuration: its keys and valid values."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from knltrain.config.tables import Count, Finite, Folder, Name, Positive, Table


def _mixes(parameter: float) -> float:
    if parameter and not 0.05 <= parameter <= 1:
        raise ValueError(f"{parameter}: expected 0.05 to 1, or 0 for none")
    return parameter


Mixed: TypeAlias = Annotated[float, AfterValidator(_mixes)]
"""The parameter a of Beta(a, a); 0 for none."""
KnownNumbers: TypeAlias = Literal["training", "imagenet"]

MAX_PIXELS: Final = 89_478_485
"""Of `knltrain.data.decoding`, which is not imported for a configuration."""


def _listed(given: Any) -> Any:
    return (given,) if isinstance(given, str) else given


Paths: TypeAlias = Annotated[tuple[Name, ...], Field(strict=False), BeforeValidator(_listed)]
"""Paths or patterns; a single one need not be a list."""


class DataConfig(Table):
    """[data]: what it is trained and tested on."""

    name: Name = Field(
        description="data set: 'digits', 'mnist', 'mnist-t10k', 'synthetic' or 'synthetic-labels';"
        " or the format of your own: 'idx', 'cifar10', 'cifar100', 'numpy', 'lmdb', 'hdf5',"
        " 'parquet', 'folder', 'list', 'tar'; 'packed' is a file of `knltrain pack`; 'random' is"
        " computed"
    )
    root: Folder | None = Field(
        default=None, description="folder with the data set's files; of 'packed' the file"
    )
    train: Paths = Field(
        default=(),
        description="files of the training half, below root: paths or patterns; left out: by the"
        " format's own names",
    )
    test: Paths = Field(default=(), description="files of the test half, as train")
    test_share: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None,
        description="share of the training images to test on, of each class alike, where there is"
        " no test half",
    )
    first_label: Annotated[int, Field(ge=0)] = Field(
        default=0, description="number of the first class in the files; 1 where they count from 1"
    )
    label: Name | None = Field(
        default=None, description="labels to take, by name, where the files have several"
    )
    channel_order: Literal["rgb", "bgr"] = Field(
        default="rgb",
        description="order of the colours in numpy, lmdb and hdf5 files; Caffe's convert_imageset"
        " writes bgr",
    )
    transposed: bool = Field(
        default=False,
        description="images of idx files lie column by column, as those of EMNIST",
    )
    channels: Literal[1, 3] = Field(
        default=3, description="of pictures that are decoded: 3, colours; 1, grey"
    )
    exif: bool = Field(
        default=False,
        description="turn pictures as their EXIF orientation asks; else it is ignored, as training"
        " pipelines do",
    )
    max_pixels: Count = Field(
        default=MAX_PIXELS,
        description="refuse encoded pictures of more pixels, which may be decompression bombs",
    )
    broken: Literal["stop", "skip"] = Field(
        default="stop",
        description="what becomes of a picture that cannot be decoded: it stops the run, or is"
        " counted, and the next good one with its label takes its place",
    )
    class_names: Name | None = Field(
        default=None,
        description="file with the names of the classes, one a line, below root; left out:"
        " classes.txt, if it is there",
    )
    follow_links: bool = Field(
        default=False,
        description="follow links of an image folder, and paths of a list, that leave root",
    )
    image: tuple[Count, Count, Literal[1, 3]] | None = Field(
        default=None,
        strict=False,
        description="height, width, channels of 'random' pictures; left out: as the network"
        " takes them",
    )
    classes: Annotated[int, Field(ge=2)] | None = Field(
        default=None, description="number of classes of 'random' pictures; left out: the network's"
    )
    train_images: Count | None = Field(
        default=None, description="use only the first N training images"
    )
    test_images: Count | None = Field(default=None, description="use only the first N test images")
    side_pixels: Count | None = Field(
        default=None, description="resize all images to so many pixels of height and width"
    )
    recipe: Literal["none", "cifar", "caffe", "vgg", "inception", "randaugment"] = Field(
        default="none",
        description="part of a picture that is shown, and what is changed of it for training: "
        "'none', 'cifar' (moved and mirrored), 'caffe' (a random crop, mirrored), 'vgg' (of a "
        "random size, too, with noise of colours), 'inception' (of random area and proportions, "
        "with other colours), 'randaugment' (so, too, and two random operations)",
    )
    shift_pixels: Annotated[int, Field(ge=0, le=64)] = Field(
        default=0, description="move training images by up to so many pixels, anew in every epoch"
    )
    jitter: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="change brightness, contrast and saturation of training images by up to this "
        "share; left out: 0.4 with recipe 'inception', else 0",
    )
    operations: Annotated[int, Field(ge=0, le=16)] | None = Field(
        default=None,
        description="change each training image by so many random operations of RandAugment; left "
        "out: 2 with recipe 'randaugment', else 0",
    )
    magnitude: Annotated[int, Field(ge=0, le=30)] | None = Field(
        default=None, description="of operations, 0 to 30; left out: 9"
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

    order: Literal["shuffle", "blocks"] = Field(
        default="shuffle",
        description="order of the training images: 'shuffle', all of them; 'blocks', blocks of "
        "neighbours, each read as a whole, for disks that are slow to seek: no true shuffle",
    )
    block_images: Count | None = Field(
        default=None, description="images of a block of order 'blocks'; left out: those of 64 MiB"
    )
    memory: Literal["node", "distributed"] = Field(
        default="node",
        description="where pictures lie: 'node': what is read as a whole in the memory of each"
        " computer, the rest in its files; 'distributed': a part in the memory of each, which sends"
        " the others what their batches need",
    )
    batches_ahead: Annotated[int, Field(ge=1, le=64)] = Field(
        default=3, description="batches made ahead for each worker, with placement.data_cores"
    )

    @property
    def mixes(self) -> bool:
        """Whether training images are mixed, so that their labels are targets."""
        return bool(self.mixup or self.cutmix)

    @property
    def operates(self) -> bool:
        """Whether RandAugment's operations change training images."""
        by_recipe = self.operations is None and self.recipe == "randaugment"
        return by_recipe or bool(self.operations)

    @model_validator(mode="after")
    def _one_test_half(self) -> DataConfig:
        if self.test and self.test_share is not None:
            raise ValueError(
                f"test = {list(self.test)} and test_share = {self.test_share:g}: expected one of "
                "them, files for testing or a share of the training images"
            )
        return self

    @model_validator(mode="after")
    def _order_fits(self) -> DataConfig:
        if self.block_images is not None and self.order != "blocks":
            raise ValueError(
                f"block_images = {self.block_images} with order = '{self.order}', which has no "
                "blocks: expected order = 'blocks', or no block_images"
            )
        if self.order == "blocks" and self.mixes:
            raise ValueError(
                "order = 'blocks' with mixup or cutmix, which take other images from anywhere in "
                "the data: expected order = 'shuffle', or no mixing"
            )
        return self

    @model_validator(mode="after")
    def _side_has_no_more_pixels(self) -> DataConfig:
        side = self.side_pixels
        if side is not None and side * side > self.max_pixels:
            raise ValueError(
                f"side_pixels = {side:,}: an image would have {side * side:,} pixels, expected "
                f"max_pixels = {self.max_pixels:,} at most"
            )
        return self

    @model_validator(mode="after")
    def _recipe_moves(self) -> DataConfig:
        if self.shift_pixels and self.recipe not in ("none", "cifar"):
            raise ValueError(
                f"shift_pixels = {self.shift_pixels}: recipe '{self.recipe}' chooses the part of a "
                "picture by itself; expected recipe 'none' or 'cifar', or no shift_pixels"
            )
        return self

    @model_validator(mode="after")
    def _magnitude_is_of_operations(self) -> DataConfig:
        if self.magnitude is not None and not self.operates:
            raise ValueError(
                f"magnitude = {self.magnitude} with no operations: expected recipe = "
                "'randaugment', operations of 1 or more, or no magnitude"
            )
        return self

    @model_validator(mode="after")
    def _one_mean(self) -> DataConfig:
        if self.mean_file is not None and self.mean != "training":
            raise ValueError(
                f"mean = {self.mean!r} and mean_file = '{self.mean_file}': expected one of them"
            )
        return self
