"""Files that may come from strangers, or be damaged: runs, checkpoints, images, kernels."""

from __future__ import annotations

import gzip
import json
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from safetensors.numpy import save

from knltrain.checkpoint.contents import WITHOUT_DIGESTS, RunIdentity
from knltrain.checkpoint.reader import load_checkpoint, load_worker_state
from knltrain.config.reading import load_config
from knltrain.confusion import confusion_from_csv
from knltrain.data.idx import read_idx
from knltrain.errors import CheckpointError, DataError, KnltrainError, RunFolderError
from knltrain.launch.run_folder import read_config
from knltrain.metrics import read_metrics
from knltrain.network.zoo.lenet import lenet
from knltrain.report import draw_curves, summary
from vectorized_ops.numba.compiling import autotuning
from vectorized_ops.numba.compiling.cache_folder import CacheFolder

from ..small_run import RUN_TOML
from .rounds import altered, bounded_memory, fuzzed

RUN = f'name = "run"{RUN_TOML}[exchange]\nmethod = "sync_easgd"\n'.encode()


@fuzzed(altered([RUN, b"a = {b = [1, {c = 2}]}\n", b"a.b.c = 1\n[a.d]\n"]), examples=100)
def test_run_description(folder: Path, text: bytes) -> None:
    path = folder / "config.toml"
    path.write_bytes(text)
    with suppress(KnltrainError):
        load_config(path)
    with suppress(KnltrainError):
        read_config(folder)


@fuzzed(altered([b"train.epochs=5", b"data.root='x'", b"a.b=[1, 2]", b"workers=auto"]))
def test_override(folder: Path, text: bytes) -> None:
    path = folder / "run.toml"
    path.write_bytes(RUN)
    with suppress(KnltrainError):
        load_config(path, [text.decode("utf-8", "replace")])


IDX = struct.pack(">4B3I", 0, 0, 8, 3, 2, 4, 4) + bytes(32)


@fuzzed(altered([IDX, gzip.compress(IDX, mtime=0), struct.pack(">4BI", 0, 0, 8, 1, 0)]))
def test_images(folder: Path, content: bytes) -> None:
    path = folder / "train-images-idx3-ubyte"
    path.write_bytes(content)
    with suppress(KnltrainError):
        assert read_idx(path).nbytes < 10 * len(content) + 1000


RESULT = {
    "method": "sync_easgd",
    "images_per_second": 1000.0,
    "exchange_share": 0.1,
    "workers": 2,
    "test_accuracy": 0.9,
    "test_images": 100,
    "test_loss": 0.1,
    "test_top5_accuracy": 0.99,
    "test_class_accuracy": [0.8, None, 0.9],
    "class_names": ["cat", "dog", "eel"],
}
METRICS = (
    b'{"kind": "train", "step": 1, "epoch": 0.5, "loss": 2.0}\n'
    b'{"kind": "test", "step": 1, "accuracy": 0.5, "loss": 1.0}\n'
    b'{"kind": "train", "step": 2, "epoch": 1.0, "loss": 1.0}\n'
)


@fuzzed(altered([json.dumps(RESULT).encode()]))
def test_result_of_a_run(folder: Path, text: bytes) -> None:
    (folder / "result.json").write_bytes(text)
    with suppress(KnltrainError):
        summary(folder)


@fuzzed(altered([b"1,2\n3,4\n", b',cat,"a, b"\ncat,3,4\n"a, b",0,9\n']))
def test_confusion_of_a_run(folder: Path, text: bytes) -> None:
    (folder / "confusion.csv").write_bytes(text)
    with suppress(KnltrainError):
        confusion_from_csv(folder / "confusion.csv")


@fuzzed(altered([METRICS]), examples=100)
def test_metrics_of_a_run(folder: Path, text: bytes) -> None:
    path = folder / "metrics-0.jsonl"
    path.write_bytes(text)
    with suppress(KnltrainError):
        read_metrics(path)


NETWORK = lenet()
STATE = {
    "format": 3,
    "step": 3,
    "seed": 0,
    "workers": 1,
    "method": "sync_easgd",
    "network": NETWORK.name,
    "parameters": {each.name: list(each.shape) for each in NETWORK.parameters},
}
SMALL = save({"a": np.zeros(3, np.float32)}, {"step": "3", "seconds": '{"train": 1.0}'})


def checkpoint(folder: Path, **files: bytes) -> Path:
    path = folder / "checkpoint-3"
    path.mkdir(exist_ok=True)
    for name, content in files.items():
        (path / name.replace("_", ".", 1)).write_bytes(content)
    return path


@fuzzed(altered([json.dumps(STATE).encode()]))
def test_state_of_a_checkpoint(folder: Path, text: bytes) -> None:
    path = checkpoint(folder, state_json=text, center_safetensors=SMALL)
    with suppress(KnltrainError):
        load_checkpoint(path, NETWORK)


@fuzzed(altered([SMALL, struct.pack("<Q", 2**40) + SMALL[8:]]), examples=100)
def test_tensors_of_a_checkpoint(folder: Path, content: bytes) -> None:
    path = checkpoint(folder, state_json=json.dumps(STATE).encode(), center_safetensors=content)
    with suppress(KnltrainError):
        load_checkpoint(path, NETWORK)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@fuzzed(st.dictionaries(st.sampled_from(list(STATE)), JSON, min_size=1))
def test_state_whose_values_are_of_any_type(folder: Path, changed: dict[str, Any]) -> None:
    text = json.dumps({**STATE, **changed}).encode()
    path = checkpoint(folder, state_json=text, center_safetensors=SMALL)
    with suppress(KnltrainError):
        load_checkpoint(path, NETWORK)


@fuzzed(altered([b"3", b'{"train": 1.0}', b""]))
def test_words_of_a_workers_file(folder: Path, text: bytes) -> None:
    center = np.zeros(3, np.float32)
    words = text.decode("utf-8", "replace")
    path = checkpoint(folder)
    found = _Found(path, center)
    identity = RunIdentity(NETWORK, 1, "sync_easgd", 0)
    for metadata in ({"step": words}, {"step": "3", "seconds": words}):
        (path / "worker-0.safetensors").write_bytes(save({"local": center}, metadata))
        with suppress(KnltrainError):
            state = load_worker_state(found, 0, identity=identity, optimizer_state={})
            assert isinstance(state.seconds, dict)


class _Found:
    """A checkpoint that was found whole."""

    def __init__(self, folder: Path, packed: Any) -> None:
        self.folder, self.step, self.seed, self.workers, self.method = folder, 3, 0, 1, "sync_easgd"
        self.format = WITHOUT_DIGESTS  # with digests hardly anything would be read further
        self.center = self
        self.packed = packed


@fuzzed(altered([b'{"name": "a", "seconds": {"a": 1.0, "b": 2.0}}']))
def test_choice_of_a_kernel(folder: Path, text: bytes) -> None:
    path = folder / "choice.json"
    path.write_bytes(text)
    found = autotuning._read(path, ["a", "b"])
    assert found is None or found.name in ("a", "b")


@fuzzed(st.binary(max_size=100))
def test_entry_of_the_kernel_cache(folder: Path, content: bytes) -> None:
    """Nothing is unpickled whose checksum is not right."""
    cache = CacheFolder(folder / "kernels" / "0")
    cache.write("a", b"")
    (cache.path / "a.kernel").write_bytes(content)
    assert cache.read("a") is None


@pytest.mark.parametrize(
    "text", [b"[" * 100_000, b"[]", b"{}", b"\xff", b'{"method": 1}', b"9" * 5000]
)
def test_result_that_once_ended_in_a_traceback(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "result.json").write_bytes(text)
    with pytest.raises(RunFolderError, match=r"result\.json"):
        summary(tmp_path)


@pytest.mark.parametrize("line", [b"[" * 100_000, b"[]", b"\xff", b"1"])
def test_metrics_that_once_ended_in_a_traceback(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "metrics-0.jsonl"
    path.write_bytes(line + b"\n" + METRICS)
    with pytest.raises(RunFolderError, match=r"metrics-0\.jsonl"):
        read_metrics(path)


@pytest.mark.parametrize(
    "record", [b"{}", b'{"kind": "other"}', b'{"kind": "train", "step": "a", "loss": 1}']
)
def test_records_that_no_run_writes_are_not_drawn(tmp_path: Path, record: bytes) -> None:
    (tmp_path / "metrics-0.jsonl").write_bytes(METRICS + record + b"\n")
    with pytest.raises(RunFolderError, match="expected records of steps and losses"):
        draw_curves(tmp_path)


@pytest.mark.parametrize("text", [b"a = " + b"[" * 5000, b"a = " + b"9" * 5000])
def test_description_that_once_ended_in_a_traceback(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "run.toml").write_bytes(text)
    with pytest.raises(KnltrainError, match=r"run\.toml"):
        load_config(tmp_path / "run.toml")


def test_images_of_many_dimensions_and_those_that_unpack_without_end_are_refused(
    tmp_path: Path,
) -> None:
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(struct.pack(">4B255I", 0, 0, 8, 255, *[0] * 255))
    with pytest.raises(DataError, match="has 255 dimensions, expected at most 4"):
        read_idx(path)
    path.write_bytes(gzip.compress(IDX + bytes(2**27), 1))
    with pytest.raises(DataError, match="bytes follow the 48"), bounded_memory(2**26):
        read_idx(path)


@pytest.mark.parametrize(
    ("key", "value"), [("step", "3"), ("seed", None), ("workers", True), ("method", 1)]
)
def test_state_of_another_type_is_damage(tmp_path: Path, key: str, value: Any) -> None:
    text = json.dumps({**STATE, key: value}).encode()
    path = checkpoint(tmp_path, state_json=text, center_safetensors=SMALL)
    with pytest.raises(CheckpointError, match=rf"state\.json: cannot be read \({key} = "):
        load_checkpoint(path, NETWORK)
