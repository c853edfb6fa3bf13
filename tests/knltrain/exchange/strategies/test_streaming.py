from __future__ import annotations

import numpy as np
import pytest
from quadratics import SIZE, STEPS, WORKERS, check, diloco, start, stepped, train


def test_streaming_diloco_of_one_fragment_without_delay_is_diloco() -> None:
    plain = train("diloco", WORKERS, STEPS, communication_period=2)
    streaming = train(
        "streaming_diloco",
        WORKERS,
        STEPS,
        communication_period=2,
        fragments=1,
        delay_steps=0,
        mixing=0.0,
    )
    assert np.array_equal(plain.parameters, streaming.parameters)
    assert np.array_equal(plain.models, streaming.models)


@pytest.mark.parametrize("freely", [False, True])
def test_streaming_diloco_exchanges_fragments_in_turn_while_steps_go_on(freely: bool) -> None:
    """Slots of 2 steps; what is exchanged was true one step before it is mixed in."""
    cuts = [slice(0, 1232), slice(1232, SIZE)]  # layer a, layers b and c
    velocity = np.zeros(SIZE)

    def by_formula(t: int, w: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        w, c, steps = stepped(t, w), c.copy(), t + 1
        if (steps + 1) % 2 == 0:
            part = cuts[((steps + 1) // 2 - 1) % 2]
            velocity[part], move = diloco(t, velocity[part], c[part] - w[:, part].mean(axis=0))
            c[part] -= move
        if steps % 2 == 0:
            part = cuts[(steps // 2 - 1) % 2]
            w[:, part] = 0.25 * w[:, part] + 0.75 * c[part]
        return w, c

    found = train(
        "streaming_diloco",
        WORKERS,
        STEPS,
        freely=freely,
        communication_period=4,
        fragments=2,
        delay_steps=1,
        mixing=0.25,
    )
    if freely:  # the center was looked at after the last step only
        locals_, center = np.stack([start()] * WORKERS).astype(float), start().astype(float)
        for number in range(STEPS):
            locals_, center = by_formula(number, locals_, center)
        np.testing.assert_allclose(found.parameters[-1], locals_, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found.models[-1], center, rtol=1e-4, atol=1e-5)
    else:
        check(found, by_formula)
