"""From settings to a learner, and a trained learner in a file."""

from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from rade.data import Dataset
from rade.errors import Diverged, RunError
from rade.train.backbones import build_backbone
from rade.train.batches import batches_of
from rade.train.files import load_tensors, save_tensors
from rade.train.learner import BackboneLearner, Context
from rade.train.methods import make
from rade.train.process import rank
from rade.train.settings import Settings
from rade.train.tasks import derive, generator, problem_of


@dataclass(frozen=True)
class Shape:
    """What a model must know of its data set."""

    level: str
    features: int
    outputs: int
    encoder: str
    loss: str
    density: float

    @staticmethod
    def of(dataset: Dataset) -> "Shape":
        """The shape of a data set: a binary one has a single logit."""
        outputs = 1 if dataset.loss == "binary" else dataset.classes
        return Shape(dataset.level, dataset.features, outputs, dataset.encoder, dataset.loss, dataset.density)


def build_learner(settings: Settings, shape: Shape, seed: int) -> BackboneLearner:
    """A fresh learner: parameters from `seed`, perturbations from `seed` and the rank of this process."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, 3))
        net = build_backbone(
            settings.backbone,
            shape.features,
            settings.hidden,
            shape.outputs,
            layers=settings.layers,
            pool=settings.pool,
            encoder=shape.encoder,
            projection=settings.projection,
        ).to(settings.device)
    draws = generator(seed, 4, rank(), device=settings.device)
    context = Context(draws, shape.density, shape.loss, settings.pool)
    method = make(settings.method, **settings.options)
    return BackboneLearner(method.around(net, context), draws, method).to(settings.device)


@dataclass(frozen=True)
class Trained:
    """A trained model, as `load_run` returns it."""

    settings: Settings
    shape: Shape
    seed: int
    learner: BackboneLearner

    @staticmethod
    def fresh(dataset: Dataset, settings: Settings, seed: int) -> "Trained":
        """Before the first step."""
        shape = Shape.of(dataset)
        return Trained(settings, shape, seed, build_learner(settings, shape, seed))

    @staticmethod
    def load(path: Path) -> "Trained":
        """Read a trained model; it computes on the CPU."""
        saved = load_tensors(path)
        try:
            settings = Settings(**{**saved["settings"], "device": "cpu"})
            shape, seed = Shape(**saved["shape"]), saved["seed"]
            learner = build_learner(settings, shape, seed)
            saved["state"].pop("_extra_state", None)  # of older models
            learner.load_state_dict(saved["state"])
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError):
            raise RunError(f"{path} is damaged or was written by another version of rade") from None
        if not all(bool(torch.isfinite(weights).all()) for weights in learner.parameters()):
            raise RunError(f"{path} holds weights that are not finite and cannot predict; train the model again")
        return Trained(settings, shape, seed, learner.eval())

    def save(self, path: Path) -> None:
        """Write what `load` needs."""
        settings, shape, state = self.settings.model_dump(), asdict(self.shape), self.learner.state_dict()
        save_tensors(path, {"settings": settings, "shape": shape, "seed": self.seed, "state": state})

    def predict(self, dataset: Dataset) -> Tensor:
        """Logits of every node, or of every graph, of a data set with the same features and outputs: [N, C]."""
        there, here = asdict(Shape.of(dataset)), asdict(self.shape)
        for name in ("level", "features", "outputs", "encoder"):
            if there[name] != here[name]:
                raise RunError(
                    f"the model was trained on {self.settings.dataset} ({name}: {here[name]}) and cannot be used on "
                    f"{dataset.name} ({name}: {there[name]})"
                )
        batches = batches_of(problem_of(dataset, self.settings), dataset.split(0), self.settings, self.seed)
        logits = batches.predict(self.learner.eval())
        if not bool(torch.isfinite(logits).all()):
            raise Diverged(f"the model's outputs on {dataset.name} are not finite; no class can be read from them")
        return logits
