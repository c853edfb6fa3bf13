"""A factory for each name that a configuration may choose, named as in the registries.

Heavy modules are imported when a function that needs them is called.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast, final

from knltrain.assembly.losses import loss_of
from knltrain.config import DataConfig, RunConfig
from knltrain.errors import ConfigError

if TYPE_CHECKING:
    import torch

    from knltrain.backends.backend import Backend
    from knltrain.backends.cpu.lowering import Algorithms
    from knltrain.backends.torch.execution import Execution
    from knltrain.backends.torch.graphs import Graph
    from knltrain.backends.torch.mirrors import Mirrors
    from knltrain.backends.torch.switches import Precision
    from knltrain.cluster.worker import MeetingPoint
    from knltrain.communication.internode.collective import NodeCollective
    from knltrain.communication.internode.wire.formats import WireKernels
    from knltrain.communication.internode.wire.wire_format import WireFormat
    from knltrain.config.backend_tables import BackendConfig
    from knltrain.data.augmentation.augmenting import MakesPass, PixelPass
    from knltrain.data.dataset import Halves
    from knltrain.data.encoded import DecodingRules
    from knltrain.data.extent import Extent
    from knltrain.data.source import Pixels
    from knltrain.exchange.rules.averaged_center import AverageKernels
    from knltrain.exchange.rules.downpour import DownpourKernels
    from knltrain.exchange.rules.easgd import ElasticKernels
    from knltrain.exchange.rules.outer_step import OuterKernel
    from knltrain.network.network import Network
    from knltrain.network.parameter_groups import PartOfVector
    from knltrain.optimizers.adamw import AdamWKernel
    from knltrain.optimizers.adaptive import AdaptiveKernels
    from knltrain.optimizers.lars import LARSKernel
    from knltrain.optimizers.optimizer import Optimizer, SingleProcessReducer
    from knltrain.optimizers.sgd import SGDKernel
    from knltrain.vectors import FloatArray, VectorSpace
    from vectorized_ops.reference.picture_operations import OperationPlan

    MakesBackend: TypeAlias = Callable[[RunConfig, Network, int, int, VectorSpace | None], Backend]
    Described: TypeAlias = "Network | PartOfVector"
    MakesOptimizer: TypeAlias = Callable[[RunConfig, Described, "OptimizerKernels"], Optimizer]

TOP_SHARE = 0.01
"""The share of values that top_k sends, where `exchange.wire_top_share` is left out."""


class OptimizerKernels(Protocol):
    """The arithmetic of optimizers on packed vectors."""

    @property
    def sgd(self) -> SGDKernel:
        """Steps of SGD."""

    @property
    def lars(self) -> LARSKernel:
        """Steps of LARS."""

    @property
    def adamw(self) -> AdamWKernel:
        """Steps of AdamW."""

    @property
    def adaptive(self) -> AdaptiveKernels:
        """Steps of AdaGrad, RMSProp, AdaDelta and Adam."""


@final
class Kernels:
    """The arithmetic of optimizers and exchange rules on packed vectors, of one implementation.

    Its modules are imported when they are first used.
    """

    def __init__(self, implementation: str) -> None:
        self._package = f"vectorized_ops.{implementation}"
        self._is_compiled = implementation == "numba"

    def _module(self, name: str) -> Any:
        return import_module(f"{self._package}.{name}")

    @property
    def sgd(self) -> SGDKernel:
        """Steps of SGD."""
        return cast("SGDKernel", self._module("sgd").SGDUpdate)

    @property
    def lars(self) -> LARSKernel:
        """Steps of LARS."""
        return cast("LARSKernel", self._module("lars").LARSUpdate)

    @property
    def adamw(self) -> AdamWKernel:
        """Steps of AdamW."""
        return cast("AdamWKernel", self._module("adamw").AdamWUpdate)

    @property
    def adaptive(self) -> AdaptiveKernels:
        """Steps of AdaGrad, RMSProp, AdaDelta and Adam."""
        return cast("AdaptiveKernels", self._module("adaptive"))

    def picture_pass(
        self,
        image_shape: tuple[int, int, int],
        mean: FloatArray,
        scale: FloatArray,
        mean_picture: FloatArray | None = None,
    ) -> PixelPass:
        """A pass from pictures to images."""
        made = cast("MakesPass", self._module("pictures").PicturePass)
        return made(image_shape, mean, scale, mean_picture)

    def operate_on_pictures(self, images: FloatArray, plan: OperationPlan, out: Pixels) -> None:
        """The operations of RandAugment."""
        self._module("picture_operations").operated(images, plan, out)

    @property
    def elastic(self) -> ElasticKernels:
        """Elastic and plain averages."""
        return cast("ElasticKernels", self._module("elastic"))

    @property
    def downpour(self) -> DownpourKernels:
        """Pushes to a center and fetches from it."""
        return cast("DownpourKernels", self._module("downpour"))

    @property
    def averages(self) -> AverageKernels:
        """Moving and running averages."""
        return cast("AverageKernels", self._module("averages"))

    @property
    def outer_step(self) -> OuterKernel:
        """Optimizer steps of a center."""
        return cast("OuterKernel", self._module("outer_step").synchronous_outer_step)

    @property
    def wire(self) -> WireKernels:
        """Wire formats between nodes."""
        from knltrain.communication.internode.wire.formats import WireKernels

        return WireKernels(self._module("wire"), self._module("top_k"))

    @property
    def alone(self) -> SingleProcessReducer:
        """A context in which kernels use the calling thread alone."""
        if not self._is_compiled:
            return nullcontext
        from vectorized_ops.numba.compiling.single_thread import alone

        return alone


@dataclass(frozen=True, slots=True)
class DataSource:
    """A data set: its size, where it is known before it is read, and the function that reads it.

    `in_root` says whether it consists of files in `data.root`; `takes` are those of `OWN_KEYS` that
    it reads. One that `stands_in` for any files passes over the keys of those.
    """

    extent: Callable[[DataConfig], Extent] | None
    load: Callable[[DataConfig], Halves]
    in_root: bool = False
    takes: tuple[str, ...] = ()
    stands_in: bool = False


_FILE_KEYS: Final = ("train", "test", "test_share", "class_names")
DECODING_KEYS: Final = ("channels", "exif", "max_pixels", "broken")
OWN_KEYS: Final = (
    *(*_FILE_KEYS, *DECODING_KEYS, "follow_links", "first_label"),
    *("label", "channel_order", "transposed", "image", "classes"),
)
"""Keys of `[data]` that some data sets read, and others refuse."""


def reader(name: str, module: str, *takes: str, counts_labels: bool = True) -> DataSource:
    """Files of a format, by `open_NAME` of a module of `knltrain.data.readers`.

    One that `counts_labels` has labels that are numbers.
    """

    def load(config: DataConfig) -> Halves:
        from knltrain.data.readers.files import DataFiles
        from knltrain.data.readers.halves import open_halves

        found = import_module(f"knltrain.data.readers.{module}")
        files = DataFiles(
            folder_of(config),
            config.train,
            config.test,
            config.test_share,
            config.first_label,
            config.label,
            config.channel_order,
            config.channels,
            _decoding(config),
            config.class_names,
            config.follow_links,
            config.transposed,
        )
        open_half = getattr(found, f"open_{name}")
        return open_halves(name, open_half, files, config.train_images, config.test_images)

    counts = ("first_label",) if counts_labels else ()
    return DataSource(None, load, in_root=True, takes=(*_FILE_KEYS, *counts, *takes))


def folder_of(config: DataConfig) -> Path:
    """The folder of a data set's files; `ConfigError` if it is left out."""
    if config.root is None:
        raise ConfigError(
            f"data.root is missing: expected the folder with the files of '{config.name}', as in "
            "--set data.root=/data/images"
        )
    return Path(config.root)


def packed(config: DataConfig) -> Halves:
    """A file of `knltrain pack`; `ConfigError` if `data.root` is left out."""
    from knltrain.data.readers.packed import load_packed

    if config.root is None:
        raise ConfigError(
            "data.root is missing: expected the file that `knltrain pack` has written, as in "
            "--set data.root=/data/flowers.pack"
        )
    kept = config.train_images, config.test_images
    return load_packed(Path(config.root), config.channels, _decoding(config), *kept)


def _decoding(config: DataConfig) -> DecodingRules:
    from knltrain.data.encoded import DecodingRules

    return DecodingRules(config.max_pixels, config.exif, config.broken == "skip")


def random(config: DataConfig) -> Halves:
    """Computed pictures of any size and number."""
    from knltrain.data.readers.random import load_random

    extent = random_extent(config)
    assert config.classes is not None
    return load_random(extent.image_shape, config.classes, extent.train_images, extent.test_images)


def random_extent(config: DataConfig) -> Extent:
    """As asked for; `ConfigError` where size or classes are left out. They take no memory."""
    from knltrain.data.extent import Extent
    from knltrain.data.readers.random import TEST_IMAGES, TRAIN_IMAGES

    if config.image is None or config.classes is None:
        raise ConfigError(
            "data.name = 'random': expected the size and the number of classes, as data.image = "
            "[224, 224, 3] and data.classes = 1000"
        )
    height, width, _ = config.image
    if height * width > config.max_pixels:
        raise ConfigError(
            f"data.image = {list(config.image)}: {height:,} x {width:,} pixels, expected at most "
            f"{config.max_pixels:,} of both multiplied"
        )
    train, test = config.train_images or TRAIN_IMAGES, config.test_images or TEST_IMAGES
    return Extent(train, test, config.image, held=(False, False))


def digits(config: DataConfig) -> Halves:
    """UCI's handwritten digits, which come with the package."""
    from knltrain.data.digits import load_digits

    return load_digits(config.train_images, config.test_images)


def mnist(config: DataConfig) -> Halves:
    """MNIST from the idx files in `data.root`; `ConfigError` if that is left out."""
    from knltrain.data.mnist import load_mnist

    return load_mnist(folder_of(config), config.train_images, config.test_images)


def mnist_t10k(config: DataConfig) -> Halves:
    """MNIST's test half alone: a part to learn from, the rest to test on; else as `mnist`."""
    from knltrain.data.mnist import load_mnist

    return load_mnist(folder_of(config), config.train_images, config.test_images, alone=True)


def synthetic(config: DataConfig) -> Halves:
    """Images of CIFAR-10's size, drawn from a fixed seed."""
    from knltrain.data.synthetic import load_synthetic

    return load_synthetic(config.train_images, config.test_images)


def synthetic_labels(config: DataConfig) -> Halves:
    """Such images with several classes each, or none."""
    from knltrain.data.synthetic_labels import load_synthetic_labels

    return load_synthetic_labels(config.train_images, config.test_images)


def digits_extent(_config: DataConfig) -> Extent:
    """How many digits there are."""
    from knltrain.data.digits import EXTENT

    return EXTENT


def mnist_extent(config: DataConfig) -> Extent:
    """The size of MNIST, by the headers of its files."""
    from knltrain.data.mnist import mnist_extent

    return mnist_extent(folder_of(config))


def mnist_t10k_extent(config: DataConfig) -> Extent:
    """The size of its test half."""
    from knltrain.data.mnist import mnist_extent

    return mnist_extent(folder_of(config), alone=True)


def synthetic_extent(_config: DataConfig) -> Extent:
    """How many images can be drawn."""
    from knltrain.data.synthetic import EXTENT

    return EXTENT


def synthetic_labels_extent(_config: DataConfig) -> Extent:
    """How many images with several classes can be drawn."""
    from knltrain.data.synthetic_labels import EXTENT

    return EXTENT


def cpu_backend(
    config: RunConfig, network: Network, batch: int, threads: int, _space: VectorSpace | None
) -> Backend:
    """The kernels of `backend.implementation` on a static plan."""
    from knltrain.backends.cpu import CpuBackend

    chosen = config.backend
    precision = precision_of(chosen)
    if chosen.implementation == "numba":
        from vectorized_ops.numba.compiling.journal import limit_tuning

        tuning = "fixed" if config.train.deterministic else chosen.tuning
        limit_tuning(tuning, chosen.tuning_seconds)
    implementation = chosen.implementation
    if implementation == "numba":
        from vectorized_ops.implementations import OF_LAYOUTS

        implementation = OF_LAYOUTS[layout_for(chosen, network, batch, precision)]
    algorithms: Algorithms = {}
    if chosen.algorithms:
        from knltrain.backends.cpu.algorithms import asked_algorithms

        algorithms = asked_algorithms(network, chosen.algorithms)
    return CpuBackend(
        network,
        batch,
        threads,
        implementation,
        chosen.winograd,
        chosen.micro_batch,
        loss_of(config, network),
        algorithms,
        precision,
        chosen.emulate_bfloat16,
    )


def precision_of(chosen: BackendConfig) -> str:
    """What the precision of a backend means on this processor; that of other backends as it is."""
    precision = chosen.fitting_precision
    if precision == "float32" or chosen.name != "cpu":
        return precision
    from knltrain.backends.cpu.precision import precision_here

    return precision_here(precision, chosen.emulate_bfloat16)


def layout_for(
    chosen: BackendConfig, network: Network, batch: int, precision: str = "float32"
) -> str:
    """The layout of a worker's step: what was asked for, or what suits the images at a time."""
    from vectorized_ops.layout import IMAGE_LANES

    images = batch if chosen.micro_batch == "auto" else min(chosen.micro_batch or batch, batch)
    if chosen.layout != "auto":
        return chosen.layout
    if chosen.algorithms or precision != "float32" or images % IMAGE_LANES == 0:
        return "images_last"
    from knltrain.backends.cpu.layout import layout_of

    return layout_of(network, images)


def torch_backend(
    config: RunConfig, network: Network, batch: int, threads: int, space: VectorSpace | None
) -> Backend:
    """PyTorch's modules and autograd, run by `backend.engine`."""
    from knltrain.backends.torch.backend import TorchBackend
    from knltrain.backends.torch.mirrors import Mirrors

    chosen = config.backend
    mirrors = space if isinstance(space, Mirrors) else mirrors_of(config)
    graph = _graphs(config, mirrors.device)
    execution = ENGINES[chosen.engine](network, mirrors)
    loss = loss_of(config, network)
    return TorchBackend(
        network,
        batch,
        threads,
        execution,
        loss,
        mirrors,
        cast("Precision", chosen.precision),
        graph,
        config.train.deterministic,
    )


def _graphs(config: RunConfig, device: torch.device) -> Callable[[], Graph] | None:
    """What makes graphs of a device, where `backend.graphs` wants them."""
    if device.type == "cpu":
        return None
    from knltrain.backends.torch.graphs import cuda_graphs

    return cuda_graphs(device, config.backend.graphs)


def mirrors_of(config: RunConfig) -> Mirrors:
    """Copies of vectors on the device of `backend.device`; none on the host."""
    from knltrain.backends.torch.mirrors import Mirrors

    if config.backend.device == "cpu":
        return Mirrors()
    import torch

    from knltrain.backends.torch.devices import device_named

    device = device_named(config.backend.device)
    if device.type != "cpu":  # what asks for no device by name is to have no other one
        torch.accelerator.set_device_index(device.index or 0)
    return Mirrors(device)


def eager_execution(network: Network, mirrors: Mirrors) -> Execution:
    """PyTorch as it is."""
    from knltrain.backends.torch.execution import EagerExecution

    return EagerExecution(network, mirrors)


def compiled_execution(network: Network, mirrors: Mirrors) -> Execution:
    """PyTorch with what `torch.compile` makes of the modules."""
    from knltrain.backends.torch.compiled_execution import CompiledExecution

    return CompiledExecution(network, mirrors)


def ipex_execution(network: Network, mirrors: Mirrors) -> Execution:  # noqa: ARG001
    """PyTorch with Intel's extension, on the host; `ConfigError` where that is not installed."""
    from knltrain.backends.torch.ipex_execution import IpexExecution

    return IpexExecution(network)


ENGINES: dict[str, Callable[[Network, Mirrors], Execution]] = {
    "eager": eager_execution,
    "compile": compiled_execution,
    "ipex": ipex_execution,
}


def numba_kernels() -> Kernels:
    """Kernels compiled for this processor."""
    return Kernels("numba")


def reference_kernels() -> Kernels:
    """Kernels in plain NumPy."""
    return Kernels("reference")


def optimizer(name: str) -> MakesOptimizer:
    """An optimizer, by the function of this name in `knltrain.assembly.optimizers`."""

    def build(config: RunConfig, vector: Described, kernels: OptimizerKernels) -> Optimizer:
        made = getattr(import_module("knltrain.assembly.optimizers"), name)
        return cast("Optimizer", made(config, vector, kernels))

    return build


def device_optimizer(
    make: MakesOptimizer, config: RunConfig, network: Network, space: VectorSpace
) -> Optimizer:
    """The optimizer of `make` where the vectors of `space` are computed with."""
    from knltrain.backends.torch.device_optimizer import DeviceKernels, DeviceOptimizer
    from knltrain.backends.torch.mirrors import Mirrors

    assert isinstance(space, Mirrors)
    kernels = DeviceKernels(space, _graphs(config, space.device))
    return DeviceOptimizer(make(config, network, kernels), kernels)


def between_nodes(
    config: RunConfig, node: int, nodes: int, meeting_point: MeetingPoint, size: int
) -> NodeCollective:
    """The transport that `exchange.between_nodes` names, for the first worker of a node.

    Its vectors have up to `size` values.
    """
    from knltrain.worker.termination import MEETING_SECONDS

    limit, named = config.exchange.timeout_seconds, config.exchange.between_nodes
    assert named != "auto"
    if named in ("mpi", "gaspi"):
        from knltrain.communication.internode.mpi_collective import MpiCollective
        from knltrain.communication.rendezvous.torch_store import TorchStore, meeting_store

        store = TorchStore(meeting_store(meeting_point, MEETING_SECONDS))
        own = meeting_point.own_address
        by_mpi = MpiCollective(node, nodes, store, own, limit, MEETING_SECONDS)
        if named == "mpi":
            return by_mpi
        from knltrain.communication.gaspi import MPIRanks
        from knltrain.communication.internode.gaspi_collective import GaspiCollective

        return GaspiCollective(by_mpi, MPIRanks, size, limit, config.exchange.all_reduce)
    if named == "oneccl_bindings":
        from knltrain.communication.oneccl.archived import load_archived_bindings

        load_archived_bindings()
    if named == "ccl":
        import knltrain.torch_distributed  # noqa: F401  (registers it with torch)
    from knltrain.communication.internode.torch_collective import TorchCollective

    backend = "ccl" if named == "oneccl_bindings" else named
    return TorchCollective(backend, node, nodes, meeting_point, limit, MEETING_SECONDS)


def bfloat16(_config: RunConfig, kernels: Kernels, _size: int) -> WireFormat:
    """The upper half of each float32."""
    from knltrain.communication.internode.wire.formats import Bfloat16

    return Bfloat16(kernels.wire.rounding)


def int8(_config: RunConfig, kernels: Kernels, _size: int) -> WireFormat:
    """One byte for each value."""
    from knltrain.communication.internode.wire.formats import Int8

    return Int8(kernels.wire.rounding)


def float4(_config: RunConfig, kernels: Kernels, _size: int) -> WireFormat:
    """Four bits for each value."""
    from knltrain.communication.internode.wire.formats import Float4

    return Float4(kernels.wire.rounding)


def top_k(config: RunConfig, kernels: Kernels, size: int) -> WireFormat:
    """The values that are largest by magnitude."""
    from knltrain.communication.internode.wire.formats import TopK

    return TopK(kernels.wire.choosing, config.exchange.wire_top_share or TOP_SHARE, size)
