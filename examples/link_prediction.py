"""Link prediction: the model returns embeddings, a dot product decides, and the loss is taken over pairs.

Embeddings are no class scores, so rates that adapt must be told the loss: `Readout(loss=...)` gets the embeddings of
some rows and their ids, and returns the sum over pairs. `rule=rade.Constant(0.2, 0.1)` needs none of that.
"""

import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from torch_geometric.nn import GCNConv
from torch_geometric.utils import negative_sampling, stochastic_blockmodel_graph, to_undirected

import rade

BLOCKS, SIZE, FEATURES, EPOCHS = 6, 40, 16, 25
NODES = BLOCKS * SIZE


class Encoder(torch.nn.Module):
    """Nothing of RADE in here."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = GCNConv(FEATURES, 32), GCNConv(32, 16)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        z: Tensor = self.conv2(self.conv1(x, edge_index).relu(), edge_index)
        return z


def decode(z: Tensor, pairs: Tensor) -> Tensor:
    return (z[pairs[0]] * z[pairs[1]]).sum(1)


def graph(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Features, the edges that are known, and a fifth of all edges that are to be found."""
    torch.manual_seed(seed)
    inside = torch.full((BLOCKS, BLOCKS), 0.01).fill_diagonal_(0.2)
    edges = stochastic_blockmodel_graph([SIZE] * BLOCKS, inside)
    once = edges[:, edges[0] < edges[1]]
    hidden = torch.rand(once.shape[1]) < 0.2
    x = torch.eye(BLOCKS).repeat_interleave(SIZE, 0) @ torch.randn(BLOCKS, FEATURES) + 2 * torch.randn(NODES, FEATURES)
    return x, to_undirected(once[:, ~hidden], num_nodes=NODES), once[:, hidden]


def train(seed: int, wrap: bool) -> float:
    """Area under the ROC curve on hidden edges against pairs that are none."""
    x, known, hidden = graph(seed)
    pairs, truth = known, torch.ones(known.shape[1])

    def loss(z: Tensor, rows: Tensor) -> Tensor:
        """Of the pairs in use; ``z`` holds the rows that the last step's loss has reached."""
        everybody = z.new_zeros(NODES, z.shape[1]).index_copy(0, rows, z)
        return binary_cross_entropy_with_logits(decode(everybody, pairs), truth, reduction="sum")

    net = Encoder()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    rates = {"rule": rade.GradNorm(), "readout": rade.Readout(loss=loss)}
    model = rade.RADE(net, **rates).follow(optimizer) if wrap else net  # the one line
    for _ in range(EPOCHS):
        model.train()
        false = negative_sampling(known, NODES, known.shape[1])
        pairs = torch.cat([known, false], 1)
        truth = (torch.arange(pairs.shape[1]) < known.shape[1]).float()
        optimizer.zero_grad()
        binary_cross_entropy_with_logits(decode(model(x, known), pairs), truth).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        z = model(x, known)
    false = negative_sampling(torch.cat([known, hidden, hidden.flip(0)], 1), NODES, hidden.shape[1])
    scores = torch.cat([decode(z, hidden), decode(z, false)])
    if isinstance(model, rade.RADE):
        rho = model.rate_state.rho_now
        print(f"  seed {seed}: p from 0.5 to {model.rates.p:.3f}, ρ = q/density from 0.5 to {rho:.3f}")
    return float(roc_auc_score(torch.cat([torch.ones(hidden.shape[1]), torch.zeros(false.shape[1])]), scores))


def main() -> None:
    for name, wrap in (("plain GCN", False), ("RADE-OF", True)):
        scores = torch.tensor([train(seed, wrap) for seed in range(3)])
        print(f"{name}: AUC of hidden edges {scores.mean():.1%} ± {scores.std():.1%} over 3 graphs")


if __name__ == "__main__":
    main()
