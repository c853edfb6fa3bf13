"""Results of `knltrain bench data` as a table."""

from __future__ import annotations

from typing import Any

from affinity.cli.layout import columns

_HEAD = ("recipe", "pictures/s", "GB/s", "of copy")


def format_table(report: dict[str, Any]) -> str:
    """Return the report as text."""
    channels = "channel" if report["channels"] == 1 else "channels"
    rows = [
        (
            row["recipe"],
            f"{row['pictures_per_second']:,.0f}",
            f"{row['gbytes_per_second']:.1f}",
            f"{row['share_of_copy']:.2f}",
        )
        for row in report["rows"]
    ]
    return "\n".join(
        (
            f"{report['images']} pictures of {report['picture_pixels']} pixels and "
            f"{report['channels']} {channels} to images of {report['side_pixels']}, by "
            f"{report['implementation']}, one thread of {report['machine']}, medians of "
            f"{report['rounds']} alternating rounds",
            f"copy {report['copy_gbytes_per_second']:.1f} GB/s (read and written); 1 + 4 bytes of "
            "each value count",
            "",
            *columns([_HEAD, *rows], right=range(1, len(_HEAD))),
        )
    )
