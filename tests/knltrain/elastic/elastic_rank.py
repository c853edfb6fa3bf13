"""A worker of the tests: `elastic_rank.py SCENE METHOD OPTIONS` prints what came of it as JSON."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from knltrain.assembly import build_dataset, build_network
from knltrain.backends.torch.mirrors import HOST, Mirrors
from knltrain.config import load_config
from knltrain.data.order import ShardedBatches
from knltrain.elastic import Elastic, elastic
from knltrain.errors import KnltrainError
from knltrain.input.batch_feed import FilledHere
from knltrain.interchange.to_torch import to_torch
from knltrain.network.parameters import ParameterVector

IMAGES = 256
BATCH = 16


def pictures() -> tuple[Tensor, Tensor]:
    """Images of four classes, which their mean tells."""
    drawn = torch.Generator().manual_seed(1)
    labels = torch.arange(IMAGES) % 4
    noise = torch.randn(IMAGES, 1, 8, 8, generator=drawn)
    return noise * 0.3 + labels.view(-1, 1, 1, 1) - 1.5, labels


def small_model() -> nn.Module:
    torch.manual_seed(int(os.environ.get("RANK", "0")))  # all start from those of rank 0
    convolution = nn.Conv2d(1, 8, 3)
    return nn.Sequential(
        convolution, nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4)
    ).to(memory_format=torch.channels_last)


class Transformer(nn.Module):
    """Tells the class of an image by its lines as words."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.layer(images.flatten(1, 2)).mean(1))


def told(model: nn.Module) -> str:
    """A digest of all values but counts of batches."""
    values = (
        each.detach().float().numpy().tobytes()
        for each in model.state_dict().values()
        if each.is_floating_point()
    )
    return hashlib.md5(b"".join(values)).hexdigest()


def take_steps(run: Elastic, steps: range) -> None:
    images, labels = pictures()
    kind = next(run.model.parameters()).dtype
    for step in steps:
        first = (step * run.team.workers + run.team.rank) * BATCH
        rows = torch.arange(first, first + BATCH) % IMAGES
        cross_entropy(run.model(images[rows].to(kind)).float(), labels[rows]).backward()
        run.step()


def of_center(run: Elastic) -> list[Any]:
    """Digest, and share of right answers, of the center, which all have when all are here."""
    images, labels = pictures()
    run.barrier()
    with run.center() as model, torch.no_grad():
        model.eval()
        kind = next(model.parameters()).dtype
        right = (model(images.to(kind)).argmax(1) == labels).float().mean().item()
        found = [told(model), right]
        model.train()
    run.barrier()
    return found


def made(method: str, options: Mapping[str, Any], model: nn.Module, rate: float = 0.1) -> Elastic:
    """With the option "apart" vectors have copies on the host, as on a device."""
    options = dict(options)
    if options.pop("apart", False):
        mirrors = Mirrors(HOST, are_apart=True)
        elastic.space_of = lambda _model: (mirrors, (mirrors.packed, HOST))
    optimizer = torch.optim.SGD(model.parameters(), rate)
    return Elastic(model, optimizer, method, **{"implementation": "reference", **options})


def train(method: str, options: Mapping[str, Any]) -> Any:
    with made(method, options, small_model()) as run:
        take_steps(run, range(30))
        return of_center(run)


def goes_on(method: str, options: Mapping[str, Any]) -> Any:
    """Ten steps, and the last four of them once more from a state."""
    with made(method, options, small_model()) as run:
        take_steps(run, range(6))
        run.barrier()
        kept = run.state()
        take_steps(run, range(6, 10))
        first = of_center(run)
        run.load_state(kept)
        take_steps(run, range(6, 10))
        return [run.steps, first == of_center(run)]


def in_bfloat16(method: str, options: Mapping[str, Any]) -> Any:
    torch.manual_seed(0)
    with made(method, options, Transformer().to(torch.bfloat16)) as run:
        take_steps(run, range(60))
        return of_center(run)


class PlainSGD(torch.optim.Optimizer):
    """Steps as knltrain's reference takes them: two roundings, where torch's own has one."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        for group in self.param_groups:
            for each in group["params"]:
                each -= each.grad * group["lr"]


def as_knltrain(method: str, options: Mapping[str, Any]) -> Any:
    """The center that `knltrain train` comes to by run.toml, in the working directory."""
    config = load_config(Path("run.toml"), (f"exchange.method={method}",))
    network = build_network(config)
    parameters = ParameterVector(network)
    parameters.initialise(config.seed)
    model = to_torch(network, parameters)
    optimizer = PlainSGD(model.parameters(), {"lr": config.learning_rate.base})
    with Elastic(model, optimizer, method, implementation="reference", **options) as run:
        batches = ShardedBatches(
            build_dataset(config).train, config.train.batch, run.team.rank, 2, config.seed
        )
        feed = FilledHere(batches, network.input_shape)
        for step in range(config.train.steps or 0):
            batch = feed.take(step)
            images = torch.from_numpy(batch.images_nhwc).permute(0, 3, 1, 2)
            cross_entropy(model(images), torch.from_numpy(batch.labels)).backward()
            run.step()
        run.barrier()  # until the root of a group has pushed what it contributed
        with run.center():
            return {name: each.tolist() for name, each in model.state_dict().items()}


def one_fails(method: str, options: Mapping[str, Any]) -> Any:
    with made(method, options, small_model()) as run:
        take_steps(run, range(3))
        if run.team.rank:
            raise ValueError("this worker's own")
        take_steps(run, range(3, 1000))


def one_dies(method: str, options: Mapping[str, Any]) -> Any:
    with made(method, options, small_model()) as run:
        take_steps(run, range(3))
        if run.team.rank:
            os.kill(os.getpid(), signal.SIGKILL)
        take_steps(run, range(3, 1000))


def another_model(method: str, options: Mapping[str, Any]) -> Any:
    classes = 4 + int(os.environ["RANK"])
    made(method, options, nn.Sequential(nn.Flatten(), nn.Linear(64, classes)))


SCENES = (train, goes_on, in_bfloat16, as_knltrain, one_fails, one_dies, another_model)


def main() -> None:
    scene, method, options = sys.argv[1:]
    torch.set_num_threads(1)
    np.seterr(all="ignore")
    (chosen,) = (each for each in SCENES if each.__name__ == scene)
    try:
        found = chosen(method, json.loads(options))
    except (KnltrainError, ValueError) as error:
        found = [type(error).__name__, str(error)]
    print(json.dumps([found]), flush=True)


if __name__ == "__main__":
    main()
