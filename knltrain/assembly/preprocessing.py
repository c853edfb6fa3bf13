"""What `[data]` says of preprocessing, as objects: recipe, normalisation, mixing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from knltrain.assembly.factories import Kernels
from knltrain.config import DataConfig, RunConfig
from knltrain.errors import ConfigError, DataError, NetworkError

if TYPE_CHECKING:
    from knltrain.data.augmentation.mixing import Mixing
    from knltrain.data.augmentation.recipes import Recipe
    from knltrain.data.dataset import Dataset, Halves
    from knltrain.data.model_preprocessing import ModelPreprocessing
    from knltrain.data.preprocessing import Preprocessing
    from knltrain.vectors import FloatArray


def preprocessing_of(
    config: DataConfig, halves: Halves, image_shape: tuple[int, int, int], kernels: Kernels
) -> Preprocessing:
    """How the pictures of a data set become images (H,W,C).

    Raises ConfigError for settings that do not fit each other or the pictures, and DataError for a
    mean file that is none or does not fit.
    """
    made = with_recipes(config, halves, image_shape, kernels)
    return made(recipe_of(config, image_shape))


def with_recipes(
    config: DataConfig, halves: Halves, image_shape: tuple[int, int, int], kernels: Kernels
) -> Callable[[Recipe], Preprocessing]:
    """As `preprocessing_of`, by any recipe."""
    from knltrain.data.augmentation.augmenting import Augmenting
    from knltrain.data.augmentation.normalisation import normalisation_of

    reverses = config.network_order == "bgr"
    picture = None if config.mean_file is None else read_mean_file(Path(config.mean_file))
    given = config.mean, config.deviation, picture, reverses
    normalisation = normalisation_of(halves.train, *given)

    def made(recipe: Recipe) -> Preprocessing:
        return Augmenting(
            image_shape,
            recipe,
            normalisation,
            kernels.picture_pass,
            reverses,
            kernels.operate_on_pictures,
        )

    return made


def dataset_of(
    config: RunConfig, halves: Halves, image_shape: tuple[int, int, int], kernels: Kernels
) -> Dataset:
    """The halves as images (H,W,C), those for training mixed, and the crops of evaluation.

    Raises ConfigError and DataError as `preprocessing_of`.
    """
    from knltrain.data.augmentation.recipes import ten_crops
    from knltrain.data.dataset import Dataset, LabelledImages

    made = with_recipes(config.data, halves, image_shape, kernels)
    recipe = recipe_of(config.data, image_shape)
    dataset = _in_order(config.data, Dataset.of(halves, made(recipe), mixing_of(config.data)))
    if config.evaluation.crops == 1:
        return dataset
    crops = tuple(LabelledImages(halves.test, made(one)) for one in ten_crops(recipe))
    return replace(dataset, test_crops=crops)


def _in_order(config: DataConfig, dataset: Dataset) -> Dataset:
    """The data set whose training images are shuffled as `data.order` says."""
    if config.order == "shuffle":
        return dataset
    from knltrain.data.blocks import chosen_blocks

    block, told = chosen_blocks(dataset.train.source, config.block_images)
    train = replace(dataset.train, block_images=block)
    return replace(dataset, train=train, notes=(*dataset.notes, *told))


def model_preprocessing(config: DataConfig, dataset: Dataset) -> ModelPreprocessing:
    """What a model that learns from this data set takes, in numbers."""
    from knltrain.data.augmentation.augmenting import Augmenting
    from knltrain.data.model_preprocessing import ModelPreprocessing

    made = dataset.test.preprocessing
    assert isinstance(made, Augmenting), "as with_recipes makes it"
    frame, names = made.recipe.framing.still_frame, dataset.test.source.class_names
    return ModelPreprocessing(
        made.image_shape, frame, made.reverses, made.normalisation, names, config.exif
    )


def with_numbers(config: RunConfig, known: ModelPreprocessing) -> RunConfig:
    """The run with numbers in place of mean and deviation that are of the training pictures.

    They are measured once so, and a resumed run goes on with them.
    """
    data, numbers = config.data, {}
    if data.mean == "training" and data.mean_file is None:
        numbers["mean"] = tuple(known.mean)
    if data.deviation == "training":
        numbers["deviation"] = tuple(known.deviation)
    return config.model_copy(update={"data": data.model_copy(update=numbers)})


def images_for(
    known: ModelPreprocessing, kernels: Kernels, crops: int = 1
) -> tuple[Preprocessing, ...]:
    """How a trained model's images are made: one of each picture, or ten.

    Raises ConfigError where there is no frame for ten crops.
    """
    from knltrain.data.augmentation.augmenting import Augmenting
    from knltrain.data.augmentation.recipes import ten_crops

    recipe = known.recipe()
    recipes = (recipe,) if crops == 1 else ten_crops(recipe)
    given = known.normalisation, kernels.picture_pass, known.reverses
    return tuple(Augmenting(known.image_shape, each, *given) for each in recipes)


def rehearse_pass(
    config: DataConfig, image_shape: tuple[int, int, int], kernels: Kernels, copies: bool
) -> None:
    """Load or compile what makes images (H,W,C) of pictures, or if `copies` only of their parts.

    Where the recipe operates on pictures, that as well.
    """
    import numpy as np

    from vectorized_ops.pictures import PicturePlan
    from vectorized_ops.reference.picture_operations import OperationPlan

    height, width, channels = image_shape
    mean, scale = np.zeros(channels, np.float32), np.ones(channels, np.float32)
    colours = None if copies else np.zeros((1, channels, channels + 1), np.float32)
    plan = PicturePlan(np.array([[0.0, 0, height, width]]), np.zeros(1, np.bool_), colours)
    picture, out = np.zeros(image_shape, np.uint8), np.zeros((1, *image_shape), np.float32)
    made = kernels.picture_pass(image_shape, mean, scale)
    if config.operates:
        made.write([picture], plan, out)
        none = OperationPlan(np.zeros((1, 0), np.int64), np.zeros((1, 0, 6), np.int64))
        kernels.operate_on_pictures(out, none, np.zeros(out.shape, np.uint8))
    picture = picture[:, :, ::-1] if config.network_order == "bgr" else picture
    made.write([picture], plan, out)


def recipe_of(config: DataConfig, image_shape: tuple[int, int, int]) -> Recipe:
    """The recipe of `data.recipe` with what other keys change of it; ConfigError if none is so."""
    from knltrain.data.augmentation.recipes import recipe_named

    if config.shift_pixels >= min(image_shape[:2]):
        raise ConfigError(
            f"data.shift_pixels = {config.shift_pixels}: images of {image_shape[0]} x "
            f"{image_shape[1]} pixels would be moved out of sight: expected less than that"
        )
    recipe = recipe_named(config.recipe, image_shape[:2], config.shift_pixels)
    keys = ("jitter", "operations", "magnitude")
    given = {key: value for key in keys if (value := getattr(config, key)) is not None}
    return replace(recipe, **given)


def mixing_of(config: DataConfig) -> Mixing | None:
    """How training images are mixed; None if they are not."""
    if not config.mixes:
        return None
    from knltrain.data.augmentation.mixing import Mixing

    return Mixing(config.mixup, config.cutmix)


def read_mean_file(path: Path) -> FloatArray:
    """The mean picture (h,w,C) float32 of a file of Caffe's (.binaryproto) or NumPy's (.npy).

    Arrays are (C,h,w), as Caffe's are, or (h,w,C). Raises DataError for other files.
    """
    import numpy as np

    from knltrain.data.readers.numpy_files import stored_arrays
    from knltrain.files.durable import reason_of
    from knltrain.files.regular import regular
    from knltrain.interchange.caffe.means import read_mean

    try:
        regular(path)
        found = stored_arrays(path)[0].array() if path.suffix == ".npy" else read_mean(path)
    except (DataError, NetworkError) as error:
        raise DataError(
            f"data.mean_file: {error}: expected a mean picture, as mean.binaryproto or mean.npy"
        ) from error
    except OSError as error:
        raise DataError(
            f"data.mean_file: {path}: cannot be read ({reason_of(error)}): expected a mean "
            "picture, as mean.binaryproto or mean.npy"
        ) from error
    if found.ndim == 3 and found.shape[2] not in (1, 3):
        found = found.transpose(1, 2, 0)
    if found.ndim != 3 or found.shape[2] not in (1, 3) or found.dtype.kind not in "buif":
        raise DataError(
            f"data.mean_file: {path} holds an array {found.dtype} {found.shape}: expected numbers "
            "(height, width, channels) or (channels, height, width), of 1 or 3 channels"
        )
    with np.errstate(over="ignore"):  # of what is refused
        mean = np.array(found, np.float32, order="C")  # not the mapped file
    if not np.isfinite(mean).all():
        raise DataError(
            f"data.mean_file: {path} holds values that are not finite: expected a mean picture"
        )
    return mean
