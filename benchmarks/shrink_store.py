"""Make a store small: losses and rates get four digits, scores five, and files that are still long are compressed.

    python benchmarks/shrink_store.py results

Validation scores of folds stay as they are, since the best common epoch is found in them. Run again it changes no byte.
"""

import gzip
import sys
from pathlib import Path

from rade.train.files import write_whole
from rade.train.row import decode, encode
from rade.train.row_files import content_of, name_of, row_files

DIGITS = {"loss": 4, "val_loss": 4, "p": 4, "q": 4, "test": 5}
LONG = 12_000  # bytes from which a row is compressed; shorter ones stay readable in a diff


def thinned(content: bytes) -> bytes:
    """The same row with shorter numbers, sealed again."""
    row = decode(content)
    digits = DIGITS if row["folds"] else DIGITS | {"val": 5}
    curves = {
        name: [float(f"{value:.{digits[name]}g}") for value in curve] if name in digits else curve
        for name, curve in row["history"].items()
    }
    return encode({**row, "history": curves})


def shortened(path: Path) -> tuple[Path, bytes]:
    """The file a row belongs into, and what it holds there."""
    content = thinned(content_of(path))
    plain = path.with_name(f"{name_of(path)}.json")
    if len(content) < LONG:
        return plain, content
    return plain.with_name(f"{plain.name}.gz"), gzip.compress(content, mtime=0)


def main() -> None:
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        raise SystemExit(f"error: expected the folder of a store; {(__doc__ or '').split(':')[0]}")
    before = after = 0
    for path in row_files(Path(sys.argv[1])):
        old = path.read_bytes()
        place, new = shortened(path)
        before, after = before + len(old), after + len(new)
        if place != path or new != old:
            write_whole(place, lambda file, new=new: file.write(new))
        if place != path:
            path.unlink()
    print(f"{before / 1e6:.1f} MB of rows are {after / 1e6:.1f} MB now")


if __name__ == "__main__":
    main()
