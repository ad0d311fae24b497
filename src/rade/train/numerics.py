"""The numerical version of the code."""

# Part of every stored run's key. Raise it by one when the same settings, seed and data would give other scores than
# before, beyond rounding: a formula, a default inside a layer, the order of random draws, a reader's result, a split.
# New settings, faster code and reports do not count. Runs under an older number stay in the store and are done again.
NUMERICS = 1
# Likewise for runs that undo noise of their graph, and for them alone.
NOISE = 2
