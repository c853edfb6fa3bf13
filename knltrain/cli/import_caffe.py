"""`knltrain import-caffe`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from knltrain.cli.options import PathFromHome
from knltrain.cli.saying import say
from knltrain.errors import ConfigError, unknown_name
from knltrain.files.durable import reason_of, write_whole


class ImageShape(click.ParamType):  # type: ignore[type-arg]
    """HEIGHTxWIDTHxCHANNELS."""

    name = "shape"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Three whole numbers above 0."""
        parts = str(value).split("x")
        if len(parts) != 3 or not all(part.isdecimal() and int(part) for part in parts):
            self.fail(f"'{value}': expected HEIGHTxWIDTHxCHANNELS, as 227x227x3", param, ctx)
        return tuple(int(part) for part in parts)


@click.command("import-caffe")
@click.argument("prototxt", type=PathFromHome(path_type=Path))
@click.option(
    "--out",
    type=PathFromHome(dir_okay=False, path_type=Path),
    metavar="CONFIG.toml",
    help="File to write; left out: as PROTOTXT, in the working folder.",
)
@click.option("--data", metavar="NAME", help="Data set to train on, where the net's is not here.")
@click.option(
    "--input",
    "shape",
    type=ImageShape(),
    metavar="HxWxC",
    help="Shape of its images, where the net does not tell it.",
)
def import_caffe(
    prototxt: Path, out: Path | None, data: str | None, shape: tuple[int, int, int] | None
) -> None:
    """Write a configuration, and a network beside it, for Caffe's solver or net PROTOTXT.

    Of a net alone only the network, a .json. What cannot be kept is refused, with its line.
    """
    out = out or Path(prototxt.stem + ".toml")
    if out.suffix != ".toml":
        raise ConfigError(f"--out {out}: expected a name that ends in .toml")
    network_file = out.with_suffix(".json")
    from knltrain.assembly.names import DATASETS
    from knltrain.interchange.caffe.importing import import_caffe as imported_from

    if data is not None and data not in DATASETS:
        raise ConfigError(unknown_name("data.name", data, DATASETS))

    found = imported_from(prototxt, str(network_file), data, shape)
    files = {network_file: found.network_json}
    if found.config_toml is not None:
        files[out] = found.config_toml
    for path in files:
        if path.exists():
            raise ConfigError(f"{path} exists: give another name with --out")
    for path, text in files.items():
        try:
            _write(path, text)
        except BaseException:
            for each in files:  # None was there before.
                each.unlink(missing_ok=True)
            raise
    say(
        f"{network_file}: network '{found.network.name}', "
        f"{found.network.parameter_count:,} parameters"
    )
    if found.config_toml is not None:
        say(f"{out}: the run; start it with `knltrain train {out}`")
    else:
        say(f"no solver: train it with `knltrain train CONFIG --set network.name={network_file}`")
    for note in found.notes:
        say(f"  {note}")


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, text)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written ({reason_of(error)}): expected a folder that exists, with "
            "room"
        ) from error
