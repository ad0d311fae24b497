"""From the best epoch to a program without Python classes: torch.export, torch.jit.trace, and ONNX if it is installed.

RADE-OF evaluates as the plain model, so `rade.revert` gives that back, and it is exported as any PyG model. RADE-OFS
adds the expected additions at inference: it is exported as it is, wrapped. Both programs take graphs of any size.
"""

import copy
import importlib.util
import io
import warnings

import torch
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCN

import rade

EPOCHS = 30
SHAPES = {0: torch.export.Dim("nodes", min=2)}, {1: torch.export.Dim("edges", min=2)}  # of x and of edge_index


def best_epoch(variant: str, data, split, dataset) -> rade.RADE:
    """Train, and come back to the epoch with the best validation accuracy."""
    torch.manual_seed(0)
    model = rade.RADE(GCN(dataset.features, 32, num_layers=2, out_channels=dataset.classes), variant)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    best, state = -1.0, {}
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        logits = model.train()(data.x, data.edge_index)
        cross_entropy(logits[split.train], data.y[split.train]).backward()
        optimizer.step()
        with torch.no_grad():
            right = model.eval()(data.x, data.edge_index).argmax(1) == data.y
        if float(right[split.val].float().mean()) > best:
            best, state = float(right[split.val].float().mean()), copy.deepcopy(model.state_dict())
    model.load_state_dict(state)
    return model.eval()


def export(model: torch.nn.Module, x, edge_index, shapes) -> torch.export.ExportedProgram:
    """A program, after a way through a file."""
    with torch.no_grad():
        program = torch.export.export(model, (x, edge_index), dynamic_shapes=shapes)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


def main() -> None:
    warnings.simplefilter("ignore")  # exporting tells a lot about PyTorch itself
    dataset = rade.data.csbm(nodes=500, labelled=20, seed=1)
    data, split = dataset.graphs[0], dataset.split(run=0)
    other = rade.data.csbm(nodes=700, labelled=20, seed=2).graphs[0]  # another graph of another size
    for variant in ("of", "ofs"):
        model = best_epoch(variant, data, split, dataset)
        with torch.no_grad():
            expected = model(other.x, other.edge_index)
        if variant == "of":
            model, shapes = rade.revert(model), SHAPES
        else:
            shapes = {"args": SHAPES}  # forward of the wrapper takes whatever the model takes
        program = export(model, data.x, data.edge_index, shapes)
        traced = torch.jit.trace(model, (data.x, data.edge_index), check_trace=False)
        with torch.no_grad():
            for name, run in (("torch.export", program.module()), ("torch.jit.trace", traced)):
                gap = float((run(other.x, other.edge_index) - expected).abs().max())
                print(f"{variant}: {name} differs from the model by {gap:.0e} on a graph of {other.num_nodes} nodes")
        if importlib.util.find_spec("onnxscript"):
            torch.onnx.export(program).save(file := io.BytesIO())
            print(f"{variant}: ONNX takes {len(file.getvalue())} bytes")
        else:
            print(f"{variant}: for ONNX, pip install onnx onnxscript")


if __name__ == "__main__":
    main()
