"""The figures that the mirror's description states."""

from dataclasses import dataclass

import torch

import rade.data


@dataclass(frozen=True)
class Facts:
    """graphs, nodes, undirected edges, features, classes; the number of each label; the split sizes."""

    sizes: tuple[int, int, int, int, int]
    labels: list[int]
    split: tuple[int, int, int]
    metric: str = "accuracy"
    loss: str = "multiclass"


FACTS = {
    "cora": Facts((1, 2708, 5278, 1433, 7), [351, 217, 418, 818, 426, 298, 180], (140, 500, 1000)),
    "citeseer": Facts((1, 3327, 4552, 3703, 6), [264, 590, 668, 701, 596, 508], (120, 500, 1000)),
    "pubmed": Facts((1, 19717, 44324, 500, 3), [4103, 7739, 7875], (60, 500, 1000)),
    "cs": Facts(
        (1, 18333, 81894, 6805, 15),
        [708, 462, 2050, 429, 1394, 2193, 371, 924, 775, 118, 1444, 2033, 420, 4136, 876],
        (10999, 3666, 3668),
    ),
    "computer": Facts(
        (1, 13752, 245861, 767, 10), [436, 2142, 1414, 542, 5158, 308, 487, 818, 2156, 291], (8251, 2750, 2751)
    ),
    "physics": Facts((1, 34493, 247962, 8415, 5), [5750, 5045, 17426, 2753, 3519], (20695, 6898, 6900)),
    "mutag": Facts((188, 3371, 3721, 7, 2), [63, 125], (169, 19, 19)),
    "proteins": Facts((1113, 43471, 81044, 3, 2), [663, 450], (1001, 112, 112)),
    "imdb-b": Facts((1000, 19773, 96531, 65, 2), [500, 500], (900, 100, 100)),
    "imdb-m": Facts((1500, 19502, 98903, 59, 3), [500, 500, 500], (1350, 150, 150)),
    "ogbg-molhiv": Facts((41127, 1049163, 1129688, 9, 1), [1443], (32901, 4113, 4113), metric="roc-auc", loss="binary"),
    "peptides-func": Facts(
        (15535, 2344859, 2386987, 9, 10),
        [1378, 545, 995, 969, 9745, 3077, 1662, 2866, 299, 4044],
        (10873, 2331, 2331),
        metric="average-precision",
        loss="multilabel",
    ),
    "minesweeper": Facts((1, 10000, 39402, 7, 1), [2000], (5000, 2500, 2500), metric="roc-auc", loss="binary"),
    "tolokers": Facts((1, 11758, 519000, 10, 1), [2566], (5879, 2939, 2940), metric="roc-auc", loss="binary"),
    "chameleon-filtered": Facts((1, 890, 8854, 2325, 5), [242, 134, 209, 164, 141], (409, 287, 194)),
    "squirrel-filtered": Facts((1, 2223, 46998, 2089, 5), [756, 516, 397, 321, 233], (1053, 718, 452)),
    "nci1": Facts((4110, 122747, 132753, 37, 2), [2053, 2057], (3699, 411, 411)),
}
WITHHELD = {"flickr": "Flickr/raw/feats.npy", "ogbn-arxiv": "ogbn_arxiv/raw/node-feat.csv.gz"}  # from `gaps`
TU = ("mutag", "proteins", "imdb-b", "imdb-m", "nci1")
NUMBERED = ("minesweeper", "tolokers", "chameleon-filtered", "squirrel-filtered")


def whole(dataset: rade.data.Dataset) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """x, edge_index and y of all graphs in one disjoint union."""
    if dataset.level == "node":
        data = dataset.graphs[0]
    else:
        data = dataset.graphs.batch(torch.arange(len(dataset.graphs)))
    return data.x, data.edge_index, data.y
