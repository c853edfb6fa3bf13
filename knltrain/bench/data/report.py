"""Results of `knltrain bench data` as a table."""

from __future__ import annotations

from typing import Any

from affinity.cli.layout import columns

_HEAD = ("recipe", "pictures/s", "GB/s", "of copy")


def format_table(report: dict[str, Any]) -> str:
    """Return the report as text."""
    sections = [_recipes(report)]
    if report.get("sources"):
        sections.append(_sources(report["sources"]))
    if report.get("first_batch"):
        sections.append(_first_batch(report["first_batch"]))
    if report.get("training"):
        sections.append(_training(report["training"]))
    return "\n\n".join(sections)


def _sources(rows: list[dict[str, Any]]) -> str:
    told = [
        (row["source"], f"{row['pictures_per_second']:,.0f}", f"{row['share']:.2f} of {row['of']}")
        for row in rows
    ]
    return "\n".join(columns([("source", "pictures/s", "share"), *told], right=(1,)))


def _first_batch(found: dict[str, Any]) -> str:
    return (
        f"first batch of {found['images']} images of a folder of {found['files']:,} files: "
        f"{found['with_index']:.2f} s from the start of a process with an index, "
        f"{found['without_index']:.2f} s without one"
    )


def _training(found: dict[str, Any]) -> str:
    rates, cores = found["images_per_second"], found["data_cores"]
    return (
        f"training of {found['network']} in one thread, a data core beside it: "
        f"{rates['decoded']:.1f} images/s on JPEGs, {found['share_of_synthetic']:.3f} of the "
        f"{rates['synthetic']:.1f} on computed pictures; without a batch "
        f"{found['data_share']:.1%} of the time\n"
        f"a core makes {found['decoded_per_second']:,.0f} images/s of JPEGs: such a worker takes "
        f"{cores} data core{'s' * (cores > 1)}"
    )


def _recipes(report: dict[str, Any]) -> str:
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
