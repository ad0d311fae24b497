"""The settings of a run: the protocol per data set, backbone and method, and what the user overrides."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from rade.data import resolve as resolve_dataset
from rade.errors import SettingsError, complaint, unknown
from rade.train.backbones import BACKBONES
from rade.train.methods import METHODS, find_method, known_options, make, no_such_option
from rade.train.protocol import PROTOCOLS, defaults, toml

LAYERS = 1000
COMPARED = ("none", "dropout", "drop-edge", "rade", "rade-of", "rade-ofs")
RUNS = 10**6
# Named by options of their own, or without influence on a single CPU's numbers.
_ELSEWHERE = {"dataset", "backbone", "method", "options", "seed", "threads", "device"}


class Plan(BaseModel):
    """How a run is trained, whatever is trained: what decides its numbers beside the problem and the run's number.

    Run r uses the seed `seed + r`. The upper bounds keep sizes, seeds and steps inside what PyTorch can count.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    dataset: str
    backbone: str
    method: str
    options: dict[str, bool | int | float | str] = {}  # of the method
    epochs: int = Field(ge=1, le=10**9)
    patience: int = Field(ge=0, le=10**9)  # 0: never early
    optimizer: Literal["adam", "adamw"]
    lr: float = Field(gt=0, le=1e30, allow_inf_nan=False)
    weight_decay: float = Field(default=0.0, ge=0)
    schedule: Literal["constant", "step", "plateau"]
    batch_size: int = Field(ge=0, le=10**9)
    eval_batch_size: int = Field(ge=0, le=10**9)
    fanouts: tuple[Annotated[int, Field(ge=-1, le=10**9)], ...]  # -1: all neighbors
    seed: int = Field(default=0, ge=0, le=2**62)
    threads: int = Field(default=0, ge=0, le=1024)  # 0: as torch chooses
    device: str = "cpu"
    protocol: str = Field(default="", exclude=True)  # where defaults came from: a label, no part of the settings

    @property
    def all_options(self) -> dict[str, Any]:
        """The method's options with its defaults filled in."""
        return dict(self.options)


class Settings(Plan):
    """Everything that decides a run of `rade train` or `rade reproduce`, except the run's number itself."""

    hidden: int = Field(ge=1, le=10**9)
    layers: int = Field(ge=1, le=LAYERS)
    pool: Literal["none", "sum", "mean"]
    projection: bool = False  # a linear map before the first convolution
    labels_per_class: int = Field(default=0, ge=0, le=10**9)  # of the split's training part; 0: all of them
    train_items: int = Field(default=0, ge=0, le=10**9)  # of the split's training part, at random; 0: all of them
    train_share: float = Field(default=0.0, ge=0, lt=1, allow_inf_nan=False)  # of all items, at random; 0: the split's

    @field_validator("fanouts", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """`15,10` on the command line is [15, 10] in a file."""
        return value.split(",") if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_choice_of_labels(self) -> "Settings":
        asked = [name for name in ("labels_per_class", "train_items", "train_share") if getattr(self, name)]
        if len(asked) > 1:
            raise ValueError(f"{asked[0]} and {asked[1]} contradict each other: both choose the training part")
        return self

    @field_validator("device")
    @classmethod
    def _available(cls, value: str) -> str:
        try:
            torch.zeros(1, device=value).item()  # the device "meta" holds no numbers
            torch.Generator(value)
        except (RuntimeError, AssertionError):
            raise ValueError(f"device must name a device that PyTorch can use here, got {value!r}") from None
        return value

    @property
    def all_options(self) -> dict[str, Any]:
        """The method's options with its defaults filled in, those that its name fixes among them.

        >>> resolve("cora", "gcn", "drop-edge", rate=0).all_options
        {'rate': 0.0}
        """
        return make(self.method, **self.options).named

    def command(self, run: int, threads: int) -> str:
        """`rade train …` with all that differs from the protocol's defaults, for this run alone.

        >>> resolve("mutag", "gin", "drop-edge", rate=0.3, seed=1000).command(7, threads=1)
        'rade train --dataset mutag --backbone gin --method drop-edge --protocol released --layers 4 --run 7 \
--seed 1000 --threads 1 --device cpu --set rate=0.3'
        """
        names = (self.dataset, self.backbone, self.method, self.protocol or PROTOCOLS[0])
        told: dict[str, Any] = dict(zip(("dataset", "backbone", "method", "protocol"), names))
        told |= {"layers": self.layers, "run": run, "seed": self.seed, "threads": threads, "device": self.device}
        words = [word for name, value in told.items() for word in (f"--{name}", str(value))]
        usual = resolve(*names, layers=self.layers)._flat()  # fan-outs follow the depth
        for name, value in self._flat().items():
            if value != usual[name]:
                words += ["--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
        return shlex.join(["rade", "train", *words])

    def _flat(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude=_ELSEWHERE) | self.all_options


def resolve(
    dataset: str, backbone: str = "gcn", method: str = "rade-of", protocol: str = PROTOCOLS[0], **overrides: Any
) -> Settings:
    """The protocol's settings with `overrides`, which may be fields of `Settings` or options of the method.

    >>> resolve("cora", "gat", "drop-edge", epochs=10).hidden
    256
    """
    if backbone not in BACKBONES:
        raise unknown("backbone", backbone, BACKBONES)
    check_options(overrides, [method])
    values, offered = defaults(dataset, backbone, method, protocol) | overrides, find_method(method).options
    fields = {name: value for name, value in values.items() if name in Settings.model_fields}
    options = {name: value for name, value in values.items() if name in offered}
    names = {"dataset": dataset, "backbone": backbone, "method": method, "protocol": protocol}
    try:
        make(method, **options)
        settings = Settings(**{**fields, **names, "options": options})
    except ValidationError as error:
        raise SettingsError(complaint(error)) from None
    except (ValueError, TypeError, OverflowError) as error:
        raise SettingsError(str(error)) from None
    if "fanouts" in overrides:
        return settings
    fanouts, layers = settings.fanouts, settings.layers  # for any depth: the last one repeats
    return settings.model_copy(update={"fanouts": (fanouts + fanouts[-1:] * layers)[:layers]})


@dataclass(frozen=True)
class Order:
    """What a user asked for: the settings of each method on one data set and backbone, and the numbers of runs."""

    settings: tuple[Settings, ...]
    runs: range


def make_order(asked: Mapping[str, Any]) -> Order:
    """Settings for each method; an option goes to the methods that have it, and at least one must."""
    asked = dict(asked)
    for name in ("dataset", "backbone", "protocol"):
        if not isinstance(asked.get(name, ""), str):
            raise SettingsError(f"{name} must be one name, got {asked[name]!r}")
    dataset = resolve_dataset(asked.pop("dataset", "csbm")).name
    backbone = asked.pop("backbone", "gcn")
    methods = _names(asked.pop("method", COMPARED))
    source = asked.pop("protocol", PROTOCOLS[0])
    runs = _which_runs(asked, defaults(dataset, backbone, methods[0], source)["runs"])
    check_options(asked, methods)
    settings = tuple(resolve(dataset, backbone, method, source, **meant_for(method, asked)) for method in methods)
    if "fanouts" in asked and (settings[0].batch_size == 0 or settings[0].pool != "none"):
        raise SettingsError(
            f"fanouts need neighbor sampling on one graph, which {dataset} does not use here; "
            "give a batch size of seed nodes (--batch-size), or leave them out"
        )
    return Order(settings, runs)


def _which_runs(asked: dict[str, Any], usual: int) -> range:
    """The numbers of the runs: `run` asks for a single one, `runs` for so many from 0 on."""
    if "run" in asked and "runs" in asked:
        raise SettingsError("run and runs contradict each other: one names a single run, the other counts several")
    runs = asked.pop("runs", 1 if "run" in asked else usual)
    first = asked.pop("run", 0)
    for name, value, least in (("runs", runs, 1), ("run", first, 0)):
        if type(value) is not int or not least <= value <= RUNS:
            raise SettingsError(f"{name} must be a whole number from {least} to {RUNS}, got {value!r}")
    return range(first, first + runs)


def parse_assignment(text: str) -> dict[str, Any]:
    """`NAME=VALUE`, the value as in TOML or a bare word.

    >>> parse_assignment("share_view=false"), parse_assignment("moments=delta")
    ({'share_view': False}, {'moments': 'delta'})
    """
    name, found, value = text.partition("=")
    if not found or not name.strip():
        raise SettingsError(f"--set expects NAME=VALUE, got {text!r}")
    if value.strip().lower() in ("true", "false"):
        value = value.lower()  # Python's spelling
    try:
        return {name.strip().replace("-", "_"): toml(f"value = {value}")["value"]}
    except (ValueError, RecursionError):
        return {name.strip().replace("-", "_"): value.strip()}


def _names(methods: Any) -> list[str]:
    """Names from a list whose elements may hold several, separated by commas; each once."""
    given = [methods] if isinstance(methods, str) else methods
    if not (isinstance(given, list | tuple) and all(isinstance(part, str) for part in given)):
        raise SettingsError(f"method must be a name or a list of names, got {methods!r}")
    names = list(dict.fromkeys(name.strip() for part in given for name in part.split(",") if name.strip()))
    if not names:
        raise SettingsError(f"method must name at least one method, got {methods!r}; known: {', '.join(METHODS)}")
    return names


def meant_for(method: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that every run has, and those of this method."""
    allowed = {*Settings.model_fields, *find_method(method).options}
    return {name: value for name, value in asked.items() if name in allowed}


def check_options(asked: Mapping[str, Any], methods: Sequence[str]) -> None:
    """Refuse options that no chosen method has, that do not exist, or that contradict each other."""
    fields = set(Settings.model_fields) - {"options", "protocol"}
    offered = fields.union(*(find_method(method).options for method in methods))
    for name in asked:
        if name in known_options() - offered:
            raise no_such_option(name, methods)
        if name not in offered:
            raise unknown("setting", name, sorted(offered | known_options() | {"run", "runs", "protocol"}))
    if "fanouts" in asked and asked.get("batch_size") == 0:
        raise SettingsError("fanouts and a batch size of 0 contradict each other: the whole graph needs no sampling")
