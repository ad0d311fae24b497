"""The picture of `rade demo` for light and dark pages, from the numbers that it left in demo.json beside this file."""

import json

from style import HERE, draw

from rade.commands.demo import draw as panels

SCORES = json.loads((HERE / "demo.json").read_text("utf-8"))["scores"]

if __name__ == "__main__":
    draw("demo", (11, 5.4), lambda figure, colours: panels(SCORES, figure, colours))
