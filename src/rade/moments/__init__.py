"""Aggregators: their coefficients, and the moments of these over random views."""
