"""A column of parquet files, row by row; the row groups that were read last are kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Final, final

import numpy as np

from knltrain.errors import DataError
from knltrain.files.durable import reason_of

_MOST_KEPT_BYTES: Final = 2**28
"""Of row groups in memory; the last one is kept, whatever its size."""


@final
class RowGroups:
    """A column of binary values of several files, row after row; threads may read at once."""

    def __init__(
        self, paths: Sequence[Path], files: Sequence[Any], column: str, field: str
    ) -> None:
        self._files, self._paths = files, paths
        self._column, self._field = column, field
        self._groups = [
            (number, group)
            for number, file in enumerate(files)
            for group in range(file.metadata.num_row_groups)
        ]
        rows = [files[file].metadata.row_group(group).num_rows for file, group in self._groups]
        self._begins = np.cumsum([0, *rows])
        self._kept: OrderedDict[int, Any] = OrderedDict()
        self._lock = Lock()

    def value(self, row: int) -> memoryview:
        """The bytes of a row, empty where there are none; DataError where the file is damaged."""
        group = int(np.searchsorted(self._begins, row, side="right")) - 1
        value = self._read(group)[row - int(self._begins[group])]
        return memoryview(value.as_buffer() or b"") if value.is_valid else memoryview(b"")

    def place(self, row: int) -> tuple[Path, int]:
        """The file of a row, and its number there."""
        file, _ = self._groups[int(np.searchsorted(self._begins, row, side="right")) - 1]
        first = next(index for index, each in enumerate(self._groups) if each[0] == file)
        return self._paths[file], row - int(self._begins[first])

    def _read(self, group: int) -> Any:
        with self._lock:
            if group in self._kept:
                self._kept.move_to_end(group)
                return self._kept[group]
            file, number = self._groups[group]
            try:
                table = self._files[file].read_row_group(number, [f"{self._column}.{self._field}"])
                values = table.column(self._column).combine_chunks().field(self._field)
                if len(values) != (rows := int(self._begins[group + 1] - self._begins[group])):
                    raise ValueError(f"it has {len(values)} of {rows} rows")
            except (OSError, ValueError) as error:  # pyarrow's own are of these kinds
                raise DataError(
                    f"{self._paths[file]}: row group {number} cannot be read ({reason_of(error)}): "
                    "fetch the file again"
                ) from error
            self._kept[group] = values
            while len(self._kept) > 1 and self._bytes() > _MOST_KEPT_BYTES:
                self._kept.popitem(last=False)
            return values

    def _bytes(self) -> int:
        return sum(values.nbytes for values in self._kept.values())
