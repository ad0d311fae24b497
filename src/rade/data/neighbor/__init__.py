"""Mini-batches of sampled neighborhoods, without compiled extras."""
