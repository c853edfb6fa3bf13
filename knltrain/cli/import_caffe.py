"""`knltrain import-caffe`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from knltrain.cli.options import PathFromHome
from knltrain.cli.saying import say
from knltrain.errors import ConfigError, unknown_name
from knltrain.files.durable import reason_of, write_whole_bytes


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
@click.option(
    "--solverstate",
    type=PathFromHome(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Go on from this state of Caffe's solver, with its iteration and momentum.",
)
@click.option(
    "--weights",
    type=PathFromHome(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Weights of that state, where they lie elsewhere now.",
)
def import_caffe(
    prototxt: Path,
    out: Path | None,
    data: str | None,
    shape: tuple[int, int, int] | None,
    solverstate: Path | None,
    weights: Path | None,
) -> None:
    """Write a configuration, and a network beside it, for Caffe's solver or net PROTOTXT.

    Of a net alone only the network, a .json. What cannot be kept is refused, with its line.
    """
    out = out or Path(prototxt.stem + ".toml")
    if out.suffix != ".toml":
        raise ConfigError(f"--out {out}: expected a name that ends in .toml")
    network_file = out.with_suffix(".json")
    from knltrain.assembly.names import DATASETS
    from knltrain.interchange.caffe.importing import Resumed
    from knltrain.interchange.caffe.importing import import_caffe as imported_from

    if data is not None and data not in DATASETS:
        raise ConfigError(unknown_name("data.name", data, DATASETS))

    if weights is not None and solverstate is None:
        raise ConfigError(
            "--weights is for --solverstate: set network.weights in the configuration"
        )
    state_file = out.with_name(f"{out.stem}-state.safetensors")
    resumed = None if solverstate is None else Resumed(solverstate, weights, str(state_file))
    found = imported_from(prototxt, str(network_file), data, shape, resumed)
    files = {network_file: found.network_json.encode()}
    if found.optimizer_state is not None:
        files[state_file] = found.optimizer_state
    if found.config_toml is not None:
        files[out] = found.config_toml.encode()
    for path in files:
        if path.exists():
            raise ConfigError(f"{path} exists: give another name with --out")
    for path, content in files.items():
        try:
            _write(path, content)
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
    if found.optimizer_state is not None:
        say(f"{state_file}: the state of its optimizer, from {solverstate}")
    for note in found.notes:
        say(f"  {note}")


def _write(path: Path, content: bytes) -> None:
    try:
        write_whole_bytes(path, [content])
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written ({reason_of(error)}): expected a folder that exists, with "
            "room"
        ) from error
