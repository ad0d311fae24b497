"""Whether what was saved belongs to what is asked for: the same settings, the same form."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from rade.train.errors import RunError
from rade.train.settings import Settings

REPEAT = "repeat those settings or choose another folder with --out"


def same_settings(saved: Any, wanted: Mapping[str, Any], path: Path, advice: str = REPEAT) -> None:
    """Refuse to mix the results of different settings; a file from before a setting was there has its default."""
    if not (isinstance(saved, dict) and isinstance(saved.get("options", {}), dict)):
        raise RunError(f"{path} holds no settings; delete it to start this run afresh")
    known = Settings.model_fields.items()
    optional = {name: field.default for name, field in known if not field.is_required() and not field.exclude}
    there, here = _flat(optional | saved), _flat(wanted)
    for name in {**here, **there}:
        if there.get(name) != here.get(name):
            raise RunError(f"{path} was made with {name} = {there.get(name)!r}, not {here.get(name)!r}; {advice}")


def same_key(saved: Any, wanted: str, path: Path) -> None:
    """Refuse what was made with equal settings but other defaults of the method, other data or another rade."""
    if saved != wanted:
        raise RunError(
            f"{path} has these settings, but was made from other data, with other defaults of its method or by another "
            "numerical version of rade; --overwrite makes it anew, --out chooses another folder"
        )


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with those of the method beside them."""
    return {**{name: value for name, value in settings.items() if name != "options"}, **settings.get("options", {})}


def check_alike(saved: Any, fresh: Any) -> None:
    """ValueError unless a saved nest has the keys, kinds and shapes of a fresh one."""
    if type(saved) is not type(fresh):
        raise ValueError(f"expected {type(fresh).__name__}, got {type(saved).__name__}")
    if isinstance(fresh, dict):
        if saved.keys() != fresh.keys():
            raise ValueError("other keys")
        for name in fresh:
            check_alike(saved[name], fresh[name])
    elif isinstance(fresh, list | tuple):
        if len(saved) != len(fresh):
            raise ValueError("another length")
        for one, other in zip(saved, fresh):
            check_alike(one, other)
    elif isinstance(fresh, Tensor) and (saved.shape, saved.dtype) != (fresh.shape, fresh.dtype):
        raise ValueError("another shape")


def check_dicts(*values: Any) -> None:
    """ValueError unless all are dictionaries; a tensor, too, can be indexed."""
    if not all(isinstance(value, dict) for value in values):
        raise ValueError("expected dictionaries")


def check_optimizer(saved: Any, optimizer: Optimizer) -> None:
    """ValueError unless a saved optimizer fits: its groups as they are now, its state in the parameters' shapes."""
    check_dicts(saved)
    check_dicts(saved["state"], *saved["state"].values())
    check_alike(saved["param_groups"], optimizer.state_dict()["param_groups"])
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, entry in saved["state"].items():
        shapes = {name: () if name == "step" else parameters[number].shape for name in ("step", *entry)}
        if entry.keys() != next(iter(saved["state"].values())).keys() or entry.keys() != shapes.keys():
            raise ValueError("other keys")
        if not all(isinstance(value, Tensor) and value.shape == shapes[name] for name, value in entry.items()):
            raise ValueError("another shape")
