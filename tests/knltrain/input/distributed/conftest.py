"""Nodes in one process: each with its part of a data set, and a door."""

from __future__ import annotations

import io
import socket
from collections.abc import Callable, Iterator

import pytest
from PIL import Image

from knltrain.data.contents import contents_of_recipe
from knltrain.data.dataset import Dataset, Halves, numbered
from knltrain.data.encoded import EncodedPictures, EncodedSource
from knltrain.input.distributed.client import Doors
from knltrain.input.distributed.server import PartServer
from knltrain.input.distributed.sources import distributed, read_parts
from knltrain.input.node_data import NodeData

from ..conftest import dataset_of

KEY = b"a key of 32 bytes that all know."

Spread = Callable[..., "list[Dataset]"]


class Files(EncodedPictures):
    """Pictures of given bytes."""

    def __init__(self, encoded: list[bytes], half: str) -> None:
        self._encoded, self._half = encoded, half

    def data(self, row: int) -> bytes:
        return self._encoded[row]

    def name(self, row: int) -> str:
        return f"/{self._half}/café{row}.png"


@pytest.fixture
def raw() -> Dataset:
    """41 and 10 pictures of 6 x 5 pixels, moved by up to a pixel in training."""
    return dataset_of(41, 10)


@pytest.fixture
def encoded(raw: Dataset) -> Dataset:
    """The same as PNG files of several sizes."""
    return encoded_of(raw)


def encoded_of(raw: Dataset) -> Dataset:
    found = []
    for name, half in (("train", raw.train), ("test", raw.test)):
        files = []
        for row in range(len(half)):
            written = io.BytesIO()
            pixels = half.source.picture(row)[: 5 + row % 2]
            Image.fromarray(pixels).save(written, "png")
            files.append(written.getvalue())
        contents = contents_of_recipe(name, len(half), (0, 0, 3))
        found.append(
            EncodedSource(Files(files, name), half.source.labels, numbered(4), 3, contents)
        )
    return Dataset.of(Halves("small", *found), raw.train.preprocessing)


@pytest.fixture
def spread() -> Iterator[Spread]:
    """spread(dataset, nodes=2): the data set as processes of each node have it."""
    opened: list[PartServer | NodeData] = []

    def make(dataset: Dataset, nodes: int = 2, limit_seconds: float = 20.0) -> list[Dataset]:
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(nodes)]
        addresses = tuple(("127.0.0.1", each.getsockname()[1]) for each in listeners)
        found = []
        for node, listener in enumerate(listeners):
            parts = read_parts(dataset, node, nodes)
            doors = Doors(node, addresses, KEY, limit_seconds)
            held = NodeData.copy_of(distributed(dataset, parts, doors))
            opened.extend((held, PartServer(listener, KEY, parts, nodes)))
            found.append(held.dataset())
        make.servers = [each for each in opened if isinstance(each, PartServer)]  # type: ignore[attr-defined]
        return found

    yield make
    for each in opened:
        each.close()
