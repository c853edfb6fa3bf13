from __future__ import annotations

import pytest
import torch
from agreement import close
from every_operation import PAIRS, images_of, pair_of

NAMES = sorted(PAIRS)


@pytest.mark.parametrize("name", NAMES)
def test_batches_of_gradients_are_taken_one_after_the_other(name: str) -> None:
    found = []
    for model in pair_of(name):
        images = images_of(number=1).requires_grad_()
        out = model.eval()(images)
        slopes = torch.linspace(-1, 1, 3 * out.numel()).view(3, *out.shape)
        batched = torch.autograd.grad(out, images, slopes, retain_graph=True, is_grads_batched=True)
        mapped = torch.vmap(
            lambda slope: torch.autograd.grad(out, images, slope, retain_graph=True)[0]  # noqa: B023
        )(slopes)
        found.append((batched[0], mapped))
    for ours, theirs in zip(*found, strict=True):
        close(ours, theirs, 1e-5)
