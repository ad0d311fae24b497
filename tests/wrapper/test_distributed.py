"""Two processes under torchrun (gloo): one set of rates, different views."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from ddp_worker import inputs
from torch.nn.functional import cross_entropy

import rade
from zoo import LAYERS, Net, seeded


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What both ranks saw."""
    folder = tmp_path_factory.mktemp("ddp")
    worker = Path(__file__).with_name("ddp_worker.py")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(worker), str(folder)]
    done = subprocess.run([sys.executable, *launch], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def test_rates_are_identical_on_all_ranks_after_every_step(ranks):
    """Bit for bit, although the ranks hold different graphs; so are the parameters."""
    first, second = (rank["GCNConv"] for rank in ranks)
    print(f"(p, q) after each step on rank 0 {first['trajectory']}, on rank 1 {second['trajectory']}")
    assert first["trajectory"] == second["trajectory"]
    assert first["weights"] == second["weights"]
    assert first["trajectory"][0][0] != 0.5
    assert len({tuple(rates) for rates in first["trajectory"]}) == 5


def test_density_is_pooled_over_ranks(ranks):
    graphs = [rade.Graph.from_edge_index(inputs(part)[1], 30 + 10 * part) for part in range(2)]
    pooled = sum(graph.num_edges for graph in graphs) / sum(graph.num_pairs for graph in graphs)
    assert [rank["GCNConv"]["density"] for rank in ranks] == [pytest.approx(pooled, rel=1e-12)] * 2


def test_views_differ_between_ranks(ranks):
    """The ranks' graphs differ in size: compare shares of kept edges, and the views after a common restart."""
    sizes = [inputs(part)[1].shape[1] for part in range(2)]
    shares = [[kept / size for kept in rank["GCNConv"]["views"]] for rank, size in zip(ranks, sizes)]
    assert shares[0] != shares[1]
    assert ranks[0]["seeds"] != ranks[1]["seeds"]


def test_ranks_that_resume_one_checkpoint_go_separate_ways(ranks):
    """The same graph, rates and saved generator: rank 0 continues its stream, rank 1 branches off."""
    assert ranks[0]["GCNConv"]["resumed"] != ranks[1]["GCNConv"]["resumed"]


def test_averages_over_ranks_are_those_of_one_process(ranks):
    """Equal data on both ranks: v = ∇θR and its inner products are averaged to what a single process has."""
    x, edges, y = inputs(0)
    model = rade.RADE(seeded(lambda: Net(LAYERS["GCNConv"])), rule=rade.GradNorm(data_gradient="clean"))
    for _ in range(3):
        model.adapt(x, edges, labelled=rade.Labelled(loss=lambda logits: cross_entropy(logits, y)))
    for rank in ranks:
        torch.testing.assert_close(torch.tensor(rank["same"]).double(), model.rate_state.first, rtol=1e-5, atol=0)


def test_a_rule_of_ones_own_is_the_same_on_all_ranks(ranks):
    """It sees the averaged gradients, and its memory is a buffer like the rates."""
    first, second = (rank["own rule"] for rank in ranks)
    assert first == second
    assert len(set(first[0::3])) == 3
    assert first[1] == first[0] / (1 + first[0])


def test_following_an_optimizer_is_the_same_on_all_ranks(ranks):
    assert ranks[0]["followed"] == ranks[1]["followed"]
    assert len(set(ranks[0]["followed"][0::2])) == 3
