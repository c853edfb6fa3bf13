"""The table [data] of a configuration: its keys and valid values."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from knltrain.config.tables import Count, Folder, Name, Table


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
        default=None, description="enlarge all images to so many pixels of height and width"
    )
    shift_pixels: Annotated[int, Field(ge=0, le=64)] = Field(
        default=0, description="move training images by up to so many pixels, anew in every epoch"
    )
    batches_ahead: Annotated[int, Field(ge=1, le=64)] = Field(
        default=3, description="batches made ahead for each worker, with placement.data_cores"
    )
