"""Two processes under torchrun (gloo): one set of rates, different views. This file is what each of them runs, too."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # a process of its own, which pytest tells no path

import rade
from own_rule import Slow
from zoo import LAYERS, Net, normal, random_edges, seeded


def inputs(part: int) -> tuple[Tensor, Tensor, Tensor]:
    """Ranks hold graphs of different size and density."""
    nodes = 30 + 10 * part
    return normal(nodes, 8, seed=part), random_edges(nodes, 60 + 40 * part, seed=part), torch.arange(nodes) % 3


def model_of(rule: rade.Rule, **options: Any) -> rade.RADE:
    torch.manual_seed(0)  # the generator is taken from it, and from the rank
    return rade.RADE(seeded(lambda: Net(LAYERS["GCNConv"])), rule=rule, **options)


def trained(model: rade.RADE, part: int, follow: bool) -> list[list[float]]:
    """Rates, and what the rule remembers, after each of four steps under DDP."""
    (x, edges, y), net, found = inputs(part), DistributedDataParallel(model), []
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    if follow:
        model.follow(optimizer)
    for _ in range(4):
        optimizer.zero_grad()
        cross_entropy(net.train()(x, edges), y).backward()
        optimizer.step()
        if not follow:
            model.adapt(x, edges)
        memory = model.rate_state.average if isinstance(model.rade.rule, Slow) else model.rate_state.first[0]
        found.append([model.rates.p, model.rates.q, float(memory)])
    return found


def resumed(model: rade.RADE) -> list[list[int]]:
    """The next view of one graph, after every rank has loaded the state of rank 0."""
    state = [model.state_dict()]
    dist.broadcast_object_list(state, src=0)
    model.load_state_dict(state[0])
    graph = rade.Graph.from_edge_index(inputs(0)[1], 30)
    return rade.sample_view(graph, model.rates, model._context.generator).edge_index.tolist()


def same_data() -> list[float]:
    """Equal data on both ranks and no views in G_data: the average over ranks is what one process computes."""
    (x, edges, y), model = inputs(0), model_of(rade.GradNorm(data_gradient="clean"))
    for _ in range(3):
        model.adapt(x, edges, labelled=rade.Labelled(loss=lambda logits: cross_entropy(logits, y)))
    return [float(value) for value in model.rate_state.first]


def worker(folder: Path) -> None:
    """One rank: trains, adapts, saves and resumes, and writes what it saw."""
    dist.init_process_group("gloo")
    rank, model = dist.get_rank(), model_of(rade.GradNorm(), views=rade.Views(shared=True))
    result = {
        "seed": model._context.generator.initial_seed(),
        "adapted": trained(model, rank, follow=False),
        "density": float(model.rate_state.density),
        "weights": [float(parameter.detach().sum()) for parameter in model.parameters()],
        "resumed": resumed(model),
        "followed": trained(model_of(rade.GradNorm()), rank, follow=True),
        "own rule": trained(model_of(Slow()), rank, follow=False),
        "same": same_data(),
    }
    (folder / f"{rank}.json").write_text(json.dumps(result))
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What both ranks saw."""
    folder = tmp_path_factory.mktemp("ddp")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", __file__, str(folder)]
    done = subprocess.run([sys.executable, *launch], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("way", ["adapted", "followed", "own rule"])
def test_rates_and_what_a_rule_remembers_are_the_same_on_all_ranks(ranks, way):
    """Bit for bit after every step, although the ranks hold different graphs; so are the parameters."""
    assert ranks[0][way] == ranks[1][way]
    assert len({rates[0] for rates in ranks[0][way]}) == 4  # they move
    assert ranks[0]["weights"] == ranks[1]["weights"]


def test_density_is_pooled_over_ranks(ranks):
    graphs = [rade.Graph.from_edge_index(inputs(part)[1], 30 + 10 * part) for part in range(2)]
    pooled = sum(graph.num_edges for graph in graphs) / sum(graph.num_pairs for graph in graphs)
    assert [rank["density"] for rank in ranks] == [pytest.approx(pooled, rel=1e-12)] * 2


def test_views_differ_between_ranks_from_the_start_and_after_a_common_checkpoint(ranks):
    """The same graph, rates and saved generator: rank 0 continues its stream, rank 1 branches off."""
    assert ranks[0]["seed"] != ranks[1]["seed"]
    assert ranks[0]["resumed"] != ranks[1]["resumed"]


def test_averages_over_ranks_are_those_of_one_process(ranks):
    """Equal data on both ranks: v = ∇θR and its inner products are averaged to what a single process has."""
    for rank in ranks:
        torch.testing.assert_close(torch.tensor(rank["same"]), torch.tensor(same_data()), rtol=1e-5, atol=0)


if __name__ == "__main__":
    worker(Path(sys.argv[1]))
