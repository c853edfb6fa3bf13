"""Nested random modules are imported and compute the same, in evaluation and in training."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from torch.utils import _pytree as pytree

from knltrain.interchange.from_torch import from_torch

from .importing import differences, images_of, used
from .nested_modules import CHANNELS, HEADS, STEPS, Step, Whole, built

SETTINGS = settings(derandomize=True, suppress_health_check=list(HealthCheck), print_blob=True)


def _check(steps: tuple[Step, ...], head: str, auxiliary: bool) -> None:
    torch.manual_seed(0)
    images = images_of(CHANNELS, 12)
    body, _ = built(steps, CHANNELS)
    module = Whole(body, head, auxiliary)
    try:
        outputs = pytree.tree_leaves(module.train()(images.clone()))  # gives heads their sizes
        torch.autograd.backward([output.sum() for output in outputs])
    except (RuntimeError, ValueError):
        reject()  # windows larger than the maps, or a value in place that its gradient needs
    module.zero_grad()
    imported = from_torch(used(module), images, (0.3,) if auxiliary else ())
    differences(module, imported, images)


@pytest.mark.slow
@settings(SETTINGS, max_examples=50)
@given(STEPS, HEADS, st.booleans())
def test_nested_modules_compute_the_same(
    steps: tuple[Step, ...], head: str, auxiliary: bool
) -> None:
    _check(steps, head, auxiliary)


@pytest.mark.long
@settings(SETTINGS, max_examples=600)
@given(STEPS, HEADS, st.booleans())
def test_many_nested_modules_compute_the_same(
    steps: tuple[Step, ...], head: str, auxiliary: bool
) -> None:
    _check(steps, head, auxiliary)
