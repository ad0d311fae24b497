"""The two tables of docs/noisy.md and results/studies/noisy/tables.md, from the rows beside the latter.

    python -m benchmarks.draw_noisy

`make report` does it. Run again on the same rows it changes no word.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from benchmarks.noisy_rows import BySeed, Row, Store, accuracy, gains, key_of, minus, read, shown

ROOT = Path(__file__).parents[1]
ROWS = ROOT / "results" / "studies" / "noisy"
NAMES = {
    "known": "mean, share known", "half": "half of it", "double": "twice it", "estimated-mean": "mean, estimated",
    "edges": "features", "edges-hidden": "hidden features", "edges-common": "common neighbors",
    "estimated": "estimated, features", "estimated-any": "estimated, any", "cut": "cut by features",
    "cut-common": "cut by common neighbors", "low-rank": "low rank", "pruned": "cut by features, ties kept",
    "pruned-common": "cut by common neighbors, ties kept",
    "trained-known": "trained so, known", "trained-half": "half of it", "trained-double": "twice it",
    "trained-estimated": "estimated", "trained-edges": "features", "trained-edges-common": "common neighbors",
    "trained-cut": "trained on graph cut by features", "trained-cut-common": "cut by common neighbors",
    "trained-auto": "found by training, shares of the plain model only", "trained-found": "found by training",
}  # fmt: skip
HEADLINE = (
    "known", "estimated-mean", "edges", "edges-hidden", "edges-common", "estimated-any", "cut", "cut-common",
    "low-rank",
)  # fmt: skip


def lines_of(head: Sequence[str], body: list[list[str]]) -> str:
    rows = [list(head), ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def table(store: Store, key: tuple[str, ...], ways: Sequence[str]) -> str:
    """One line per corruption: plain accuracy and gains, less those on the clean graph."""
    tried = [way for way in ways if way in store.ways(key)]
    body = []
    for corruption, rows in store.cells[key].items():
        n = len(rows)
        cells = [shown(gains(store, key, corruption, way), n) for way in tried]
        body.append([corruption, str(n), shown(accuracy(rows), n, ""), *cells, shares(rows)])
    return lines_of(["graph", "n", "plain", *(NAMES[way] for way in tried), "share: true, found"], body)


def shares(rows: BySeed) -> str:
    true = next(iter(rows.values()))["share"]
    found = [row["scores"]["estimated-mean"]["share"] for row in rows.values() if "estimated-mean" in row["scores"]]
    return f"{true:.2f}, {fmean(found):.2f}" if found else f"{true:.2f}"


def headline(store: Store, corruptions: Sequence[str], ways: Sequence[str]) -> str:
    """GCN trained plainly on the clean graph, all data sets."""
    body = []
    for key, cells in store.cells.items():
        if key[1:] != ("gcn", "none", "clean") or "add100" not in cells:
            continue
        for corruption in corruptions:
            rows = store.rows(key, corruption)
            if rows:
                n = len(rows)
                found = [shown(gains(store, key, corruption, way), n) for way in ways]
                clean = shown(accuracy(store.rows(key, "clean")), n, "")
                body.append([key[0], corruption, str(n), clean.split(" ")[0], shown(accuracy(rows), n, ""), *found])
    return lines_of(["data set", "graph", "n", "clean", "plain", *(NAMES[way] for way in ways)], body)


INFERENCE = ("known", "edges", "edges-common", "cut", "cut-common")
TOLD = ("known", "half", "double", "estimated", "edges", "edges-common", "cut", "cut-common", "found")


def trained(store: Store, inference: Sequence[str], told: Sequence[str], corruptions: Sequence[str] = ()) -> str:
    """Trained and tested on the noisy graph: plain accuracy, gains of inference alone, and of trainings that know."""
    body, ways = [], [*inference, *(f"trained-{what}" for what in told)]
    for key, cells in store.cells.items():
        for corruption, rows in cells.items() if key[3] == "noisy" else ():
            if corruption in corruptions or not corruptions:
                n = len(rows)
                found = [shown(gains(store, key, corruption, way), n) for way in ways]
                body.append([key[0], corruption, str(n), shown(accuracy(rows), n, ""), *found])
    names = {"known": "share known", "found": "found by training", "estimated": "estimated"}
    names |= {what: NAMES[what] for what in (*INFERENCE[1:], "half", "double")}
    head = [f"{when}: {names[what]}" for when, some in (("inference", inference), ("trained", told)) for what in some]
    return lines_of(["data set", "graph", "n", "plain", *head], body)


def attacked(store: Store) -> str:
    """Trained and tested on attacked graphs, which are not random."""
    ways, body = ("estimated-mean", "estimated", "estimated-any", "cut", "cut-common", "low-rank"), []
    for key, cells in store.cells.items():
        if "-meta-" in key[0] or "-nettack-" in key[0]:
            n = len(cells["clean"])
            found = [shown(gains(store, key, "clean", way), n) for way in ways]
            body.append([key[0], key[2], str(n), shown(accuracy(cells["clean"]), n, ""), *found])
    return lines_of(["graph", "trained with", "n", "plain", *(NAMES[way] for way in ways)], body)


def by_degree(rows: list[Row]) -> str:
    """Spurious edges that prefer hubs, and uniform ones: accuracies, and paired gains by seed."""
    body = []
    for key in dict.fromkeys((row["dataset"], row["noise"]) for row in rows):
        scores = {row["seed"]: row["scores"] for row in rows if (row["dataset"], row["noise"]) == key}
        n, plain = len(scores), {seed: one["plain"] for seed, one in scores.items()}
        gained = [minus({seed: one[way] for seed, one in scores.items()}, plain) for way in ("mean", "mean by degree")]
        body.append([*key, str(n), shown(plain, n, ""), *(shown(gain, n) for gain in gained)])
    return lines_of(
        ["data set", "ends of spurious edges", "n", "plain", "mean, as if uniform", "mean, by degree"], body
    )


def cost(rows: list[Row]) -> str:
    """CPU time of a denoised pass over that of a plain one."""
    body = []
    for row in rows:
        ratios = [f"{row[name]:.2f}" for name in ("denoised", "edges")]
        body.append([row["dataset"], row["backbone"], f"{row['plain_ms']:.0f} ms", *ratios, f"{row['first']:.1f}"])
    return lines_of(["data set", "backbone", "plain", "denoised", "with trust in edges", "first pass"], body)


def methods(store: Store, dataset: str) -> str:
    """Training methods against none, with plain and with denoised inference, less what they gain on the clean graph."""
    base, body = (dataset, "gcn", "none", "clean"), []
    for key, cells in store.cells.items():
        if (key[0], key[1], key[3]) != (dataset, "gcn", "clean") or key == base:
            continue
        for corruption, rows in cells.items():
            n, cleared = len(rows), []
            for way in ("plain", "known", "edges", "estimated"):
                other = minus(accuracy(rows, way), accuracy(store.rows(base, corruption), way))
                clean = minus(accuracy(store.rows(key, "clean")), accuracy(store.rows(base, "clean")))
                cleared.append(shown(other if corruption == "clean" else minus(other, clean), n))
            body.append([key[2], corruption, str(n), *cleared])
    head = ["trained with", "graph", "n", "plain", "mean, share known", "trust by features", "estimated, features"]
    return lines_of(head, body) if body else ""


def everything(store: Store, count: str) -> Iterator[str]:
    """The page of all tables."""
    yield "# Graphs with wrong edges: all tables"
    yield (
        "Generated by `benchmarks/draw_noisy.py` from the rows in this folder; [noisy.md](../../../docs/noisy.md) says "
        f"what the columns mean and what follows from them. {count} Cells: mean ± standard error over n seeds (a "
        "number in brackets where a column has fewer); `plain` is an accuracy, the others are paired gains over it, "
        "less the same gain on the clean graph; the line of the clean graph has that gain itself."
    )
    for key in store.cells:
        dataset, backbone, method, trained = key
        yield f"## {dataset}, {backbone}, trained with {method} on the {trained} graph"
        yield table(store, key, list(NAMES))
    for dataset in ("cora", "citeseer", "computer"):
        found = methods(store, dataset)
        if found:
            yield f"## Methods of training against none, {dataset}, gcn"
            yield (
                "Difference of accuracies, both predicted as the column says, less the difference on the clean graph, "
                "plainly predicted; the line of the clean graph has that difference itself."
            )
            yield found
def counted(rows: list[Row]) -> str:
    """How many rows there are."""
    pairs, models = {key_of(row) for row in rows}, {(*key_of(row)[:4], row["seed"]) for row in rows}
    return f"{len(rows)} lines of {len(pairs)} pairs of a model and a graph ({len(models)} models)."


def filled(page: str, blocks: dict[str, str]) -> str:
    """A page with its blocks <!-- name --> ... <!-- /name --> filled."""
    for name, block in blocks.items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        page, found = place.subn(lambda match, block=block: f"{match[1]}\n{block}\n\n{match[2]}", page)
        if found != 1:
            raise SystemExit(f"error: docs/noisy.md must hold one block <!-- {name} --> ... <!-- /{name} -->")
    return page


def beside(store: Store) -> Iterator[str]:
    """The tables over all data sets, which are too wide for a page of the documentation."""
    yield "## GCN trained plainly on the clean graph, tested on corrupted ones"
    yield headline(store, ("add30", "add100", "add200", "mix50"), HEADLINE)
    yield "## Trained and tested on the same noisy graph, GCN"
    yield trained(store, INFERENCE, TOLD)
    yield "## Spurious edges that prefer hubs: as many as real ones, share known"
    yield by_degree(read(ROWS / "by_degree.jsonl"))
    yield "## Trained and tested on attacked graphs"
    yield attacked(store)
    yield "## CPU time of a denoised pass over that of a plain one"
    yield cost(read(ROWS / "cost.jsonl"))


def pages() -> dict[Path, str]:
    """What the page and the tables should hold, by file."""
    rows = read(ROWS / "table.jsonl.gz")
    older = [*read(ROWS / "rows.jsonl.gz"), *read(ROWS / "attacked.jsonl.gz")]
    store = Store.of([*older, *rows])
    page = ROOT / "docs" / "noisy.md"
    blocks = {
        "headline": headline(store, ("add100",), ("known", "edges", "estimated", "cut", "cut-common")),
        "trained": trained(store, ("known", "edges"), ("known", "edges", "cut", "found"), ("add100",)),
    }
    first, *others = everything(store, counted([*older, *rows]))
    tables = "\n\n".join([first, others[0], *beside(store), *others[1:]]) + "\n"
    return {page: filled(page.read_text("utf-8"), blocks), ROWS / "tables.md": tables}


def main() -> None:
    for path, content in pages().items():
        path.write_text(content, "utf-8")
        print(f"{path.relative_to(ROOT)}: written")


if __name__ == "__main__":
    main()
