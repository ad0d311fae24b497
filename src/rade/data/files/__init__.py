"""Raw files and processed tensors on disk: where they are, where they come from, and that they are the right ones."""
