"""The commands of knltrain, one file for each: `knltrain bench step` is in `bench.step`.

A command's file is imported when the command is asked for, and heavy modules inside the command, so
that --help and --version answer at once.
"""

from __future__ import annotations

import sys

import click

from affinity.errors import AffinityError
from affinity.standard_streams import secure_standard_streams
from knltrain import __version__
from knltrain.cli.on_demand import OnDemandGroup
from knltrain.cli.saying import say
from knltrain.cluster.variables import check_compiling_settings
from knltrain.errors import BAD_INPUT, SIGNALLED, KnltrainError
from knltrain.files.durable import reason_of
from vectorized_ops.errors import OperationError

_SIGINT = 2
_NAMES = (
    "train",
    "launch",
    "profile",
    "report-scaling",
    "warmup",
    "data",
    "pack",
    "evaluate",
    "predict",
    "doctor",
    "topology",
    "methods",
    "networks",
    "import-caffe",
    "import-onnx",
    "export",
    "bench",
)


def main() -> None:
    """Run the command line and exit; every error that we know of becomes one line."""
    secure_standard_streams()
    try:
        sys.exit(commands(prog_name="knltrain", standalone_mode=False))
    except click.ClickException as error:
        error.show(sys.stderr)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _fail("stopped by SIGINT", SIGNALLED + _SIGINT)
    except KnltrainError as error:
        _fail(str(error), error.exit_code)
    except (AffinityError, OperationError) as error:
        _fail(str(error), BAD_INPUT)
    except OSError as error:
        if error.filename is None:
            raise
        _fail(
            f"{error.filename}: {reason_of(error)}: expected a file or a folder that this user may "
            "read and write",
            BAD_INPUT,
        )
    except MemoryError as error:
        _fail(
            f"there is no memory for this ({error or 'none is left'}): ask for less at a time, or "
            "for more memory",
            BAD_INPUT,
        )


def _fail(message: str, exit_code: int) -> None:
    say(f"error: {message}", error=True)
    sys.exit(exit_code)


@click.group(
    cls=OnDemandGroup,
    package=__name__,
    names=_NAMES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="knltrain")
def commands() -> None:
    """Train convolutional networks on many-core CPUs."""
    check_compiling_settings()
