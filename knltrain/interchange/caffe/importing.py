"""A solver or net of Caffe as files of ours: the run's TOML and the network's JSON."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, final

from knltrain.config.explaining import explain
from knltrain.config.run import RunConfig
from knltrain.errors import ConfigError
from knltrain.interchange.caffe.config_text import config_text, tables_of
from knltrain.interchange.caffe.message import Message
from knltrain.interchange.caffe.net import CaffeNet, network_of
from knltrain.interchange.caffe.net_layer import MapShape
from knltrain.interchange.caffe.phases import NetState
from knltrain.interchange.caffe.settings import Setting
from knltrain.interchange.caffe.solver import settings_of
from knltrain.interchange.caffe.sources import known_data
from knltrain.interchange.caffe.tested_nets import check_test_net
from knltrain.interchange.caffe.text_format import read_prototxt
from knltrain.network.description import network_to_json
from knltrain.network.network import Network

_OF_NETS: Final = {"layer", "layers", "input"}
_NETS_OF_SOLVERS: Final = ("net", "train_net", "net_param", "train_net_param")


@final
@dataclass(frozen=True, slots=True)
class Imported:
    """Contents of the files, None where there is none; `notes` are what was dropped."""

    network: Network
    network_json: str
    config_toml: str | None
    notes: tuple[str, ...]
    optimizer_state: bytes | None = None


@final
@dataclass(frozen=True, slots=True)
class Resumed:
    """A .solverstate, its weights if they lie elsewhere now, and the name of our file of it."""

    solverstate: Path
    weights: Path | None
    file: str


def import_caffe(
    path: Path,
    network_file: str,
    data: str | None = None,
    shape: MapShape | None = None,
    resumed: Resumed | None = None,
) -> Imported:
    """Read a solver with its net, or a net alone, which gives no configuration.

    `network_file` is what the configuration calls the network's file. `data` names the data set
    to train on, `shape` is that of its images (H,W,C); both may be left out where the net tells
    them. The run goes on from where `resumed` has stopped. Raises ConfigError with a line for all
    that is malformed or cannot be kept, and NetworkError for a .solverstate that does not fit.
    """
    told = read_prototxt(path)
    if any(field.name in _OF_NETS for field in told.fields):
        if resumed is not None:
            raise ConfigError(f"{path} is a net: expected its solver beside a .solverstate")
        found = network_of(told, NetState("TRAIN"), NetState("TEST"), shape)
        return Imported(found.network, network_to_json(found.network), None, found.notes)
    net, notes = _net_of(told, path)
    train, test = NetState("TRAIN"), NetState("TEST")
    train = train.merged(told.message("train_state"))
    states = told.messages("test_state")
    for state in states[:1]:
        test = test.merged(state)
    found = network_of(net, train, test, shape)
    net.read_all()  # It may be one of the solver's fields.
    batch, more = _test_nets(told, path, found, found.source.shape)
    found = replace(found, test_batch=batch)
    for state in states[1:]:
        state.read_all()
        more += (f"{told.place(state.line)}: test_state dropped: the first is tested",)
    notes += more
    settings = settings_of(told, found)
    refusals = list(settings.refusals)
    try:
        name = Setting("data.name", *_data(found, data, net.file))
    except ConfigError as error:
        refusals.append(str(error))
    if refusals:
        raise ConfigError("\n".join(refusals))
    layers = "its layers, with their lines, are below"
    known = [
        *settings.settings,
        Setting("network.name", network_file, layers),
        name,
        Setting("exchange.method", "sync_sgd", "as several solvers of Caffe: the mean gradient"),
    ]
    notes = (*notes, *found.notes, *settings.notes)
    kept = None
    if resumed is not None:
        known, kept = _going_on(known, found, resumed)
        notes += (
            f"{resumed.solverstate}: its weights have seen the images of the net, here they are "
            "standardised: the loss is higher at first",
        )
    text = config_text(str(path), net.file, known, found, notes)
    _check(known, str(path))
    return Imported(found.network, network_to_json(found.network), text, notes, kept)


def _going_on(known: list[Setting], net: CaffeNet, resumed: Resumed) -> tuple[list[Setting], bytes]:
    """The settings with weights and state of the .solverstate, and the state's file."""
    from knltrain.interchange.caffe.solverstate import optimizer_vectors, read_solverstate
    from knltrain.interchange.optimizer_file import optimizer_file

    path = resumed.solverstate
    state = read_solverstate(path)
    optimizer = next(each.value for each in known if each.key == "optimizer.name")
    vectors = optimizer_vectors(state, net, optimizer, path)
    steps = next(each.value for each in known if each.key == "train.steps")
    if state.iteration >= steps:
        raise ConfigError(
            f"{path} is of iteration {state.iteration}: expected one before max_iter, {steps}"
        )
    weights, origin = resumed.weights, "--weights"
    if weights is None:
        named = Path(state.learned_net)
        origin = f"learned_net of {path.name}"
        places = (named, path.parent / named.name)
        weights = next((each for each in places if each.suffix and _is_file(each)), None)
    if weights is None:
        raise ConfigError(
            f"{path}: its weights '{state.learned_net}' are neither there nor beside it: expected "
            "their place, --weights FILE.caffemodel"
        )
    kept = [each for each in known if each.key != "network.weights"]
    return [
        *kept,
        Setting("network.weights", str(weights), origin),
        Setting("train.first_step", state.iteration, f"iteration of {path.name}"),
        Setting("train.optimizer_state", resumed.file, f"history of {path.name}"),
    ], optimizer_file(vectors)


def _data(net: CaffeNet, given: str | None, file: str) -> tuple[str, str]:
    """The name of the data set, and where it comes from."""
    source, line = net.source.source, net.source.line
    if given is not None:
        return given, f"--data, for {source or net.source.kind} of the net's line {line}"
    found = known_data(source)
    if found is None:
        raise ConfigError(
            f"{file}:{line}: {net.source.kind} '{source}' cannot be read here: expected a data set "
            "of knltrain, as --data synthetic"
        )
    return found, f"source '{source}' of the net's line {line}"


def _net_of(solver: Message, path: Path) -> tuple[Message, tuple[str, ...]]:
    """The net that a solver trains, and a note where its file was found."""
    given = [name for name in _NETS_OF_SOLVERS if solver.line_of(name) is not None]
    if len(given) != 1:
        told = " and ".join(f"{name} (line {solver.line_of(name)})" for name in given)
        raise solver.error(
            solver.line, f"{told or 'no net'}: expected one of {', '.join(_NETS_OF_SOLVERS)}"
        )
    if given[0].endswith("_param"):
        return solver.message(given[0]), ()
    return _net_file(solver, given[0], solver.text(given[0]), path)


def _net_file(
    solver: Message, field: str, named: str, path: Path
) -> tuple[Message, tuple[str, ...]]:
    folder = path.absolute().parent
    for base in (Path(), folder, *folder.parents):
        if _is_file(base / named):
            found = read_prototxt(base / named)
            is_here = base == Path()
            return found, () if is_here else (f"{path}: {field} '{named}' is {base / named}",)
    raise solver.error(
        solver.line_of(field) or solver.line,
        f"{field}: '{named}' is neither in the working folder nor in {folder} nor above it",
    )


def _test_nets(
    solver: Message, path: Path, trained: CaffeNet, shape: MapShape | None
) -> tuple[int | None, tuple[str, ...]]:
    """Check that test nets are that which is trained; images of a test batch, and notes."""
    nets = [_net_file(solver, "test_net", named, path) for named in solver.texts("test_net")]
    nets += [(each, ()) for each in solver.messages("test_net_param")]
    batch = trained.test_batch
    for place, (net, _) in enumerate(nets):
        state = NetState("TEST")
        for told in solver.messages("test_state")[place : place + 1]:
            state = state.merged(told)
        found = network_of(net, state, state, shape)
        net.read_all()
        check_test_net(trained, found, f"{path}: test_net {net.file}")
        if place == 0:
            batch = found.source.batch
    return batch, tuple(note for _, notes in nets for note in notes)


def _is_file(path: Path) -> bool:
    """Whether a file can be seen there: not so in closed folders, or where names are too long."""
    try:
        return path.is_file()
    except OSError:
        return False


def _check(settings: list[Setting], path: str) -> None:
    """Refuse what no configuration may have, before anything is written."""
    from pydantic import ValidationError

    try:
        RunConfig.model_validate(tables_of(settings))
    except ValidationError as error:
        lines = [f"{path}: as a configuration, {line}" for line in explain(error)]
        raise ConfigError("\n".join(lines)) from error
