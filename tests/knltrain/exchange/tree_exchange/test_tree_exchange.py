"""Training layer by layer equals one update of the whole sum, bit for bit, or says why not."""

import threading
import time

import numpy as np
import pytest

from knltrain.communication.gaspi import AddressSpace, thread_ranks
from knltrain.errors import CollectiveError, ExchangeTimeout, NonFiniteLoss
from knltrain.exchange.tree_exchange import TreeExchange

from ...communication.gaspi.conftest import together
from ...communication.gaspi.mpi_run import OVER_TCP, mpi_run, needs_mpi
from .training import LAYERS, SIZE, batch_training, start_weights, train

PROGRAM = "tests.knltrain.exchange.tree_exchange.mpi_training"
ITERATIONS = 5


def spaces(size, seed=0, **options):
    ranks = thread_ranks(size, seed, **options)
    return [AddressSpace(each, timeout_seconds=30) for each in ranks]


def in_space(work):
    """Do ``work`` in a space that is closed after it, also when it fails."""

    def of_one(space):
        try:
            return work(space)
        finally:
            space.close()

    return of_one


def exchanges(
    size,
    update=lambda _layer, _total: None,
    layers=LAYERS,
    disturb=lambda _origin, _target: None,
    **options,
):
    """Exchanges that have their first weights, zeros, and spaces to be closed."""

    def make(space):
        exchange = TreeExchange(space, layers, update, **{"timeout_seconds": 30, **options})
        values = np.zeros(exchange.weights.size, np.float32)
        exchange.start_from(values if space.rank == 0 else None)
        return exchange

    all_of = spaces(size, disturb=disturb)
    return all_of, together(all_of, make)


def close(all_of, made):
    together(made, lambda exchange: exchange.close())
    together(all_of, lambda space: space.close())


@pytest.mark.parametrize(
    "options",
    [
        {"chunk_floats": 64, "slots": 1},
        {"chunk_floats": 100, "slots": 3},
        {"branches": 1},
        {"reduction_branches": 1, "chunk_floats": 64, "slots": 1},
        {"reduction_branches": 3, "updates_all": True},
        {"updates_all": True, "chunk_floats": 64, "slots": 1, "branches": 1},
    ],
    ids=["one slot", "three slots", "chain", "chain of sums", "three children", "all at once"],
)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_all_ranks_have_the_bits_of_the_batch_update(size, options):
    def slow_edges(origin, target):
        time.sleep(0.001 * ((origin + 3 * target) % 3))

    work = in_space(lambda space: train(space, ITERATIONS, size, 0.002, **options))
    expected = batch_training(size, ITERATIONS, options.get("reduction_branches"))
    for weights in together(spaces(size, size, disturb=slow_edges), work):
        assert np.array_equal(weights, expected)


def test_a_space_can_have_one_exchange_after_another():
    def work(space):
        return [train(space, iterations) for iterations in (1, 3)]

    for first, second in together(spaces(3), in_space(work)):
        assert np.array_equal(first, batch_training(3, 1))
        assert np.array_equal(second, batch_training(3, 3))


def test_layers_are_updated_and_sent_before_backward_has_ended():
    seen = threading.Event()
    all_of, made = exchanges(3, lambda layer, _total: seen.set() if layer == "fc" else None)
    for exchange in made:
        exchange.gradient_ready("fc")
    assert seen.wait(10)
    for exchange in made:
        exchange.await_weights("fc")
        assert exchange.weights_ready("fc")
    for exchange in made:
        for layer in ("wide", "norm", "conv"):
            assert exchange.weights_ready(layer)  # version 0, which backward still reads
            exchange.gradient_ready(layer)
    close(all_of, made)


def test_updates_come_in_backward_order_whatever_the_order_of_calls():
    called = []
    all_of, made = exchanges(2, lambda layer, _total: called.append(layer))
    for rank, exchange in enumerate(made):
        for layer in sorted(LAYERS, reverse=rank == 0):
            exchange.gradient_ready(layer)
    for exchange in made:
        exchange.await_all_weights()
    assert called == ["fc", "wide", "norm", "conv"]
    close(all_of, made)


def test_who_gives_no_gradient_is_named_with_layer_and_edge():
    all_of, made = exchanges(4)
    for rank in (0, 1, 2):
        for layer in reversed(LAYERS):
            made[rank].gradient_ready(layer)
    said = {}
    for rank in (0, 1):
        with pytest.raises(ExchangeTimeout) as timeout:
            made[rank].await_weights("wide", timeout_seconds=0.3)
        said[rank] = str(timeout.value)
    awaited = "waited 0.3 s in vain for the weights of layer 'wide', version 1: "
    assert said[0].startswith(
        f"rank 0: {awaited}rank 1 has not sent its gradient of layer 'fc', iteration 0 "
        "(edge 1 to 0)"
    )
    assert said[1].startswith(
        f"rank 1: {awaited}rank 3 has not sent its gradient of layer 'fc', iteration 0 "
        "(edge 3 to 1)"
    )
    assert "rank 0 has not sent the weights of layer 'fc', version 1 (edge 0 to 1)" in said[1]
    assert said[0].endswith("raise timeout_seconds (of a run: exchange.timeout_seconds)")
    for layer in reversed(LAYERS):
        made[3].gradient_ready(layer)
    close(all_of, made)


def test_a_rank_does_not_end_before_it_has_handed_on_what_others_need():
    """A chain of weights, 0 to 1 to 2, whose last link is held up."""
    may_pass = threading.Event()
    may_pass.set()
    all_of, made = exchanges(
        3,
        branches=1,
        disturb=lambda origin, target: may_pass.wait(10) if (origin, target) == (1, 2) else None,
    )
    may_pass.clear()
    for exchange in made:
        for layer in reversed(LAYERS):
            exchange.gradient_ready(layer)
    made[1].await_all_weights()
    ended = threading.Thread(target=made[1].close)
    ended.start()
    ended.join(0.1)
    assert ended.is_alive()
    may_pass.set()
    ended.join(10)
    assert not ended.is_alive()
    made[2].await_all_weights()
    close(all_of, made)


def test_who_was_stopped_has_not_waited_meanwhile(monkeypatch):
    """As when a scheduler suspends a whole job, for longer than anybody may be late."""
    clock, stopped_seconds, goes_on = time.monotonic, [0.0], threading.Event()

    def stop():
        stopped_seconds[0] += 1000
        goes_on.set()

    stops = []
    all_of, made = exchanges(2, check=lambda: [each() for each in stops])
    monkeypatch.setattr(time, "monotonic", lambda: clock() + stopped_seconds[0])
    stops.append(stop)

    def late():
        goes_on.wait(10)
        for layer in reversed(LAYERS):
            made[1].gradient_ready(layer)

    other = threading.Thread(target=late)
    other.start()
    for layer in reversed(LAYERS):
        made[0].gradient_ready(layer)
    made[0].await_all_weights()
    assert goes_on.is_set()
    other.join()
    stops.clear()
    made[1].await_all_weights()
    close(all_of, made)


def test_a_rank_that_leaves_a_layer_out_hears_so():
    all_of, made = exchanges(1)
    made[0].gradient_ready("wide")
    with pytest.raises(ExchangeTimeout, match=r"itself has not called gradient_ready\('fc'\) in"):
        made[0].await_weights("wide", timeout_seconds=0.05)
    for layer in ("fc", "norm", "conv"):
        made[0].gradient_ready(layer)
    close(all_of, made)


def test_a_gradient_before_its_weights_is_refused():
    all_of, made = exchanges(2)
    made[0].gradient_ready("fc")
    with pytest.raises(CollectiveError, match=r"gradient_ready\('fc'\) before version 1 of its"):
        made[0].gradient_ready("fc")
    for rank, layers in ((0, ("wide", "norm", "conv")), (1, LAYERS)):
        for layer in layers:
            made[rank].gradient_ready(layer)
    close(all_of, made)


@pytest.mark.parametrize(
    ("raised", "expected", "said"),
    [
        (NonFiniteLoss(3, "fc"), NonFiniteLoss, "step 3: layer 'fc'"),
        (ZeroDivisionError("by 0"), CollectiveError, "rank 0: its exchange ended: Zero.*: by 0"),
    ],
)
def test_what_an_update_raises_reaches_who_waits(raised, expected, said):
    def update(_layer, _total):
        raise raised

    all_of, made = exchanges(2, update)
    for exchange in made:
        exchange.gradient_ready("fc")
    for call in (lambda: made[0].await_weights("fc"), lambda: made[0].gradient_ready("wide")):
        with pytest.raises(expected, match=said):
            call()
    with pytest.raises(ExchangeTimeout, match="rank 0 has not sent the weights of layer 'fc'"):
        made[1].await_weights("fc", timeout_seconds=0.1)
    for exchange in made:
        exchange.abandon()
    together(all_of, lambda space: space.close())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"slots": 0}, "slots: 0: expected 1 or more"),
        ({"branches": 0}, "branches: 0: expected 1 or more"),
        ({"reduction_branches": 0}, "reduction_branches: 0: expected 1 or more"),
        ({"chunk_floats": 0}, "chunk_floats=0: expected"),
        ({"layers": {}}, "expected layers with 1 parameter"),
    ],
)
def test_arguments_that_cannot_be_are_named(options, said):
    with pytest.raises(CollectiveError, match=said):
        exchanges(1, **options)


def test_one_queue_is_too_few():
    space = AddressSpace(thread_ranks(1)[0], queues=1)
    with pytest.raises(CollectiveError, match="queues of the address space: 1: expected 2"):
        TreeExchange(space, LAYERS, lambda _layer, _total: None)


def test_ranks_with_other_layers_are_found_out():
    def work(space):
        layers = LAYERS if space.rank else {"conv": 8}
        with pytest.raises(CollectiveError, match="something else: expected the same"):
            TreeExchange(space, layers, lambda _layer, _total: None)

    together(spaces(2), in_space(work))


def test_an_unknown_layer_and_start_values_of_another_size_are_refused():
    all_of, made = exchanges(1)
    for call in (made[0].gradient_ready, made[0].weights_ready, made[0].await_weights):
        with pytest.raises(CollectiveError, match="layer 'pool': expected one of conv, norm"):
            call("pool")
    for values in (None, start_weights()[1:]):
        with pytest.raises(CollectiveError, match=rf"expected shape \({SIZE},\)"):
            made[0].start_from(values)
    close(all_of, made)


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize(
    ("ranks", "environment"), [(2, {}), (4, {}), (3, OVER_TCP)], ids=["2", "4", "3 over tcp"]
)
def test_processes_have_the_bits_of_the_batch_update(ranks, environment):
    ended = mpi_run(ranks, PROGRAM, "equals_batch", environment=environment)
    assert (ended.status, ended.lines) == (0, ["equal"]), ended.errors


@pytest.mark.slow
@needs_mpi
def test_a_process_that_stays_away_is_named_and_the_run_ends():
    ended = mpi_run(2, PROGRAM, "one_stays_away")
    assert ended.status != 0
    assert "rank 1 has not sent its gradient of layer 'fc', iteration 0" in ended.errors
