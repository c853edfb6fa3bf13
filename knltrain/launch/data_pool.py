"""The main function of a data pool's process: it fills batches until all workers have left."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from affinity import PlacementError, bind_thread, own_placement
from affinity.standard_streams import secure_standard_streams
from knltrain.assembly.data_pool import build_pool
from knltrain.cluster.data_pool import DataPoolIdentity, data_pool_identity
from knltrain.config import RunConfig
from knltrain.errors import KnltrainError
from knltrain.launch.events import EventWriter
from knltrain.launch.run_folder import read_config
from vectorized_ops.numba.compiling.single_thread import alone


def main() -> int:
    """Run the pool to its end; returns the exit code. A failure's traceback goes to the log."""
    identity = data_pool_identity()
    events = EventWriter(identity.events_fd)
    try:
        fill_batches(read_config(identity.run_folder), identity)
    except BatchFailed as failure:
        return _failed(events, failure.cause, failure.step)
    except Exception as error:  # noqa: BLE001  (whatever it is, the parent must hear of it)
        return _failed(events, error)
    events.send_skipped()
    events.send("done", result={})
    return 0


class BatchFailed(Exception):  # noqa: N818
    """The batch of a `step` could not be filled, because of `cause`."""

    def __init__(self, cause: Exception, step: int) -> None:
        super().__init__(str(cause))
        self.cause, self.step = cause, step


def fill_batches(config: RunConfig, identity: DataPoolIdentity) -> None:
    """Fill batches until all workers have left.

    Raises what building the pool raises, and BatchFailed.
    """
    pool = build_pool(config, identity, _bound)
    try:
        pool.run()
    except Exception as error:
        if pool.failed_at is None:
            raise
        raise BatchFailed(error, pool.failed_at[1] // config.train.iter_size) from error


@contextmanager
def _bound(number: int) -> Iterator[None]:
    """Keep this thread on its core, and kernels that it calls in this thread."""
    place = own_placement()
    if place is not None and place.cores:
        with suppress(PlacementError):  # a filter may forbid it; its process has the cores
            bind_thread(place.cores[number % len(place.cores)])
    with alone():
        yield


def _failed(events: EventWriter, error: Exception, step: int | None = None) -> int:
    print("".join(traceback.format_exception(error)), file=sys.stderr)
    kind = type(error).__name__
    code = error.exit_code if isinstance(error, KnltrainError) else 1
    message = str(error) if isinstance(error, KnltrainError) else f"{kind}: {error}"
    events.send("error", kind=kind, message=message, step=step, exit_code=code)
    return code


if __name__ == "__main__":
    secure_standard_streams()
    sys.exit(main())
