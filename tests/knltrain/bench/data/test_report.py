from __future__ import annotations

from knltrain.bench.data.report import format_table


def test_a_row_tells_rates_and_the_share_of_a_copy() -> None:
    row = {
        "recipe": "caffe",
        "pictures_per_second": 12345.6,
        "gbytes_per_second": 9.27,
        "share_of_copy": 0.713,
    }
    report = {
        "machine": "a machine",
        "implementation": "numba",
        "picture_pixels": 256,
        "side_pixels": 224,
        "channels": 1,
        "images": 64,
        "rounds": 7,
        "copy_gbytes_per_second": 13.0,
        "rows": [row],
    }
    first, second, _, head, last = format_table(report).splitlines()
    assert first == (
        "64 pictures of 256 pixels and 1 channel to images of 224, by numba, one thread of a "
        "machine, medians of 7 alternating rounds"
    )
    assert second.startswith("copy 13.0 GB/s (read and written); 1 + 4 bytes")
    assert head.split() == ["recipe", "pictures/s", "GB/s", "of", "copy"]
    assert last.split() == ["caffe", "12,346", "9.3", "0.71"]
