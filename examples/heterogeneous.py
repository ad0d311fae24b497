"""Papers and authors: PyG's `to_hetero` model wrapped in one line; a relation and its reverse share their views.

`T.ToUndirected` adds ("paper", "rev_writes", "author") to ("author", "writes", "paper"). RADE knows it by its prefix: a
paper that loses an author in a view is lost to that author as well. Reverses of other names are told by
views=rade.Views(reverse={"writes": "written_by"}). One seed does not say which model is better: `rade.compare` does.
"""

import torch
from torch.nn.functional import cross_entropy
from torch_geometric.data import HeteroData
from torch_geometric.nn import GraphSAGE, to_hetero
from torch_geometric.transforms import ToUndirected

import rade

PAPERS, AUTHORS, CLASSES, WIDTH, EPOCHS = 600, 300, 3, 16, 40


def library() -> HeteroData:
    """Authors write mostly about one subject; a paper's words tell little, those of its neighbors tell more."""
    generator = torch.Generator().manual_seed(0)
    subject, topic = torch.arange(AUTHORS) % CLASSES, torch.arange(PAPERS) % CLASSES
    author, paper = (torch.randint(count, (12_000,), generator=generator) for count in (AUTHORS, PAPERS))
    chance = torch.where(subject[author] == topic[paper], 0.4, 0.05)
    written = torch.rand(12_000, generator=generator) < chance
    data = HeteroData()
    words = torch.randn(CLASSES, WIDTH, generator=generator)
    data["paper"].x = 0.4 * words[topic] + torch.randn(PAPERS, WIDTH, generator=generator)
    data["paper"].y = topic
    data["author"].x = 0.4 * words[subject] + torch.randn(AUTHORS, WIDTH, generator=generator)
    data["author", "writes", "paper"].edge_index = torch.stack([author, paper])[:, written].unique(dim=1)
    return ToUndirected()(data)


def main() -> None:
    data = library()
    order = torch.randperm(PAPERS, generator=torch.Generator().manual_seed(1))
    train, test, y = order[:150], order[150:], data["paper"].y
    for name in ("plain", "RADE"):
        torch.manual_seed(0)
        model = to_hetero(GraphSAGE((-1, -1), 32, num_layers=2, out_channels=CLASSES), data.metadata())
        with torch.no_grad():
            model(data.x_dict, data.edge_index_dict)  # lazy layers meet their features
        if name == "RADE":
            model = rade.RADE(model)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(EPOCHS):
            optimizer.zero_grad()
            logits = model.train()(data.x_dict, data.edge_index_dict)["paper"]
            cross_entropy(logits[train], y[train]).backward()
            optimizer.step()
        with torch.no_grad():
            right = model.eval()(data.x_dict, data.edge_index_dict)["paper"].argmax(1) == y
        print(f"{name}: test accuracy {right[test].float().mean():.1%}")


if __name__ == "__main__":
    main()
