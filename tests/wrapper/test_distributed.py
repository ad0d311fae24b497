"""Two processes under torchrun (gloo): one set of rates, different views."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from ddp_worker import inputs, same_data

import rade


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What both ranks saw."""
    folder = tmp_path_factory.mktemp("ddp")
    worker = Path(__file__).with_name("ddp_worker.py")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(worker), str(folder)]
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
