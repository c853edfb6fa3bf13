from __future__ import annotations

import pytest

from knltrain.communication.collectives.call import described, encoded


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (encoded("barrier", 0), "barrier"),
        (encoded("all_to_all", 0), "all_to_all"),
        (encoded("broadcast", 120, root=2), "broadcast of 120 bytes (root 2)"),
        (encoded("all_reduce", 2**31, "float32", 1), "all_reduce of 2147483648 float32 (mean)"),
        (encoded("reduce", 7, "int64", 7, 4000), "reduce of 7 int64 (xor, root 4000)"),
        (0, "nothing of 0 bytes"),
    ],
)
def test_calls_are_told_in_words(word: int, text: str) -> None:
    assert described(word) == text
    assert 0 <= word < 2**63
