"""A LightningModule: wrap the network, and let the rates follow the optimizer that `configure_optimizers` returns.

Nothing else changes: Lightning passes forward, backward and zero_grad to the optimizer's step as a closure, and the
rates take a step after it. Checkpoints hold the rates with the weights. Needs `pip install lightning`.
"""

import logging
import warnings

import lightning
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GIN, global_add_pool
from torch_geometric.utils import erdos_renyi_graph

import rade


class Net(torch.nn.Module):
    """Nothing of RADE in here."""

    def __init__(self) -> None:
        super().__init__()
        self.gnn, self.head = GIN(8, 32, 2), torch.nn.Linear(32, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        logits: Tensor = self.head(global_add_pool(self.gnn(x, edge_index), batch))
        return logits


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        rule = rade.GradNorm(penalty=0.1, max_p=0.9)
        self.model = rade.RADE(Net(), rule=rule, readout=rade.Readout(pool="sum"))  # the one line

    def training_step(self, batch: Data, _: int) -> Tensor:
        return cross_entropy(self.model(batch.x, batch.edge_index, batch.batch), batch.y)

    def validation_step(self, batch: Data, _: int) -> None:
        logits = self.model(batch.x, batch.edge_index, batch.batch)
        self.log("accuracy", (logits.argmax(1) == batch.y).float().mean(), batch_size=batch.num_graphs)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        self.model.follow(optimizer)  # and the second one
        return optimizer


def graphs(count: int) -> list[Data]:
    """Sparse and dense random graphs: which is which?"""
    found = []
    for number in range(count):
        edge_index = erdos_renyi_graph(20, 0.1 + 0.1 * (number % 2))
        found.append(Data(x=torch.randn(20, 8) + 0.5, edge_index=edge_index, y=torch.tensor([number % 2])))
    return found


def main() -> None:
    warnings.filterwarnings("ignore", module="lightning")  # advice on numbers of workers
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    lightning.seed_everything(0, verbose=False)
    train, val = DataLoader(graphs(128), 16, shuffle=True), DataLoader(graphs(64), 64)
    module = Classifier()
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = lightning.Trainer(max_epochs=15, accelerator="cpu", **quiet)
    trainer.fit(module, train, val)
    steps = int(module.model.rate_state.steps)
    print(f"p from 0.5 to {module.model.rates.p:.3f} in {steps} steps of the rates, one per step of the optimizer")
    print(f"validation accuracy {float(trainer.callback_metrics['accuracy']):.1%}")


if __name__ == "__main__":
    main()
