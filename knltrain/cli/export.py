"""`knltrain export`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from knltrain.cli.options import PathFromHome
from knltrain.cli.saying import say
from knltrain.errors import ConfigError
from knltrain.files.durable import reason_of, write_whole_bytes

if TYPE_CHECKING:
    from knltrain.launch.trained_model import TrainedModel

_Files: TypeAlias = Mapping[Path, Iterable["bytes | memoryview"]]


@click.command()
@click.argument("source", metavar="RUN|NETWORK")
@click.option(
    "--out",
    type=PathFromHome(dir_okay=False, path_type=Path),
    metavar="FILE",
    required=True,
    help="File to write: .prototxt, with a .caffemodel beside it, or .onnx.",
)
@click.option(
    "--weights",
    type=PathFromHome(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Weights of NETWORK: .safetensors, .pt, .caffemodel.",
)
@click.option("--classes", type=click.IntRange(2), help="Classes of NETWORK.")
@click.option("--opencv", is_flag=True, help="Caffe's files as OpenCV reads them.")
def export(source: str, out: Path, weights: Path | None, classes: int | None, opencv: bool) -> None:
    """Write a trained network for other programs: as files of Caffe, or as ONNX.

    RUN is a run's folder, whose newest checkpoint is taken, or a checkpoint in it; NETWORK a name
    or file of a network. How images are made of pictures is written beside it, if the run tells.
    """
    makers = {".prototxt": _caffe, ".onnx": _onnx}
    if out.suffix not in makers:
        raise ConfigError(f"--out {out}: expected a name that ends in .prototxt or .onnx")
    if opencv and out.suffix != ".prototxt":
        raise ConfigError("--opencv is for a .prototxt: leave it out, OpenCV reads .onnx as it is")
    from knltrain.launch.trained_model import trained_model

    model = trained_model(source, weights, classes)
    for note in model.notes:
        click.echo(f"note: {note}", err=True)
    files, notes = makers[out.suffix](model, out, opencv)
    beside: _Files = {}
    if model.preprocessing is not None:
        text = model.preprocessing.to_json()
        beside = {out.with_suffix(".preprocessing.json"): [text.encode()]}
    _write({**files, **beside})
    for path in files:
        say(f"{path}: network '{model.network.name}' with the weights of {model.origin}")
    for path in beside:
        say(f"{path}: how pictures become images, and names of classes")
    for note in notes:
        say(f"  {note}")


def _caffe(model: TrainedModel, out: Path, opencv: bool) -> tuple[_Files, tuple[str, ...]]:
    from knltrain.interchange.caffe.exporting import caffe_files

    found = caffe_files(model.network, model.parameters, opencv)
    text, model_file = found.prototxt, out.with_suffix(".caffemodel")
    if model.preprocessing is not None:
        from knltrain.interchange.caffe.transforming import transform_comment

        text = transform_comment(model.preprocessing) + text
    files: _Files = {out: [text.encode()], model_file: found.caffemodel}
    return files, found.notes


def _onnx(model: TrainedModel, out: Path, _opencv: bool) -> tuple[_Files, tuple[str, ...]]:
    from knltrain.interchange.onnx.exporting import onnx_file

    known = model.preprocessing
    metadata = {} if known is None else {"preprocessing": known.to_json()}
    return {out: [onnx_file(model.network, model.parameters, metadata)]}, ()


def _write(files: _Files) -> None:
    for path in files:
        if path.exists():
            raise ConfigError(f"{path} exists: give another name with --out")
    for path, parts in files.items():
        try:
            write_whole_bytes(path, parts)
        except BaseException as error:
            for each in files:  # None was there before.
                with suppress(OSError):
                    each.unlink(missing_ok=True)
            if not isinstance(error, OSError):
                raise
            raise ConfigError(
                f"{path} cannot be written ({reason_of(error)}): expected a folder that exists, "
                "with room"
            ) from error
