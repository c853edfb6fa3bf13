"""Elastic averaging, and every other method of exchange, for a training loop of your own.

with Elastic(model, optimizer, method="sync_easgd3") as run:
    for images, labels in own_part:
        loss_of(model(images), labels).backward()
        run.step()
    with run.center():
        evaluate(model)
"""

from knltrain.elastic.elastic import Elastic

__all__ = ["Elastic"]
