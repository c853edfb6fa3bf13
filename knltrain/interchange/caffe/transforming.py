"""A model's preprocessing in the words of Caffe's `transform_param`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knltrain.data.model_preprocessing import ModelPreprocessing


def transform_comment(known: ModelPreprocessing) -> str:
    """Lines for the top of a .prototxt, whose input has no `transform_param` of its own.

    Caffe computes (v - mean) * scale, with one scale for all channels.
    """
    return "".join(f"# {line}\n" for line in _lines(known))


def _lines(known: ModelPreprocessing) -> Iterator[str]:
    height, width, channels = known.image_shape
    least = (height, width) if known.frame is None else known.frame
    yield (
        f"Images: the middle {height} x {width} of a picture that is resized to just hold "
        f"{least[0]} x {least[1]}."
    )
    if channels == 3:
        yield f"Channels: {', '.join(('blue', 'green', 'red') if known.reverses else _RGB)}."
    words, scales = [], sorted(set(known.deviation))
    if known.normalisation.mean_picture is None:
        words += [f"mean_value: {mean:.9g}" for mean in known.mean]
    else:
        yield "The mean is a picture (mean_file)."
    if len(scales) == 1:
        words.append(f"scale: {1 / scales[0]:.9g}")
    else:
        told = ", ".join(f"{deviation:.9g}" for deviation in known.deviation)
        yield f"Divide the channels by {told} afterwards, for which Caffe has no word."
    if height == width and known.frame is not None:
        words.append(f"crop_size: {height}")
    yield f"transform_param {{ {' '.join(words)} }}"


_RGB = ("red", "green", "blue")
