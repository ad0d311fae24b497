"""My graph has wrong edges: how many, which ones, and predictions that do not suffer from them.

A plain PyG GCN is trained on a graph without RADE. Then as many random edges as there are real ones appear, as in
scraped or nearest-neighbor graphs. `rade.estimate_noise` finds the share of spurious edges by the validation labels,
with evaluation passes only, and an inference that takes them off in the mean; `rade.Denoised` does so at rates that are
known. Nothing is trained again.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCN

import rade
from rade.noise import rates_of

DATASET = rade.data.csbm(2000, 5, degree=40, homophily=0.4, labelled=30, validation=0.2, content=rade.data.Words(300))
EPOCHS = 60


def trained(x: Tensor, edge_index: Tensor, y: Tensor, rows: Tensor) -> GCN:
    """Nothing of RADE in here."""
    torch.manual_seed(0)
    net = GCN(DATASET.features, 32, 2, DATASET.classes)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        cross_entropy(net(x, edge_index)[rows], y[rows]).backward()
        optimizer.step()
    return net


def main() -> None:
    data, split = DATASET.graphs[0], DATASET.split(run=0)
    x = data.x.to_dense() if data.x.layout != torch.strided else data.x
    net = trained(x, data.edge_index, data.y, split.train)
    clean = rade.Graph.from_edge_index(data.edge_index, len(x))
    rates = rade.Rates(p=0.0, q=clean.num_edges / clean.num_nonedges)
    noisy = rade.sample_view(clean, rates, torch.Generator().manual_seed(1)).edge_index
    model = rade.RADE(net, rule=rade.Constant(0, 0)).eval()

    def accuracy(inference: rade.Inference, edge_index: Tensor) -> float:
        right = model.by(inference)(x, edge_index).argmax(1) == data.y
        return float(right[split.test].float().mean())

    found = rade.estimate_noise(model, x, noisy, labels=data.y, rows=split.val)  # edges trusted alike, or by features
    print(f"clean graph: test accuracy {accuracy(rade.Expected(), data.edge_index):.1%}")
    print(f"as many spurious edges as real ones: {accuracy(rade.Expected(), noisy):.1%}")
    known = rade.Denoised(rates_of(rade.Graph.from_edge_index(noisy, len(x)), share=0.5))
    print(f"denoised, half of the edges known to be spurious: {accuracy(known, noisy):.1%}")
    print(f"denoised, noise estimated: {accuracy(found.inference, noisy):.1%}")
    print(f"the estimate: {found}")


if __name__ == "__main__":
    main()
