"""A trained model that tells the classes of pictures."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import numpy as np

from knltrain.assembly import build_backend, build_network
from knltrain.assembly.losses import loss_of
from knltrain.assembly.names import build_kernels
from knltrain.assembly.preprocessing import images_for
from knltrain.backends.loss import Telling
from knltrain.checkpoint.reader import Checkpoint
from knltrain.config import RunConfig
from knltrain.data.dataset import Batch
from knltrain.data.given_pictures import GivenPictures, Picture, name_of, pixels_of
from knltrain.data.model_preprocessing import ModelPreprocessing
from knltrain.data.source import Pixels
from knltrain.errors import BrokenPicture, ConfigError, DataError, NonFiniteLoss
from knltrain.launch.evaluate_run import in_one_piece, threads_here
from knltrain.launch.kept_model import model_in, preprocessing_of_run
from knltrain.launch.run_folder import read_config, run_folder_of
from knltrain.vectors import FloatArray

if TYPE_CHECKING:
    from knltrain.backends.backend import Backend
    from knltrain.network.network import Network

MOST_AT_ONCE: Final = 64
THERE: Final = 0.5
"""With a sigmoid loss a class is there from this probability on."""


@final
@dataclass(frozen=True, slots=True)
class Prediction:
    """What a model tells of the picture `name`, by class: float32 (classes,).

    `values` are probabilities: softmax or sigmoid of the outputs, as the model was trained; or the
    outputs themselves, if its loss is about values (`tells`).
    """

    name: str
    values: FloatArray
    class_names: tuple[str, ...]
    tells: Telling

    @property
    def class_name(self) -> str:
        """The most probable class; of equal ones the first."""
        return self.class_names[int(self.values.argmax())]

    @property
    def probability(self) -> float:
        """That class's probability."""
        return float(self.values.max())

    def top(self, count: int) -> list[tuple[str, float]]:
        """So many classes with the largest values, largest first."""
        order = np.argsort(-self.values, kind="stable")[:count].tolist()
        return [(self.class_names[number], float(self.values[number])) for number in order]

    @property
    def told(self) -> list[tuple[str, float]]:
        """The class of softmax, those that are there of sigmoid, or all values in their order."""
        if self.tells == "values":
            return list(zip(self.class_names, self.values.tolist(), strict=True))
        if self.tells == "classes":
            return [each for each in self.top(len(self.values)) if each[1] >= THERE]
        return self.top(1)


@final
class Model:
    """The model of a run, ready to tell classes; see `load_model`."""

    def __init__(
        self,
        config: RunConfig,
        network: Network,
        checkpoint: Checkpoint,
        preprocessing: ModelPreprocessing,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.preprocessing = preprocessing
        self.checkpoint, self.step = checkpoint.folder, checkpoint.step
        self._config, self._network = config, network
        self._in_one_piece, here = in_one_piece(config)
        self.notes = (*notes, *here)
        self._loss = loss_of(config, network)
        self._parameters = checkpoint.center.packed
        self._backend: tuple[int, Backend] | None = None

    @property
    def class_names(self) -> tuple[str, ...]:
        """By number."""
        return self.preprocessing.class_names

    def predict(self, pictures: Iterable[Picture], *, crops: int = 1) -> list[Prediction]:
        """What the model tells of each picture, in their order.

        Pictures are paths, the bytes of files, or arrays uint8 (H,W), (H,W,1) or (H,W,3) of red,
        green, blue; or one array (N,H,W,C). With 10 `crops` values are means over ten parts of
        each picture.

        Raises BrokenPicture for the first that cannot be read, ConfigError for other `crops`, and
        NonFiniteLoss where the model tells no numbers.
        """
        found = []
        for each in self.each(pictures, crops=crops):
            if isinstance(each, BrokenPicture):
                raise each
            found.append(each)
        return found

    def each(
        self, pictures: Iterable[Picture], *, crops: int = 1
    ) -> Iterator[Prediction | BrokenPicture]:
        """As `predict`, one by one; errors in place of pictures that cannot be read."""
        ways = self._ways(crops)
        given = enumerate(_listed(pictures))
        most = self._at_once()
        with ThreadPoolExecutor(threads_here(self._config)) as threads:
            while part := list(itertools.islice(given, most)):
                named = [(name_of(picture, number), picture) for number, picture in part]
                read = list(threads.map(self._read, named))
                whole = [each for each in read if not isinstance(each, BrokenPicture)]
                values = iter(self._values(whole, ways) if whole else ())
                for (name, _), each in zip(named, read, strict=True):
                    if isinstance(each, BrokenPicture):
                        yield each
                    else:
                        yield Prediction(name, next(values), self.class_names, self._loss.tells)

    def close(self) -> None:
        """Release threads and memory; they come back when the model is used again."""
        if self._backend is not None:
            self._backend[1].close()
        self._backend = None

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ways(self, crops: int) -> list[partial[None]]:
        """The images of a picture that are averaged, as functions (source, rows, draws, out)."""
        if crops not in (1, 10):
            raise ConfigError(f"crops = {crops}: expected 1 or 10")
        if crops > 1 and self._loss.tells == "values":
            raise ConfigError(
                f"crops = {crops} averages probabilities, which loss.kind = "
                f"'{self._config.loss.kind}' has not: expected 1"
            )
        kernels = build_kernels(self._config)
        return [partial(each.write) for each in images_for(self.preprocessing, kernels, crops)]

    def _at_once(self) -> int:
        """As many pictures as a worker took in training, for which kernels are compiled."""
        config = self._config
        images = max(config.images_of_each)
        asked = config.backend.micro_batch
        return min(images, MOST_AT_ONCE, asked if asked != "auto" and asked > 0 else images)

    def _read(self, named: tuple[str, Picture]) -> Pixels | BrokenPicture:
        name, picture = named
        known = self.preprocessing
        try:
            return pixels_of(picture, known.image_shape[2], name, known.exif)
        except BrokenPicture as error:
            return error

    def _values(self, pictures: list[Pixels], ways: list[partial[None]]) -> FloatArray:
        """Values (n, classes) of the pictures."""
        count, known = len(pictures), self.preprocessing
        source = GivenPictures(pictures, known.image_shape[2])
        batch = Batch.allocate(count, known.image_shape)
        logits = np.zeros((count, len(known.class_names)), np.float32)
        values = np.zeros(logits.shape)
        backend = self._backend_for(count)
        for write in ways:
            write(source, np.arange(count), None, batch.images_nhwc)
            backend.evaluate(batch, self._parameters, logits)
            values += self._loss.told(logits) / len(ways)
        if not np.isfinite(values).all():
            raise NonFiniteLoss(self.step, backend.first_non_finite(batch, self._parameters))
        found: FloatArray = values.astype(np.float32)
        return found

    def _backend_for(self, count: int) -> Backend:
        """A backend for so many pictures or more."""
        if self._backend is None or self._backend[0] < count:
            self.close()
            config = self._in_one_piece
            made = build_backend(config, self._network, count, threads_here(config))
            self._backend = count, made
        return self._backend[1]


def load_model(source: str | Path) -> Model:
    """The model (the center) of a run's newest whole checkpoint, or of a checkpoint in its folder.

    No data set is read, unless the run is of a version that did not keep preprocessing and class
    names. Raises RunFolderError, CheckpointError, ConfigError or DataError.
    """
    run_folder, chosen = run_folder_of(Path(source))
    config = read_config(run_folder)
    network = build_network(config)
    checkpoint, notes = model_in(run_folder, chosen, network)
    known, doubts = preprocessing_of_run(run_folder, config, network)
    return Model(config, network, checkpoint, known, (*notes, *doubts))


def _listed(pictures: Iterable[Picture]) -> Iterable[Picture]:
    if isinstance(pictures, np.ndarray) and pictures.ndim != 4:
        raise DataError(
            f"one array {pictures.dtype} {pictures.shape}: expected a list of pictures, or an "
            "array (N, H, W, C) of several"
        )
    if isinstance(pictures, str | bytes | Path):
        raise DataError(f"one {type(pictures).__name__}: expected a list of pictures, as [picture]")
    return pictures
