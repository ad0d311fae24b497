"""Rates that adapt: the variance of the logits, the regulariser, and the rules that move p and q."""
