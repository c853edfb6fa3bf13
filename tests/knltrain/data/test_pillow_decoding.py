"""Pictures in other formats than JPEG, of all depths and kinds of colour."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from knltrain.data.decoding import decode, picture_size
from knltrain.errors import BrokenPicture

from .pictures import by_pillow, png, texture

PICTURE = texture(20, 30)
IMAGE = Image.fromarray(PICTURE)

pytestmark = pytest.mark.filterwarnings("ignore:::PIL")  # Pillow warns of some damages, too.


@pytest.mark.parametrize(
    ("kind", "settings"),
    [("PNG", {}), ("BMP", {}), ("TIFF", {}), ("PPM", {}), ("WEBP", {"lossless": True})],
)
def test_every_lossless_format_comes_back(kind: str, settings: dict[str, bool]) -> None:
    data = by_pillow(IMAGE, kind, **settings)
    assert np.array_equal(decode(data, 3, "a"), PICTURE)
    assert picture_size(data, "a") == (20, 30)


def test_of_several_frames_the_first_is_taken() -> None:
    others = [Image.fromarray(255 - PICTURE)]
    data = by_pillow(IMAGE, "GIF", save_all=True, append_images=others)
    assert np.abs(decode(data, 3, "a.gif").astype(int) - PICTURE).mean() < 12


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("transparency", [None, 3, bytes(range(200))])
def test_palettes_are_resolved_and_their_transparency_dropped(
    channels: int, transparency: int | bytes | None
) -> None:
    quantised = IMAGE.quantize(200)
    settings = {} if transparency is None else {"transparency": transparency}
    colours = quantised.convert("RGB")
    expected = np.asarray(colours if channels == 3 else colours.convert("L"))
    found = decode(by_pillow(quantised, "PNG", **settings), channels, "a.png")
    assert np.array_equal(found, expected.reshape(20, 30, channels))


def test_transparency_is_dropped() -> None:
    grey, alpha = PICTURE[..., 0], PICTURE[..., 1]
    with_alpha = Image.merge("LA", [Image.fromarray(grey), Image.fromarray(alpha)])
    data = by_pillow(with_alpha, "PNG")
    assert np.array_equal(decode(data, 1, "a.png")[..., 0], grey)
    assert np.array_equal(decode(data, 3, "a.png"), np.repeat(grey[..., None], 3, axis=2))
    coloured = Image.fromarray(np.dstack([PICTURE, alpha]))
    assert np.array_equal(decode(by_pillow(coloured, "PNG"), 3, "a.png"), PICTURE)


@pytest.mark.parametrize(("colour_type", "values"), [(0, 1), (2, 3), (4, 2), (6, 4)])
def test_of_16_bits_the_upper_8_are_kept(colour_type: int, values: int) -> None:
    deep = np.random.default_rng(1).integers(0, 2**16, (20, 30, values))
    data = png(deep, colour_type, 16)
    colours = deep[..., :3] if values >= 3 else np.repeat(deep[..., :1], 3, axis=2)
    assert np.array_equal(decode(data, 3, "a.png"), colours >> 8)
    if values < 3:
        assert np.array_equal(decode(data, 1, "a.png"), deep[..., :1] >> 8)


@pytest.mark.parametrize("kind", ["TIFF", "PPM"])
def test_16_bits_of_other_formats_are_no_clipped_ones(kind: str) -> None:
    deep = np.arange(0, 60_000, 100, dtype=np.uint16).reshape(20, 30)
    found = decode(by_pillow(Image.fromarray(deep), kind), 1, "a")
    assert np.array_equal(found[..., 0], deep >> 8)


def test_single_bits_are_black_and_white() -> None:
    bits = PICTURE[..., 0] > 127
    found = decode(by_pillow(Image.fromarray(bits), "PNG"), 3, "a.png")
    assert np.array_equal(found, np.repeat(bits[..., None], 3, axis=2) * np.uint8(255))


@pytest.mark.parametrize("mode", ["I", "F"])
def test_32_bits_are_refused(mode: str) -> None:
    data = by_pillow(Image.new(mode, (4, 4)), "TIFF")
    with pytest.raises(BrokenPicture, match=r"a.tif: its values have 32 bits: expected 8 or 16"):
        decode(data, 3, "a.tif")


@pytest.mark.parametrize("kind", ["PNG", "GIF", "TIFF", "WEBP", "PPM"])
def test_truncated_pictures_are_broken_wherever_they_end(kind: str) -> None:
    data = by_pillow(IMAGE, kind)
    for part in (0.02, 0.2, 0.5, 0.9):
        with pytest.raises(BrokenPicture, match=r"^cats/a: .*remove it$"):
            decode(data[: int(len(data) * part)], 3, "cats/a")


def test_damaged_pictures_raise_nothing_else() -> None:
    random = np.random.default_rng(2)
    for kind in ("PNG", "GIF", "TIFF", "WEBP", "PPM", "BMP", "JPEG"):
        data = np.frombuffer(by_pillow(IMAGE, kind), np.uint8)
        for _ in range(60):
            damaged = data.copy()
            places = random.integers(0, len(data), 4)
            damaged[places] = random.integers(0, 256, 4)
            try:
                decode(damaged.tobytes(), 3, "a", max_pixels=10**6, exif=True)
            except BrokenPicture:
                continue


def test_bombs_are_refused_by_their_headers() -> None:
    data = png(np.zeros((1000, 3000, 1), np.uint8), 0, 8)
    with pytest.raises(BrokenPicture, match="1,000 x 3,000 pixels, expected at most 2,999,999"):
        decode(data, 3, "a.png", max_pixels=2_999_999)
    assert decode(data, 1, "a.png", max_pixels=3_000_000).shape == (1000, 3000, 1)


def test_exif_of_other_formats_is_applied_if_asked_to() -> None:
    tags = Image.Exif()
    tags[0x0112] = 6
    data = by_pillow(IMAGE, "PNG", exif=tags)
    assert np.array_equal(decode(data, 3, "a.png", exif=True), np.rot90(PICTURE, -1))
    assert np.array_equal(decode(data, 3, "a.png"), PICTURE)


@pytest.mark.parametrize("data", [b"%!PS-Adobe-3.0\n", b"<svg/>", b"\0" * 100, b"\xff\xd8"])
def test_what_is_no_known_picture_is_told_by_its_begin(data: bytes) -> None:
    with pytest.raises(BrokenPicture, match=rf"begins with 0x{data[:8].hex()}: expected .* JPEG"):
        decode(data, 3, "a")
