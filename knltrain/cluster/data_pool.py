"""The identity of a data pool's process in its run, passed to it by an environment variable."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from knltrain.errors import RunFolderError

VARIABLE = "KNLTRAIN_DATA_POOL"


@dataclass(frozen=True, slots=True)
class DataPoolIdentity:
    """What a data pool's process must know before it can read anything else.

    - `first_rank`, `workers`: it makes batches for so many of the run's `all_workers`, from that
      rank on
    - `threads`: how many fill batches
    - `batches_fd`, `data_fd`, `events_fd`: inherited file descriptors, as those of `WorkerIdentity`
    """

    run_folder: Path
    first_rank: int
    workers: int
    all_workers: int
    threads: int
    events_fd: int
    batches_fd: int
    data_fd: int | None = None

    def to_environment(self) -> dict[str, str]:
        """Return the environment variable from which `data_pool_identity` reads this identity."""
        return {VARIABLE: json.dumps({**asdict(self), "run_folder": str(self.run_folder)})}


def data_pool_identity(environment: Mapping[str, str] | None = None) -> DataPoolIdentity:
    """Return the identity of this process from its environment variable.

    Raises RunFolderError if it is missing or invalid: `knltrain train` has not started the process.
    """
    text = (os.environ if environment is None else environment).get(VARIABLE)
    try:
        fields = json.loads(text or "")
        folder = Path(fields.pop("run_folder"))
        if not all(each is None or (type(each) is int and each >= 0) for each in fields.values()):
            raise ValueError(text)
        return DataPoolIdentity(folder, **fields)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise RunFolderError(
            f"{VARIABLE} is {str(text)[:200]!r}: a data pool's process is started by `knltrain "
            "train`, which writes something else there"
        ) from None
