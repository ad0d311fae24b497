"""Attention: scores, sums over all nodes, the random denominator, and the moments that follow."""
