"""JPEGs of all kinds become pixels, and what is no whole picture is told of."""

from __future__ import annotations

import io
import sys
import threading

import numpy as np
import pytest
import simplejpeg
from PIL import Image, ImageOps

from knltrain.data.decoding import MAX_PIXELS, decode, picture_size
from knltrain.errors import BrokenPicture

from .pictures import by_pillow, jpeg, png, texture

PICTURE = texture(60, 90)
JPEG = jpeg(PICTURE)
LUMA = np.array([0.299, 0.587, 0.114])


def distance(one: np.ndarray, other: np.ndarray) -> float:
    assert one.shape == other.shape
    return float(np.abs(one.astype(int) - other.astype(int)).mean())


def claiming(height: int, width: int) -> bytes:
    """A JPEG whose header tells of another size."""
    start = JPEG.index(b"\xff\xc0") + 5
    size = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    return JPEG[:start] + size + JPEG[start + 4 :]


@pytest.mark.parametrize("kind", [bytes, memoryview])
def test_a_jpeg_is_decoded_to_its_colours(kind: type) -> None:
    pixels = decode(kind(JPEG), 3, "a.jpg")
    assert (pixels.dtype, pixels.flags.c_contiguous) == (np.uint8, True)
    assert distance(pixels, PICTURE) < 2


def test_progressive_jpegs_are_decoded_as_others() -> None:
    data = by_pillow(Image.fromarray(PICTURE), "JPEG", quality=95, progressive=True)
    assert distance(decode(data, 3, "a.jpg"), PICTURE) < 3


def test_grey_is_the_luma_whatever_the_format() -> None:
    luma = np.rint(PICTURE @ LUMA)[..., None]
    assert distance(decode(JPEG, 1, "a.jpg"), luma) < 2
    exact = decode(by_pillow(Image.fromarray(PICTURE), "PNG"), 1, "a.png")
    assert np.abs(exact - luma).max() <= 1


def test_a_grey_jpeg_has_three_equal_channels() -> None:
    pixels = decode(jpeg(PICTURE[..., :1].copy()), 3, "a.jpg")
    assert distance(pixels[..., :1], PICTURE[..., :1]) < 2
    assert (pixels == pixels[..., :1]).all()


@pytest.mark.parametrize("has_marker", [True, False])
def test_four_colours_of_print_become_three_with_and_without_adobes_marker(
    has_marker: bool,
) -> None:
    data = by_pillow(Image.fromarray(PICTURE).convert("CMYK"), "JPEG", quality=95)
    start = data.index(b"\xff\xee")
    if not has_marker:
        end = start + 2 + int.from_bytes(data[start + 2 : start + 4], "big")
        data = data[:start] + data[end:]
    assert distance(decode(data, 3, "a.jpg"), PICTURE) < 3
    assert distance(decode(data, 1, "a.jpg"), (PICTURE @ LUMA)[..., None]) < 3


def test_four_colours_stored_as_luma_and_chroma_become_three() -> None:
    plain = by_pillow(Image.fromarray(PICTURE).convert("CMYK"), "JPEG", quality=95)
    start = plain.index(b"\xff\xee")
    data = bytearray(plain)
    assert data[start + 15] == 0
    data[start + 15] = 2  # YCCK, whose luma and chroma are now those of C, M and Y
    expected = Image.open(io.BytesIO(bytes(data))).convert("RGB")
    assert distance(decode(bytes(data), 3, "a.jpg"), np.asarray(expected)) < 2


@pytest.mark.parametrize("sampling", [0x42, 0x31])
def test_a_rare_subsampling_is_left_to_pillow(sampling: int) -> None:
    data = bytearray(jpeg(PICTURE))
    data[data.index(b"\xff\xc0") + 11] = sampling
    with pytest.raises(ValueError, match="subsampling"):
        simplejpeg.decode_jpeg_header(bytes(data))
    assert decode(bytes(data), 3, "a.jpg").shape == PICTURE.shape


def test_a_png_called_jpeg_is_a_png() -> None:
    data = by_pillow(Image.fromarray(PICTURE), "PNG")
    assert np.array_equal(decode(data, 3, "n02105855_2933.JPEG"), PICTURE)


@pytest.mark.parametrize("bytes_left", [0, 2, 3, 100, len(JPEG) // 2, len(JPEG) - 1])
def test_a_truncated_jpeg_is_broken(bytes_left: int) -> None:
    with pytest.raises(BrokenPicture, match=r"^cats/a.jpg: .*remove it$"):
        decode(JPEG[:bytes_left], 3, "cats/a.jpg")


def test_a_jpeg_damaged_within_is_broken() -> None:
    data = bytearray(JPEG)
    middle = len(JPEG) // 2
    data[middle : middle + 40] = b"\xff\xd7" * 20
    with pytest.raises(BrokenPicture, match=r"a.jpg: cannot be decoded \(.+\): expected a whole"):
        decode(bytes(data), 3, "a.jpg")


def test_a_bomb_is_refused_by_its_header() -> None:
    with pytest.raises(BrokenPicture, match=r"65,500 x 65,500 pixels.*data.max_pixels"):
        decode(claiming(65_500, 65_500), 3, "a.jpg")
    assert MAX_PIXELS == Image.MAX_IMAGE_PIXELS
    with pytest.raises(BrokenPicture, match="60 x 90 pixels, expected at most 5,399"):
        decode(JPEG, 3, "a.jpg", max_pixels=5399)
    assert decode(JPEG, 3, "a.jpg", max_pixels=5400).shape == PICTURE.shape


@pytest.mark.parametrize(
    ("least", "shape"),
    [
        ((64, 96), (64, 96)),
        ((33, 1), (64, 96)),
        ((32, 48), (32, 48)),
        ((20, 30), (24, 36)),
        ((16, 24), (16, 24)),
        ((1, 1), (8, 12)),
        ((1, 48), (32, 48)),
        ((500, 500), (64, 96)),
    ],
)
def test_a_smaller_picture_has_at_least_what_is_asked_for(
    least: tuple[int, int], shape: tuple[int, int]
) -> None:
    picture = texture(64, 96, block=40)
    pixels = decode(jpeg(picture), 3, "a.jpg", least=least)
    assert pixels.shape[:2] == shape
    height, width = shape
    expected = np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.BOX))
    assert distance(pixels, expected) < 8


def test_pixels_are_written_to_a_buffer_where_they_fit() -> None:
    buffer = np.zeros(60 * 90 * 3, np.uint8)
    pixels = decode(JPEG, 3, "a.jpg", buffer=buffer)
    assert np.shares_memory(pixels, buffer)
    assert np.array_equal(pixels, decode(JPEG, 3, "a.jpg"))
    small = np.zeros(60 * 90 * 3 - 1, np.uint8)
    assert not np.shares_memory(decode(JPEG, 3, "a.jpg", buffer=small), small)
    assert np.shares_memory(decode(JPEG, 3, "a.jpg", buffer=small, least=(30, 45)), small)


@pytest.mark.parametrize("turn", range(1, 9))
def test_exif_turns_a_picture_if_asked_to(turn: int) -> None:
    tags = Image.Exif()
    tags[0x0112] = turn
    data = by_pillow(Image.fromarray(PICTURE), "JPEG", quality=95, subsampling=0, exif=tags)
    expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))
    assert distance(decode(data, 3, "a.jpg", exif=True), expected) < 1
    assert distance(decode(data, 3, "a.jpg"), PICTURE) < 3
    height, width = expected.shape[0] // 2, expected.shape[1] // 2
    half = decode(data, 3, "a.jpg", exif=True, least=(height, width))
    assert half.shape == (height, width, 3)


def test_a_size_is_told_by_the_header_alone() -> None:
    assert picture_size(JPEG[:700], "a.jpg") == (60, 90)
    assert picture_size(claiming(65_500, 65_500), "a.jpg") == (65_500, 65_500)
    assert picture_size(png(PICTURE, 2, 8), "a.png") == (60, 90)
    for kind in ("JPEG", "PNG"):
        tags = Image.Exif()
        tags[0x0112] = 6
        turned = by_pillow(Image.fromarray(PICTURE), kind, exif=tags)
        assert picture_size(turned, "a") == (60, 90)
        assert picture_size(turned, "a", exif=True) == (90, 60)
    with pytest.raises(BrokenPicture, match="is empty"):
        picture_size(b"", "a.jpg")


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_other_threads_run_while_a_picture_is_decoded(kind: str) -> None:
    data = by_pillow(Image.fromarray(texture(700, 1000)), kind)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e3)  # so that nothing but the decoder lets others run
    try:
        waiting, ran = threading.Lock(), []
        waiting.acquire()
        thread = threading.Thread(target=lambda: (waiting.acquire(), ran.append(True)))
        thread.start()
        waiting.release()
        tries = 0
        while not ran and tries < 50:
            decode(data, 3, "picture")
            tries += 1
        assert ran
        thread.join()
    finally:
        sys.setswitchinterval(interval)
