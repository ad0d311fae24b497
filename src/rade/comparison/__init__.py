"""Does RADE help a model of your own on data of your own? `compare` trains it with and without, and says.

print(rade.compare(make_net, data, seeds=10))
"""

from rade.comparison.comparing import Finished, compare
from rade.comparison.outcome import Comparison
from rade.comparison.problems import Training

__all__ = ["Comparison", "Finished", "Training", "compare"]
