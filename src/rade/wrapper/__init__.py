"""`RADE(model)`: any PyG model on random views."""
