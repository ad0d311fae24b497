"""Round the curves in a store: losses and rates to four digits, scores to five; less than half as much to keep.

    python benchmarks/thin_curves.py results

Validation scores of folds stay as they are, since the best common epoch is found in them. Run again it changes no byte.
"""

import sys
from pathlib import Path

from rade.train.row import decode, encode

DIGITS = {"loss": 4, "val_loss": 4, "p": 4, "q": 4, "test": 5}


def thinned(content: bytes) -> bytes:
    """The same row with shorter numbers, sealed again."""
    row = decode(content)
    digits = DIGITS if row["folds"] else DIGITS | {"val": 5}
    curves = {
        name: [float(f"{value:.{digits[name]}g}") for value in curve] if name in digits else curve
        for name, curve in row["history"].items()
    }
    return encode({**row, "history": curves})


def main() -> None:
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        raise SystemExit(f"error: expected the folder of a store; {(__doc__ or '').split(':')[0]}")
    before = after = 0
    for file in sorted(Path(sys.argv[1]).glob("*.json")):
        content = file.read_bytes()
        short = thinned(content)
        before, after = before + len(content), after + len(short)
        if short != content:
            file.write_bytes(short)
    print(f"{before / 1e6:.1f} MB of rows are {after / 1e6:.1f} MB now")


if __name__ == "__main__":
    main()
