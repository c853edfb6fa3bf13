"""What is found out about a run before anything of it is started."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save_file

from knltrain.assembly import (
    build_network,
    check_classes,
    check_data,
    check_resumable,
    check_run,
    check_weights,
    names,
)
from knltrain.assembly.whole_run import newest_checkpoint, starting_parameters
from knltrain.config import DataConfig
from knltrain.data import extent, synthetic
from knltrain.data.contents import DataContents, HalfContents
from knltrain.errors import CheckpointError, ConfigError, DataError, KnltrainError, NetworkError
from knltrain.network.description import network_to_json
from knltrain.network.layers import BatchNormalisation, Convolution, Dense
from knltrain.network.network import Network


def test_length_is_that_of_the_worker(config, make_worker, tmp_path):
    for chosen in (config(workers=1), config(workers=1, train__steps=None, train__epochs=3)):
        with make_worker(chosen, tmp_path) as worker:
            assert check_run(chosen).total_steps == worker.progress.total_steps


def test_batch_larger_than_the_training_set_is_refused(config):
    with pytest.raises(DataError, match="batch of 48 images is larger than the 32"):
        check_run(config(workers=1, train__batch=48))


def test_network_that_does_not_fit_the_data_is_refused(config, monkeypatch):
    network = Network("small", (8, 8, 1), (Dense("out", 10),))
    monkeypatch.setitem(names.NETWORKS, "lenet", lambda: network)
    with pytest.raises(ConfigError, match=r"\(28, 28, 1\).*takes \(8, 8, 1\)"):
        check_run(config(workers=1))


def test_a_network_of_a_file_is_not_told_to_have_other_classes(config, tmp_path):
    network = Network("own", (28, 28, 1), (Dense("out", 12),))
    (tmp_path / "own.json").write_text(network_to_json(network))
    with pytest.raises(ConfigError, match=r"network.name, or give the network 10 outputs$"):
        check_run(config(workers=1, network__name=str(tmp_path / "own.json")))


@pytest.mark.parametrize(
    ("network", "data", "ways"),
    [
        ("googlenet", {"name": "digits"}, "network.name, or set network.classes = 10$"),
        (
            "googlenet",
            {"name": "synthetic", "train_images": 8, "test_images": 8},
            "network.name, or set data.side_pixels = 224, or set network.classes = 10$",
        ),
        ("cifar-quick", {"name": "digits"}, "choose another data.name or network.name$"),
    ],
)
def test_ways_to_make_data_fit_are_those_that_would(config, network, data, ways):
    chosen = config(workers=1, network__name=network)
    with pytest.raises(ConfigError, match=ways):
        check_run(chosen.model_copy(update={"data": DataConfig(**data)}))


def _starting(chosen):
    return starting_parameters(chosen, build_network(chosen))


def test_weights_of_a_file_are_those_that_a_run_starts_from(config, tmp_path):
    file = tmp_path / "a.safetensors"
    kept = _starting(config(seed=3))
    assert check_weights(config(seed=3)) == ()
    save_file({**kept.views, "other": kept.views["ip2.bias"]}, file)
    chosen = config(seed=4, network__weights=str(file))
    drawn, found = _starting(config(seed=4)), _starting(chosen)
    assert not np.array_equal(drawn.packed, kept.packed)
    assert np.array_equal(found.packed, kept.packed)
    assert check_weights(chosen) == (f"{file}: other not used by the network",)
    part = config(seed=4, network__weights=str(file), network__new_layers=["ip*"])
    views = _starting(part).views
    assert np.array_equal(views["conv1.weights"], kept.views["conv1.weights"])
    assert np.array_equal(views["ip1.weights"], drawn.views["ip1.weights"])
    assert check_weights(config()) == ()


def test_weights_that_do_not_fit_are_refused(config, tmp_path):
    with pytest.raises(NetworkError, match="there is no such file"):
        check_weights(config(network__weights=str(tmp_path / "none.pt")))


def test_period_that_the_method_does_not_know_is_refused(config):
    with pytest.raises(ConfigError, match=r"exchange.communication_period = 2"):
        check_run(config(workers=1, exchange__method="sync_sgd", exchange__communication_period=2))


def test_slices_that_a_network_cannot_be_given_are_refused(config, monkeypatch):
    layers = Convolution("conv", 4, 3), BatchNormalisation("norm"), Dense("out", 10)
    network = Network("normalised", (28, 28, 1), layers)
    monkeypatch.setitem(names.NETWORKS, "lenet", lambda: network)
    chosen = {"workers": 1, "backend__name": "cpu"}
    with pytest.raises(ConfigError, match=r"backend.micro_batch = 8 .* 16 images .*layer 'norm'"):
        check_run(config(backend__micro_batch=8, **chosen))
    for fitting in (0, 16, "auto"):
        assert check_run(config(backend__micro_batch=fitting, **chosen)).total_steps == 5


def test_memory_is_foreseen_for_slices(config):
    needs = [
        check_run(config(workers=1, backend__name="cpu", train__batch=32, backend__micro_batch=n))
        for n in (0, 16, "auto")
    ]
    whole, slices, auto = (size.needs[0].bytes for size in needs)
    assert slices < whole == auto


def test_run_can_go_on_with_what_it_was(config, run, tmp_path):
    chosen = config(workers=1, train__steps=3)
    with pytest.raises(CheckpointError, match="no checkpoint to resume from"):
        check_resumable(chosen, tmp_path, 3)
    run(chosen, tmp_path)
    check_resumable(chosen, tmp_path, 3)
    with pytest.raises(ConfigError, match=r"end after 2 steps.* at step 3"):
        check_resumable(chosen, tmp_path, 2)
    with pytest.raises(CheckpointError, match=r"seed = 1, but seed = 2 was asked for"):
        check_resumable(config(workers=1, seed=2), tmp_path, 3)


def test_run_whose_workers_keep_outer_momentum_stays_on_as_many_nodes(config, run, tmp_path):
    way = {"exchange__method": "diloco", "exchange__communication_period": 1}
    chosen = config(workers=1, train__steps=3, **way)
    run(chosen, tmp_path)
    check_resumable(chosen, tmp_path, 3, nodes_before=1)
    with pytest.raises(CheckpointError, match=r"nodes = 1: in .* between 2 nodes: resume with"):
        check_resumable(chosen, tmp_path, 3, nodes_before=2)


def test_run_goes_on_with_the_data_that_it_has_learned_from(config, run, tmp_path):
    chosen = config(workers=1, train__steps=3)
    run(chosen, tmp_path)
    fewer = chosen.model_copy(update={"data": DataConfig(name="digits", train_images=48)})
    same, other = (check_run(each).data for each in (chosen, fewer))
    assert check_resumable(chosen, tmp_path, 3, same) == []
    expected = (
        r"checkpoint-3: the run has learned from 'digits' with 32 images .* and 20 .* but now "
        r"there is 'digits' with 48 images .* and 359 [^:]*: give --accept-other-data"
    )
    with pytest.raises(CheckpointError, match=expected):
        check_resumable(chosen, tmp_path, 3, other)
    (note,) = check_resumable(chosen, tmp_path, 3, other, accepts_other_data=True)
    assert "has learned from 'digits' with 32" in note
    assert "takes 'digits' with 48" in note
    (note,) = check_resumable(chosen, tmp_path, 3)
    assert "does not tell which data" in note


@pytest.mark.parametrize(
    ("learned_from", "way"),
    [
        ("mnist", "give the folder of the same files by --set data.root=FOLDER, or --accept"),
        ("mnist-t10k", "give the folder of the same files by --set data.root=FOLDER, or --accept"),
        ("synthetic", "give the same data by --set data.name=synthetic, or --accept"),
        ("digits", "give --accept"),
    ],
)
def test_ways_to_the_same_data_are_those_that_there_are(config, run, tmp_path, learned_from, way):
    half = HalfContents(9, (28, 28, 1), "0" * 32)
    chosen = config(workers=1, train__steps=1)
    run(chosen, tmp_path)
    kept = newest_checkpoint(tmp_path, build_network(chosen))
    kept = replace(kept, data=DataContents(learned_from, half, half))
    with pytest.raises(CheckpointError, match=f": {way}"):
        check_data(kept, check_run(chosen).data)


def test_run_goes_on_from_the_checkpoint_before_a_damaged_one(config, run, tmp_path):
    chosen = config(workers=1, train__steps=4, checkpoint__every_epochs=1)
    run(chosen, tmp_path)
    data = check_run(chosen).data
    damaged = tmp_path / "checkpoint-4" / "center.safetensors"
    content = bytearray(damaged.read_bytes())
    content[-9] ^= 4
    damaged.write_bytes(content)
    for refused, steps in ((config(workers=1, seed=2), 4), (chosen, 1)):
        with pytest.raises(KnltrainError, match=r"seed = 2|already at step 2"):
            check_resumable(refused, tmp_path, steps, data)
        assert damaged.exists()
    (note,) = check_resumable(chosen, tmp_path, 4, data)
    assert "checkpoint-4.damaged; the newest whole one is checkpoint-2" in note
    assert newest_checkpoint(tmp_path, build_network(chosen)).step == 2


def test_data_that_do_not_fit_are_refused_before_they_are_drawn(config, monkeypatch):
    def drawn(_half, _number):
        raise AssertionError("images were drawn")

    monkeypatch.setattr(synthetic, "_block", drawn)
    monkeypatch.setattr(extent, "available_bytes", lambda: 200 * 2**20)
    chosen = config(workers=2, network__name="googlenet", network__classes=10)
    data = DataConfig(name="synthetic", side_pixels=224)
    expected = (
        r"50,000 training and 10,000 .* 32 x 32 pixels take 175.8 MiB and, while workers are "
        "given them, 351.6 MiB"
    )
    with pytest.raises(DataError, match=expected):
        check_run(chosen.model_copy(update={"data": data}), keep=lambda _: None)
    with pytest.raises(AssertionError, match="images were drawn"):
        check_run(chosen.model_copy(update={"data": data}))


def test_data_are_kept_once_they_are_found_to_fit(config):
    kept = []
    size = check_run(config(workers=1), kept.append)
    assert [each.contents for each in kept] == [size.data]
    with pytest.raises(ConfigError):
        check_run(config(workers=1, network__name="googlenet"), kept.append)
    assert len(kept) == 1


def test_batches_ahead_are_counted_if_a_pool_makes_them(config):
    alone = check_run(config(workers=1))
    ahead = check_run(config(workers=1, placement__data_cores=1))
    assert alone.batch == ahead.batch is not None
    assert {need.name for need in ahead.needs} - {need.name for need in alone.needs} == {"batches"}
    (batches,) = (need for need in ahead.needs if need.name == "batches")
    assert batches.bytes == 3 * ahead.batch.bytes


def test_run_that_ends_before_its_workers_meet_is_refused(config):
    short = config(exchange__method="diloco", workers=1)  # every 500 steps, but the run has 5
    with pytest.raises(ConfigError, match=r"period = 500: diloco would not exchange once in 5"):
        check_run(short)
    often = config(exchange__method="post_local_sgd", exchange__communication_period=9, workers=1)
    assert check_run(often).notes == ()  # the first steps all have an exchange


def test_steps_after_the_last_exchange_are_told(config):
    for period, rest in ((2, 1), (3, 2), (5, 0)):
        chosen = config(
            exchange__method="local_sgd", exchange__communication_period=period, workers=1
        )
        notes = check_run(chosen).notes
        assert len(notes) == (rest > 0)
        if rest:
            assert f"the last {rest} of 5 steps come after the last exchange" in notes[0]
    assert check_run(config(exchange__method="easgd", workers=1)).notes == ()


def test_data_that_are_to_be_distributed_to_one_computer_are_told(config):
    assert check_run(config(data__memory="distributed", workers=1)).notes == (
        "data.memory = 'distributed': on one computer it is as 'node'",
    )
    two = config(data__memory="distributed", workers=1, nodes=2)
    assert check_run(two).notes == ()


def test_cores_that_no_exchange_needs_are_told(config):
    for method, idle in (("sync_easgd", True), ("sync_easgd3", False), ("seasgd", False)):
        chosen = config(exchange__method=method, placement__communication_cores=1, workers=1)
        assert [note.partition(" =")[0] for note in check_run(chosen).notes] == (
            ["placement.communication_cores"] if idle else []
        )


def test_memory_is_foreseen_for_what_nodes_send(config):
    alone, float32, int8 = (
        check_run(config(workers=1, nodes=nodes, exchange__wire_format=name)).needs[0].bytes
        for nodes, name in ((1, "float32"), (2, "float32"), (2, "int8"))
    )
    packed_bytes = 4 * build_network(config()).packed_size
    assert float32 < int8 == float32 + 2 * packed_bytes
    assert alone < float32
    plain, encoded = (
        check_run(config(workers=1, nodes=2, exchange__method="seasgd", exchange__wire_format=name))
        .needs[0]
        .bytes
        for name in ("float32", "bfloat16")
    )
    assert encoded == plain + 4 * packed_bytes


def test_values_that_are_not_sent_are_kept_once(config):
    chosen = {
        "workers": 1,
        "nodes": 2,
        "exchange__method": "streaming_diloco",
        "exchange__communication_period": 4,
        "exchange__fragments": 2,
        "exchange__delay_steps": 1,
    }
    with pytest.raises(ConfigError, match=r"'top_k' with exchange.mixing = 0.5: .* 'int8'"):
        check_run(config(exchange__wire_format="top_k", exchange__mixing=0.5, **chosen))
    check_run(config(exchange__wire_format="top_k", exchange__mixing=0.0, **chosen))
    check_run(config(exchange__wire_format="int8", exchange__mixing=0.5, **chosen))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"nodes": 1}, "'int8' on 1 computer, where workers share memory"),
        ({"nodes": 2, "exchange__method": "none"}, "'int8': none never exchanges"),
        ({"nodes": 2, "exchange__method": "sync_easgd1"}, "'int8': by sync_easgd1 the center"),
    ],
)
def test_wire_format_where_nothing_is_written_in_it_is_refused(config, changes, says):
    with pytest.raises(ConfigError, match=f"exchange.wire_format = {says}.*'float32'"):
        check_run(config(workers=1, exchange__wire_format="int8", **changes))


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (
            {"exchange__wire_format": "int8", "nodes": 2, "workers": 1},
            "exchange.wire_format = 'int8': .*expected 'float32'",
        ),
        ({"exchange__emulated_link_gbits": 1.0}, "cannot be emulated"),
    ],
    ids=str,
)
def test_what_cannot_go_along_trees_layer_by_layer_is_refused(config, chosen, expected):
    method = {"workers": 2, "exchange__method": "caffegpi"}
    check_run(config(**method))
    check_run(config(**method, optimizer__name="adamw", optimizer__clip_norm=1.0))
    with pytest.raises(ConfigError, match=expected):
        check_run(config(**{**method, **chosen}))


def test_a_run_goes_on_with_the_classes_that_it_began_with(config):
    kept = check_run(config(workers=1)).preprocessing
    assert check_classes(kept, kept) == check_classes(None, kept) == check_classes(kept, None) == []
    turned = replace(kept, class_names=kept.class_names[::-1])
    for accepts in (False, True):  # else each output would get another meaning
        with pytest.raises(CheckpointError, match=r"order '0', '1', .* now they are '9', '8'"):
            check_classes(kept, turned, accepts)
    others = replace(kept, class_names=(*kept.class_names[:9], "nine"))
    with pytest.raises(CheckpointError, match=r"'nine': .*data.class_names"):
        check_classes(kept, others)
    fewer = replace(kept, class_names=(*kept.class_names[1:], "nine"))
    with pytest.raises(CheckpointError, match=r"order '0', '1', .* now they are '1', '2'"):
        check_classes(kept, fewer, accepts_other=True)  # '1' would be another output
    (note,) = check_classes(kept, others, accepts_other=True)
    assert note.startswith("--accept-other-data: the classes were '0'")
