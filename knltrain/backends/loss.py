"""The loss that training lowers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SoftmaxCrossEntropy:
    """-(1 - s) log p[label] - s times the mean over classes of log p, p = softmax(logits).

    s is `label_smoothing`, 0 <= s < 1 (Szegedy et al. 2016, section 7). The loss of a batch is the
    mean over its images, summed over the outputs by their weights.
    """

    label_smoothing: float = 0.0


PLAIN = SoftmaxCrossEntropy()
"""Without smoothing: what evaluations measure, too, so that they can be compared."""
