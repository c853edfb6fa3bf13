from __future__ import annotations

from pathlib import Path

import pytest

from knltrain.communication.rendezvous.key_value_store import InMemoryStore, KeyValueStore
from knltrain.communication.rendezvous.torch_store import TorchStore


@pytest.fixture(params=["memory", "torch"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> KeyValueStore:
    if request.param == "memory":
        return InMemoryStore()
    dist = pytest.importorskip("torch.distributed")
    return TorchStore(dist.HashStore())


def test_a_word_is_found_once_it_is_there(store):
    assert store.get("a b") is None
    store.put("a b", "wörd = 1")
    assert store.get("a b") == "wörd = 1"
    assert store.get("a") is None


def test_an_empty_word_is_a_word(store):
    store.put("key", "")
    assert store.get("key") == ""
