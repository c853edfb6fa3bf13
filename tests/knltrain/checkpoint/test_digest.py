"""The digest of a file depends on all that is in it, and on nothing else."""

from __future__ import annotations

import numpy as np

from knltrain.checkpoint.digest import DIGEST, digest_of_tensors, digest_of_text

TENSORS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([1, 2], np.int64)}


def test_order_and_layout_and_an_own_digest_do_not_matter():
    metadata = {"step": "3", "seconds": "{}"}
    expected = digest_of_tensors(TENSORS.items(), metadata)
    turned = [("b", TENSORS["b"]), ("a", np.asfortranarray(TENSORS["a"]))]
    assert digest_of_tensors(turned, {**metadata, DIGEST: "x"}) == expected
    assert digest_of_text({"a": 1, "b": 2}) == digest_of_text({"b": 2, "a": 1, DIGEST: "y"})


def test_names_types_shapes_values_and_metadata_matter():
    values = TENSORS["a"]
    others = (
        [("c", values)],
        [("a", values.view(np.int32))],
        [("a", values.reshape(3, 2))],
        [("a", values + 1)],
        [("a", values), ("b", values)],
    )
    found = {digest_of_tensors(each, {}) for each in ([("a", values)], *others)}
    found.add(digest_of_tensors([("a", values)], {"step": "3"}))
    assert len(found) == 7
