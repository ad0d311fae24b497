"""The settings of a run: the protocol per data set, backbone and method, and what the user overrides."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from rade.augment import METHODS, make
from rade.nn.backbones import BACKBONES
from rade.train.corruption import Corruption
from rade.train.errors import SettingsError, unknown
from rade.train.protocol import PROTOCOLS, defaults

LAYERS = 1000
LARGEST = 1e9  # of a method's options


class Settings(BaseModel):
    """Everything that decides a run's numbers, except the run's number itself: run r uses the seed `seed + r`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dataset: str
    backbone: str
    method: str
    options: dict[str, bool | int | float | str] = {}  # of the method
    # The upper bounds keep sizes, seeds and steps inside what PyTorch can count; no run comes near them.
    hidden: int = Field(ge=1, le=10**9)
    layers: int = Field(ge=1, le=LAYERS)
    pool: Literal["none", "sum", "mean"]
    projection: bool = False  # a linear map before the first convolution
    epochs: int = Field(ge=1, le=10**9)
    patience: int = Field(ge=0, le=10**9)
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
    corrupt: str = ""  # DROP,ADD[,SEED]: edges of the data set dropped and added on purpose
    test_corrupt: str = ""  # the same for the test alone, anew for every run: training and validation stay clean
    labels_per_class: int = Field(default=0, ge=0, le=10**9)  # of the split's training part; 0: all of them
    train_items: int = Field(default=0, ge=0, le=10**9)  # of the split's training part, at random; 0: all of them
    train_share: float = Field(default=0.0, ge=0, lt=1, allow_inf_nan=False)  # of all items, at random; 0: the split's
    protocol: str = Field(default="", exclude=True)  # where defaults came from: a label, no part of the settings

    @field_validator("fanouts", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """`15,10` on the command line is [15, 10] in a file."""
        return value.split(",") if isinstance(value, str) else value

    @field_validator("options")
    @classmethod
    def _countable(cls, options: dict[str, Any]) -> dict[str, Any]:
        for name, value in options.items():
            if isinstance(value, int | float) and not abs(value) <= LARGEST:
                raise ValueError(f"{name} must be a finite number of at most {LARGEST:g}, got {value!r}")
        return options

    @field_validator("corrupt", "test_corrupt")
    @classmethod
    def _corruption(cls, value: str) -> str:
        if value:
            Corruption.parse(value)
        return value

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
            raise ValueError("must name a device that PyTorch can use here") from None
        return value


def resolve(
    dataset: str, backbone: str = "gcn", method: str = "rade-of", protocol: str = PROTOCOLS[0], **overrides: Any
) -> Settings:
    """The protocol's settings with `overrides`, which may be fields of `Settings` or options of the method.

    >>> resolve("cora", "gat", "drop-edge", epochs=10).hidden
    256
    """
    if backbone not in BACKBONES:
        raise unknown("backbone", backbone, BACKBONES)
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    values = defaults(dataset, backbone, method, protocol)
    offered = offered_by(method, overrides)
    mine = set(Settings.model_fields)
    foreign = sorted(set(overrides) - mine - offered)
    if foreign:
        raise SettingsError(_no_such_setting(foreign[0], method, offered))
    values |= overrides
    if "fanouts" not in overrides and isinstance(values["layers"], int) and 1 <= values["layers"] <= LAYERS:
        values["fanouts"] = _one_per_layer(values["fanouts"], values["layers"])
    fields = {name: value for name, value in values.items() if name in mine}
    options = {name: value for name, value in values.items() if name in offered}
    names = {"dataset": dataset, "backbone": backbone, "method": method, "protocol": protocol}
    return _validated({**fields, **names, "options": options})


def all_options(settings: Settings) -> dict[str, Any]:
    """The method's options with its defaults filled in, those that its name fixes among them.

    >>> all_options(resolve("cora", "gcn", "drop-edge", rate=0))
    {'rate': 0.0}
    """
    default, chosen = METHODS[settings.method].value.options, make(settings.method, **settings.options).options
    floats = {name for name, value in default.items() if type(value) is float}
    return {name: float(value) if name in floats else value for name, value in chosen.items()}


def offered_by(method: str, asked: Mapping[str, Any]) -> frozenset[str]:
    """The options of a method beside what was asked for."""
    try:
        return METHODS[method].offered(asked)
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _one_per_layer(fanouts: list[int], layers: int) -> list[int]:
    """The protocol's fan-outs for any depth: the last one repeats."""
    return (fanouts + fanouts[-1:] * layers)[:layers]


def _validated(values: dict[str, Any]) -> Settings:
    try:
        settings = Settings(**values)
        make(settings.method, **settings.options)
    except ValidationError as error:
        raise SettingsError(_sentence(error)) from None
    except (ValueError, TypeError, OverflowError) as error:
        raise SettingsError(str(error)) from None
    return settings


def _sentence(error: ValidationError) -> str:
    """The first complaint, as a sentence that names the setting and what came."""
    first = error.errors()[0]
    reason = first["msg"].removeprefix("Input ").removeprefix("Value error, ").replace("should be", "must be")
    if not first["loc"]:
        return reason  # of several settings together
    name = str(first["loc"][0])
    if name == "options" and first["type"] == "value_error":
        return reason  # names the option and what came
    if name in ("corrupt", "test_corrupt"):
        return f"{name}: {reason}"  # says what came
    return f"{name} {reason[0].lower() + reason[1:]}, got {first['input']!r}"


def _no_such_setting(name: str, method: str, offered: frozenset[str]) -> str:
    if any(name in entry.known for entry in METHODS.values()):
        return f"method {method} has no option {name}; its options: {', '.join(sorted(offered)) or 'none'}"
    return str(unknown("setting", name, sorted(set(Settings.model_fields) | offered)))
