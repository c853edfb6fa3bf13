"""`knltrain import-onnx`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from knltrain.cli.options import PathFromHome
from knltrain.cli.saying import say
from knltrain.errors import ConfigError
from knltrain.files.durable import reason_of, write_whole_bytes


@click.command("import-onnx")
@click.argument("file", type=PathFromHome(dir_okay=False, path_type=Path))
@click.option(
    "--out",
    type=PathFromHome(dir_okay=False, path_type=Path),
    metavar="NETWORK.json",
    help="File to write; left out: as FILE, in the working folder.",
)
def import_onnx(file: Path, out: Path | None) -> None:
    """Write the network of an ONNX file, .json, and its weights beside it, .safetensors.

    What cannot be kept is refused, with its node.
    """
    out = out or Path(file.stem + ".json")
    if out.suffix != ".json":
        raise ConfigError(f"--out {out}: expected a name that ends in .json")
    weights = out.with_suffix(".safetensors")
    for path in (out, weights):
        if path.exists():
            raise ConfigError(f"{path} exists: give another name with --out")
    from safetensors.numpy import save

    from knltrain.interchange.onnx.importing import from_onnx
    from knltrain.network.description import network_to_json

    found = from_onnx(file)
    try:
        write_whole_bytes(weights, [save(found.parameters.views)])
        write_whole_bytes(out, [network_to_json(found.network).encode()])
    except BaseException as error:
        for path in (out, weights):  # None was there before.
            with suppress(OSError):
                path.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise ConfigError(
            f"{out} cannot be written ({reason_of(error)}): expected a folder that exists, with "
            "room"
        ) from error
    count = found.network.parameter_count
    say(f"{out}: network '{found.network.name}', {count:,} parameters")
    say(
        f"{weights}: its weights; train it with `knltrain train CONFIG --set network.name={out} "
        f"--set network.weights={weights}`"
    )
