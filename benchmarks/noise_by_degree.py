"""Spurious edges that prefer nodes of high degree: one JSON line per data set, seed and kind of noise.

    RADE_DATA=data python benchmarks/noise_by_degree.py --dataset cora,cs,computer --seeds 3 --out by_degree.jsonl

A GCN is trained on the clean graph as in `corrupted_graphs.py`. Then as many spurious edges as real ones are added,
their ends uniform or drawn by degree, q_ij ∝ d_i d_j, and predicted plainly, with their mean taken off as if it were
uniform, and with `rade.Trust.by_degree`; the true share is told. What is in the file already is not computed again.
"""

import argparse
import json
from pathlib import Path

import torch
from cases import Task
from corrupted_graphs import Job, trained, wrapped
from predictions import Judge
from torch_geometric.utils import coalesce

import rade
from rade.noise import rates_of
from rade.train.record import commit, versions

KINDS = {"uniform": 0.0, "by degree": 1.0}  # powers of the degree


def with_spurious(graph: rade.Graph, power: float, seed: int) -> rade.Graph:
    """The graph with as many random edges again; pairs that were there already are few and count once."""
    source = torch.Generator().manual_seed(seed)
    law, edges = graph.degree.double().pow(power), graph.edge_index
    ends = torch.multinomial(law, 2 * graph.num_edges, replacement=True, generator=source).view(2, -1)
    ends = ends[:, ends[0] != ends[1]]
    return rade.Graph.from_edge_index(coalesce(torch.cat([edges, ends, ends.flip(0)], 1)), graph.num_nodes)


def run(task: Task, seed: int) -> list[dict[str, object]]:
    """The lines of one model."""
    judge = Judge(task, wrapped(trained(task, Job(task.name, "gcn", "none", "clean", seed), task.graph)), seed)
    lines = []
    for kind, power in KINDS.items():
        noisy = with_spurious(task.graph, power, seed)
        share = 1.0 - task.graph.num_edges / noisy.num_edges
        rates = rates_of(noisy, share)
        ways = {
            "plain": rade.Expected(),
            "mean": rade.Denoised(rates),
            "mean by degree": rade.Denoised(rates, rade.Trust.by_degree(noisy)),
        }
        scores = {name: judge.score(judge.outputs(noisy, way))["accuracy"] for name, way in ways.items()}
        found = {"dataset": task.name, "seed": seed, "noise": kind, "share": round(share, 4)}
        lines.append({**found, "scores": scores, "commit": commit(), "versions": versions()})
    return lines


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="cora,cs,computer", help="names separated by commas")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    rows = map(json.loads, asked.out.read_text("utf-8").splitlines() if asked.out.exists() else ())
    done = {(row["dataset"], row["seed"]) for row in rows}
    for name in asked.dataset.split(","):
        task = Task.of(name)
        for seed in range(200, 200 + asked.seeds):
            if (name, seed) not in done:
                with asked.out.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(line) + "\n" for line in run(task, seed))


if __name__ == "__main__":
    main()
