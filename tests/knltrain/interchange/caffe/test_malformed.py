"""Files of Caffe that are damaged or absurd: one clear error each, in bounded time and memory."""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from knltrain.errors import ConfigError, KnltrainError, NetworkError
from knltrain.interchange.caffe.caffemodel import read_caffemodel
from knltrain.interchange.caffe.importing import import_caffe
from knltrain.interchange.caffe.text_format import parse
from knltrain.interchange.weights import load_weights
from knltrain.network.parameters import ParameterVector
from knltrain.network.zoo.lenet import lenet

from .caffe_files import blob, field, layer, real, varint
from .prototxts import DATA, SMALL, net
from .prototxts import layer as text_layer

SECONDS = 120.0
"""Far more than any of them takes, far less than one of quadratic time."""
MEBIBYTE = 1 << 20


@contextmanager
def bounded(mebibytes: float) -> Iterator[None]:
    """Time and memory that what is inside may take."""
    tracemalloc.start()
    begin = time.monotonic()
    try:
        yield
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert time.monotonic() - begin < SECONDS
    assert peak < mebibytes * MEBIBYTE


def _one_line(error: KnltrainError) -> str:
    text = str(error)
    assert text
    assert "\n" not in text
    assert len(text) < 600
    return text


def _model() -> bytes:
    """LeNet's, every value 0.5."""
    shapes = (
        ((20, 1, 5, 5), (20,)),
        ((50, 20, 5, 5), (50,)),
        ((500, 800), (500,)),
        ((10, 500), (10,)),
    )
    content = b""
    for name, both in zip(("conv1", "conv2", "ip1", "ip2"), shapes, strict=True):
        blobs = []
        for shape in both:
            size = 1
            for each in shape:
                size *= each
            dims = field(7, field(1, b"".join(map(varint, shape))))
            blobs.append(dims + field(5, b"\0\0\0\x3f" * size))
        content += layer(name, *blobs)
    return content


@pytest.mark.slow
@pytest.mark.parametrize("written_by_caffe", [False, True])
def test_caffemodel_cut_anywhere_is_refused(written_by_caffe: bool, tmp_path: Path) -> None:
    whole = real("lenet_iter_10000.caffemodel").read_bytes() if written_by_caffe else _model()
    path, network = tmp_path / "a.caffemodel", lenet()
    path.write_bytes(whole)
    assert load_weights(ParameterVector(network), path) == ()
    with bounded(8):
        for size in range(0, len(whole), 1000):
            path.write_bytes(whole[:size])
            with pytest.raises(NetworkError) as caught:
                load_weights(ParameterVector(network), path)
            assert "a.caffemodel" in _one_line(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (field(7, field(1, varint(1 << 40))) + field(5, b"\0" * 8), "an array of shape"),
        (
            field(7, field(1, varint(1 << 20) * 2 + varint(0))) + field(5, b""),
            "expected|damaged|no layer",
        ),
        (field(7, field(1, varint((1 << 64) - 1))) + field(5, b"\0" * 4), "an array of shape"),
        (field(7, field(1, varint(1) * 40)) + field(5, b"\0" * 4), "an array of shape"),
        (field(5, b"\0" * 7), "7 bytes of values, expected a multiple of 4"),
        (field(8, b"\0" * 12), "12 bytes of values, expected a multiple of 8"),
        (varint(5 << 3 | 3), "a field of type 3, which there is not"),
        (varint(5 << 3 | 2) + varint(1 << 60), "beyond the end"),
        (b"\x80" * 11, "a number of more than 10 bytes"),
        (field(5, struct.pack("<f", float("nan"))), "float32"),
    ],
)
def test_absurd_arrays_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.caffemodel"
    path.write_bytes(layer("conv1", content))
    with bounded(8), pytest.raises(NetworkError, match=message) as caught:
        load_weights(ParameterVector(lenet()), path)
    _one_line(caught.value)


NAMES = ["a\0b", "/", "../../etc/passwd", "..", "x" * 4096, "\n", "é", "images"]


@pytest.mark.parametrize("name", NAMES)
def test_odd_names_of_layers_in_a_model_are_only_names(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.caffemodel"
    path.write_bytes(_model() + layer(name, blob((2,), (1, 2))))
    (note,) = load_weights(ParameterVector(lenet()), path)
    assert "not used by the network" in note
    assert [each.name for each in tmp_path.iterdir()] == ["a.caffemodel"]


@pytest.mark.parametrize("name", NAMES)
def test_odd_names_of_layers_in_a_net_are_kept_or_refused(name: str) -> None:
    escaped = "".join(f"\\{each:03o}" for each in name.encode())
    text = DATA + text_layer("ReLU", "", "data", "NAME").replace("NAME", escaped)
    if name in ("/", "x" * 4096):
        assert net(text).network.layers[0].name == name
        return
    with pytest.raises(ConfigError, match="its name cannot be kept: expected letters") as caught:
        net(text)
    _one_line(caught.value)


@pytest.mark.slow
def test_megabytes_of_comments_are_read() -> None:
    comments = "# a comment of Caffe's that is not read\n" * (10 * MEBIBYTE // 40)
    with bounded(64):
        assert len(parse(comments + SMALL + comments, "a.prototxt").fields) == 3
    with bounded(64), pytest.raises(ConfigError, match=r"a.prototxt:262145"):
        parse(comments[: 40 << 18] + "!", "a.prototxt")
    long = "#" * (10 * MEBIBYTE)
    with bounded(64):
        assert not parse(long, "a.prototxt").fields


@pytest.mark.slow
def test_ten_thousand_layers_are_read() -> None:
    text = DATA + "".join(
        text_layer("ReLU", "", f"r{each - 1}" if each else "data", f"r{each}")
        for each in range(10_000)
    )
    with bounded(256):
        assert len(net(text).network.layers) == 10_000


@pytest.mark.slow
def test_ten_thousand_bad_layers_are_told() -> None:
    text = DATA + text_layer("Nonsense", "", "data", "n") * 10_000
    with bounded(256), pytest.raises(ConfigError, match="type 'Nonsense' is unknown") as caught:
        net(text)
    assert str(caught.value).endswith("and 9,900 more")


def test_deep_messages_are_refused() -> None:
    with bounded(16), pytest.raises(ConfigError, match="nested deeper than 100"):
        parse("a { " * 100_000, "a.prototxt")


def _refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        net(text)
    return str(caught.value)


def test_layer_that_reads_what_a_later_one_writes_is_refused() -> None:
    later = text_layer("ReLU", "", "b", "a") + text_layer("ReLU", "", "a", "b")
    assert "a.prototxt:2: layer 'a': reads blob 'b', which no layer before it writes" in _refusal(
        DATA + later
    )
    own = text_layer("ReLU", "", "a", "a")
    assert "layer 'a': reads blob 'a', which no layer before it writes" in _refusal(DATA + own)


def test_two_layers_that_write_one_blob_are_refused() -> None:
    text = text_layer("ReLU", "", "data", "a")
    second = text_layer("TanH", "", "data", "a").replace('name: "a"', 'name: "b"')
    assert "a.prototxt:3: layer 'b': writes blob 'a', which line 2 has written" in _refusal(
        DATA + text + second
    )


def test_rules_of_both_kinds_are_refused() -> None:
    rules = "include { phase: TRAIN } exclude { phase: TEST }"
    message = _refusal(DATA + text_layer("ReLU", rules))
    assert "a.prototxt:2: layer 'top': both include (line 2) and exclude: expected rules" in message


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            'net: "n" train_net: "n"',
            r"net \(line 1\) and train_net \(line 1\): expected one of net",
        ),
        ("", "no net: expected one of net, train_net"),
        ('net: "net.prototxt" test_iter: 5', "test_interval: expected it with test_iter, at least"),
        ('net: "none"', "'none' is neither in the working folder nor in"),
        ('net: "a\\000b"', "neither in the working folder"),
        (f'net: "{"x" * 5000}"', "neither in the working folder"),
        ('net: "net.prototxt" max_iter: 99999999999999999999999', "at most 64 bits"),
    ],
)
def test_solvers_that_contradict_themselves_are_refused(
    fields: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "net.prototxt").write_text(SMALL)
    solver = tmp_path / "solver.prototxt"
    more = "" if "max_iter" in fields else "max_iter: 9"
    solver.write_text(f'{fields} base_lr: 0.1 lr_policy: "fixed" {more}\n')
    with pytest.raises(ConfigError, match=message):
        import_caffe(solver, "a.json")


@pytest.mark.parametrize("content", [b"\xff\xfe\0", b"\0" * 1000, b"\x89PNG\r\n", b"", b"{}"])
@pytest.mark.parametrize(
    "read", [lambda path: import_caffe(path, "a.json"), read_caffemodel], ids=["text", "model"]
)
def test_other_files_are_named(
    read: Callable[[Path], object], content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(KnltrainError, match=str(path)) as caught:
        read(path)
    _one_line(caught.value)
