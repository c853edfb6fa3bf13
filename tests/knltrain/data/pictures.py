"""Pictures that tests encode."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import simplejpeg
from PIL import Image

Pixels = npt.NDArray[np.uint8]


def texture(height: int, width: int, seed: int = 0, block: int = 8) -> Pixels:
    """A smooth picture (H,W,3) of many colours, a new one each `block` pixels."""
    colours = (height // block + 2, width // block + 2, 3)
    coarse = np.random.default_rng(seed).integers(0, 256, colours).astype(np.uint8)
    image = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
    return np.array(image)


def jpeg(pixels: Pixels, quality: int = 95) -> bytes:
    space, subsampling = ("GRAY", "Gray") if pixels.shape[2] == 1 else ("RGB", "444")
    return bytes(simplejpeg.encode_jpeg(pixels, quality, space, subsampling))


def by_pillow(image: Image.Image, kind: str, **settings: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **settings)
    return file.getvalue()


def png(pixels: npt.NDArray[np.generic], colour_type: int, depth: int) -> bytes:
    """A PNG (H,W,C) without filters, of kinds that Pillow does not write."""
    height, width, _ = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, 0)
    rows = pixels.astype(">u2" if depth == 16 else "u1")
    content = b"".join(b"\0" + row.tobytes() for row in rows)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(content)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
