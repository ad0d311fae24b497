"""Graph classification: PyG's Batch goes in, logits of graphs come out, and no edge is ever added between two graphs.

Say how nodes are pooled, `Readout(pool="mean")`, and the variance of a graph's logit is computed exactly: an undirected
edge reaches both its ends, and both reach the pooled logit. The label is the topic of a graph's noisy words. Pooling
averages most of the noise by itself, so that plain training is about as good here; this example is about the usage.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv, global_mean_pool
from torch_geometric.utils import erdos_renyi_graph

import rade

WORDS, EPOCHS = 200, 20


def graph(topic: int) -> Data:
    """A random graph of 15 to 25 nodes; words of its topic are a little more frequent."""
    nodes = int(torch.randint(15, 26, (1,)))
    chance = torch.where(torch.arange(WORDS) % 2 == topic, 0.065, 0.05)
    words = (torch.rand(nodes, WORDS) < chance).float()
    return Data(x=words, edge_index=erdos_renyi_graph(nodes, 0.15), y=torch.tensor([topic]))


class GIN(torch.nn.Module):
    """Nothing of RADE in here."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = GINConv(self.mlp(features, hidden)), GINConv(self.mlp(hidden, hidden))
        self.head = torch.nn.Linear(hidden, classes)

    @staticmethod
    def mlp(inputs: int, hidden: int) -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(inputs, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, hidden))

    def forward(self, data: Batch) -> Tensor:
        x = self.conv1(data.x, data.edge_index).relu()
        x = self.conv2(x, data.edge_index).relu()
        logits: Tensor = self.head(global_mean_pool(x, data.batch))
        return logits


def density(graphs: list[Data]) -> float:
    """Of the data set, pooled: edges over pairs (edge_index has every edge twice)."""
    return sum(g.num_edges for g in graphs) / sum(g.num_nodes * (g.num_nodes - 1) for g in graphs)


def main() -> None:
    torch.manual_seed(0)
    graphs = [graph(k % 2) for k in range(400)]
    train, test = DataLoader(graphs[:100], 25, shuffle=True), Batch.from_data_list(graphs[100:])
    # The paper's penalty on additions is 0.1 for graph tasks.
    rule, readout = rade.GradNorm(penalty=0.1), rade.Readout(pool="mean")
    model = rade.RADE(GIN(WORDS, 32, 2), rule=rule, readout=readout, density=density(graphs[:100]))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        model.train()
        for batch in train:
            optimizer.zero_grad()
            cross_entropy(model(batch), batch.y).backward()
            optimizer.step()
            model.adapt(batch)  # all graphs of the batch are labelled: nothing to name
        if epoch % 5 == 4:
            model.eval()
            with torch.no_grad():
                right = (model(test).argmax(1) == test.y).float().mean()
            print(f"epoch {epoch + 1}: test {right:.1%}, p = {model.rates.p:.3f}, q = {model.rates.q:.4f}")
    for report in model.explain(test):
        shares = f"drops {report.drop_variance_share:.0%}, additions {report.add_variance_share:.0%} of the variance"
        print(f"{report.path}: keeps {report.expected_kept:.0f} edges, adds {report.expected_added:.0f}; {shares}")


if __name__ == "__main__":
    main()
