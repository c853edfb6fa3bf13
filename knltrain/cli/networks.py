"""`knltrain networks`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from knltrain.cli.options import PathFromHome, as_json_option
from knltrain.cli.saying import say
from knltrain.errors import ConfigError
from knltrain.files.durable import reason_of


@click.command()
@click.argument("name", required=False)
@click.option(
    "--picture",
    type=PathFromHome(dir_okay=False, writable=True, path_type=Path),
    help="Draw the network NAME into this file: .svg.",
)
@as_json_option
def networks(name: str | None, picture: Path | None, as_json: bool) -> None:
    """List the networks with their size, work and memory, or the layers of NAME.

    NAME is a network, or a file that describes one, as network.json.
    """
    from knltrain.network.drawing import network_to_svg
    from knltrain.network.summary import (
        format_layers,
        format_networks,
        layer_summaries,
        summary,
    )
    from knltrain.network.zoo.networks import NETWORKS, network_named

    if name is None:
        if picture is not None:
            raise ConfigError("--picture draws one network: expected its NAME")
        found = [summary(make()) for make in NETWORKS.values()]
        say(json.dumps(found, indent=2) if as_json else format_networks(found))
        return
    network = network_named(name)
    if picture is not None:
        _write(picture, network_to_svg(network))
    whole, layers = summary(network), layer_summaries(network)
    if as_json:
        say(json.dumps({**whole, "layers": layers}, indent=2))
    else:
        say("\n".join((format_layers(layers), "", format_networks([whole]))))


def _write(picture: Path, svg: str) -> None:
    if picture.suffix != ".svg":
        raise ConfigError(f"--picture {picture}: expected a name that ends in .svg")
    try:
        picture.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"--picture {picture}: it cannot be written ({reason_of(error)}); expected a folder "
            "that exists, with room"
        ) from error
