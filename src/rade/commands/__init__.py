"""The commands of `rade`, one module each; they import PyTorch only when they run."""
