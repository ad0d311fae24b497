"""PyG's GraphSAGE on sampled neighborhoods: every batch takes one training step and one step of the rates.

The density is given for the whole graph, since a batch is denser than the graph it was cut from.
"""

import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GraphSAGE

import rade

FANOUTS, BATCH, EPOCHS = [10, 5], 256, 8


def main() -> None:
    dataset = rade.data.csbm(nodes=3000, labelled=300, seed=1)
    data, split = dataset.graphs[0], dataset.split(run=0)
    torch.manual_seed(0)
    net = GraphSAGE(dataset.features, 64, num_layers=2, out_channels=dataset.classes, dropout=0.3)
    model = rade.RADE(net, rule=rade.GradNorm(), density=dataset.density)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    batches = rade.data.NeighborLoader(data, FANOUTS, BATCH, split.train, shuffle=True)
    for epoch in range(EPOCHS):
        model.train()
        for batch in batches:
            x, seeds = batch.x, torch.arange(batch.batch_size)  # labelled seeds come first
            optimizer.zero_grad()
            loss = cross_entropy(model(x, batch.edge_index)[seeds], batch.y[seeds])
            loss.backward()
            optimizer.step()
            model.adapt(x, batch.edge_index, labelled=seeds)
        model.eval()
        with torch.no_grad():  # RADE-OF: inference on the full graph is the plain model
            right = model(data.x, data.edge_index).argmax(1) == data.y
        p, rho = model.rates.p, model.rate_state.rho_now
        print(f"epoch {epoch + 1}: test {right[split.test].float().mean():.1%}, p = {p:.3f}, ρ = {rho:.3f}")


if __name__ == "__main__":
    main()
