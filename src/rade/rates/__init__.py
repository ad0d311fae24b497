"""Rates that adapt: the variance of the logits, the regulariser, the rules that move p and q, and one rate step."""
