"""RADE: Random Add-Drop Edge for graph neural networks."""
