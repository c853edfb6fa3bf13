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
    whole = format_table(report)
    first, second, _, head, last = whole.splitlines()
    assert first == (
        "64 pictures of 256 pixels and 1 channel to images of 224, by numba, one thread of a "
        "machine, medians of 7 alternating rounds"
    )
    assert second.startswith("copy 13.0 GB/s (read and written); 1 + 4 bytes")
    assert head.split() == ["recipe", "pictures/s", "GB/s", "of", "copy"]
    assert last.split() == ["caffe", "12,346", "9.3", "0.71"]
    report["sources"] = [
        {"source": "jpeg", "pictures_per_second": 2100.4, "share": 0.951, "of": "simplejpeg"}
    ]
    report["training"] = {
        "network": "resnet-50",
        "images_per_second": {"synthetic": 10.0, "decoded": 9.8},
        "share_of_synthetic": 0.98,
        "data_share": 0.004,
        "decoded_per_second": 2100.4,
        "data_cores": 1,
    }
    report["first_batch"] = {
        "files": 60_000,
        "images": 256,
        "with_index": 1.234,
        "without_index": 1.6,
    }
    before, sources, first_batch, training = format_table(report).rsplit("\n\n", 3)
    assert first_batch == (
        "first batch of 256 images of a folder of 60,000 files: 1.23 s from the start of a process "
        "with an index, 1.60 s without one"
    )
    assert before == whole
    assert sources.splitlines()[1].split() == ["jpeg", "2,100", "0.95", "of", "simplejpeg"]
    assert "9.8 images/s on JPEGs, 0.980 of the 10.0 on computed pictures" in training
    assert training.endswith(
        "a core makes 2,100 images/s of JPEGs: such a worker takes 1 data core"
    )
