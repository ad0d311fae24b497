"""From settings to a learner, and a trained learner in a file."""

from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from rade import RADE, Constant, Denoised, Expected, Inference, Rates, estimate_noise
from rade.data import Dataset
from rade.errors import Diverged, RunError, SettingsError
from rade.train.backbones import Backbone, build_backbone
from rade.train.baselines import Plain
from rade.train.batches import batches_of
from rade.train.files import load_tensors, save_tensors
from rade.train.learner import BackboneLearner, Context, alike
from rade.train.methods import make
from rade.train.process import rank
from rade.train.settings import Settings
from rade.train.stages import check_noise, parse_noise, problem_of, require_whole_graph, split_for, trust_in
from rade.train.tasks import derive, generator


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


def build_learner(settings: Settings, shape: Shape, seed: int, dataset: Dataset | None = None) -> BackboneLearner:
    """A fresh learner: parameters from `seed`, perturbations from `seed` and the rank of this process.

    A method that trusts single edges finds those of the `dataset`'s graph; without one all are trusted alike.
    """
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
    trust = alike if dataset is None else partial(trust_in, dataset)
    context = Context(draws, shape.density, shape.loss, settings.pool, trust)
    method = make(settings.method, **settings.options)
    return BackboneLearner(method.around(net, context), draws, method).to(settings.device)


@dataclass(frozen=True)
class Trained:
    """A trained model, as `load_run` returns it; settings: as it was trained, or of one that predicts otherwise."""

    settings: Settings
    shape: Shape
    seed: int
    learner: BackboneLearner

    @staticmethod
    def fresh(dataset: Dataset, settings: Settings, seed: int) -> "Trained":
        """Before the first step."""
        shape = Shape.of(dataset)
        return Trained(settings, shape, seed, build_learner(settings, shape, seed, dataset))

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

    def by(self, inference: Inference) -> "Trained":
        """The same model, predicting in another way; one that was trained without RADE as well.

        What its method was told of noise in the graph is then forgotten.
        """
        net, (base,) = self.learner.net, [part for part in self.learner.modules() if isinstance(part, Backbone)]
        if isinstance(net, RADE) and net.rade.variant.corrects:
            own, density = net.rade, self.shape.density
            model = RADE(base, own.variant, rule=own.rule, inference=inference, density=density)
            model.rate_state.load_state_dict(net.rate_state.state_dict())
        else:
            model = RADE(base, rule=Constant(0.0, 0.0), inference=inference, density=self.shape.density)
        learner = BackboneLearner(model, self.learner.generator, Plain()).eval()
        return replace(self, settings=self.settings.model_copy(update={"options": {}}), learner=learner)

    def denoised(self, dataset: Dataset, noise: str) -> tuple["Trained", str]:
        """The same model, undoing noise `P,Q[,features]`, or for `auto` what the validation labels of its run say."""
        if noise == "auto":
            return self._estimated(dataset)
        options = parse_noise(noise)
        check_noise(dataset, self.settings.model_copy(update={"options": options}))
        rates, by_features = Rates(options["noise_p"], options["noise_q"]), "noise_trust" in options
        words = f"p = {rates.p:g}, q = {rates.q:g}, edges trusted {'by features' if by_features else 'alike'}"
        return self.by(Denoised(rates, trust_in(dataset, rates) if by_features else Denoised.trust)), words

    def _estimated(self, dataset: Dataset) -> tuple["Trained", str]:
        require_whole_graph(dataset, self.settings)
        if dataset.level != "node" or dataset.loss != "multiclass":
            raise SettingsError(
                "noise is estimated on data sets of one graph with classes of nodes, "
                f"not on {dataset.name}; give rates P,Q"
            )
        model, data = self.by(Expected()).learner.net, dataset.graphs[0]
        assert isinstance(model, RADE)
        rows = split_for(dataset, self.settings, self.seed - self.settings.seed).val
        found = estimate_noise(model, data.x, data.edge_index, labels=data.y, rows=rows)
        return self.by(found.inference), str(found)

    def predict(self, dataset: Dataset) -> Tensor:
        """Logits of every node, or of every graph, of a data set with the same features and outputs: [N, C]."""
        there, here = asdict(Shape.of(dataset)), asdict(self.shape)
        for name in ("level", "features", "outputs", "encoder"):
            if there[name] != here[name]:
                raise RunError(
                    f"the model was trained on {self.settings.dataset} ({name}: {here[name]}) and cannot be used on "
                    f"{dataset.name} ({name}: {there[name]})"
                )
        problem, learner = problem_of(dataset, self.settings), self.learner
        if self.settings.options.get("noise_trust"):  # in the single edges of this graph
            learner = build_learner(self.settings, self.shape, self.seed, dataset)
            learner.load_state_dict(self.learner.state_dict())
        logits = batches_of(problem, dataset.split(0), self.settings, self.seed).predict(learner.eval())
        if not bool(torch.isfinite(logits).all()):
            raise Diverged(f"the model's outputs on {dataset.name} are not finite; no class can be read from them")
        return logits
