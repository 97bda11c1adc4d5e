#!/usr/bin/env python3
"""Writes the tables of docs/figures.md that are made of results, or checks them.

    tests/figures.py                      # writes the tables
    tests/figures.py --check              # fails if the page differs from the results
    tests/figures.py --same A.json B.json # fails if claims of two result files differ, where both have them

In the page, a table is what lies between the lines `<!-- results FILE COLUMN ... -->` and `<!-- end of results -->`. FILE is a result of
`pointsman reproduce --json` in docs/figures. More files, with the heading of their column before an equals sign, are shown next to
the first: `<!-- results ours.json published=published.json -->`. With `verdicts` in place of `results`: how many claims of each figure have which verdict.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "figures.md"
BLOCK = re.compile(r"(<!-- (results|verdicts) (.*?) -->\n).*?(<!-- end of \2 -->)", re.S)
VERDICTS = "holds stronger weaker fails inconclusive".split()


def claims(path):
    """(figure, id) to claim, in the order of the file."""
    with open(path, encoding="utf-8") as file:
        return {(f["figure"], c["id"]): c for f in map(json.loads, file) for c in f["claims"]}


def number(value):
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"


def cells(c):
    """Our number with its interval, the loss, and the verdict."""
    if c is None:
        return ["-", "-", "-"]
    low, high = c["ci95"]
    loss = c["loss_percent"]
    lost = "-" if loss is None else f"{loss:.1f}" if loss else "0"
    ours = "cannot be measured" if c["ours"] is None else f"{number(c['ours'])} ({number(low)} to {number(high)})"
    return [ours, lost, f"**{c['verdict']}**"]


def columns_of(specification):
    """Heading and claims of each file."""
    files = [part.rpartition("=")[::2] for part in specification.split()]
    return [((name or "ours").replace("_", " "), claims(ROOT / "docs" / "figures" / file)) for name, file in files]


def lines(rows):
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def verdicts(columns):
    """How many claims of each figure have which verdict."""
    rows = [["figure"] + [name for name, _ in columns]]
    rows.append(["---"] * len(rows[0]))
    for figure in dict.fromkeys(figure for figure, _ in columns[0][1]):
        row = [figure]
        for _, of in columns:
            found = [c["verdict"] for (f, _), c in of.items() if f == figure]
            row.append(", ".join(f"{found.count(v)} {v}" for v in VERDICTS if v in found) or "-")
        rows.append(row)
    return lines(rows)


def results(columns):
    """Each claim with its numbers."""
    head = ["figure", "claim", "claimed"]
    for name, _ in columns:
        head += [name, "lost, %", "verdict"]
    rows = [head, ["---"] * len(head)]
    for key, c in columns[0][1].items():
        unit = "" if c["unit"] in ("times", "") else f" {c['unit']}"
        row = [key[0], c["text"], number(c["paper"]) + unit]
        for _, of in columns:
            row += cells(of.get(key))
        rows.append(row)
    seeds = sorted({c["seeds"] for _, of in columns for c in of.values()})
    return f"Means and 95 % intervals of {' or '.join(map(str, seeds))} seeds:\n\n{lines(rows)}"


def made(block):
    kind = {"results": results, "verdicts": verdicts}[block[2]]
    return f"{block[1]}\n{kind(columns_of(block[3]))}\n{block[4]}"


def same(a, b):
    a, b = claims(a), claims(b)
    both = [key for key in a if key in b]
    if not both:
        sys.exit("figures: the two files have no claim in common")
    differ = [key for key in both if any(a[key][f] != b[key][f] for f in ("ours", "verdict", "seeds", "loss_percent"))]
    for key in differ:
        print(f"{key[0]} {key[1]}: {a[key]['ours']} {a[key]['verdict']}, {b[key]['ours']} {b[key]['verdict']}")
    if differ:
        sys.exit(f"figures: {len(differ)} of {len(both)} claims differ: equal seeds must give equal results. If they are meant to "
                 "differ, write the file again and run tests/figures.py")
    print(f"{len(both)} claims are the same")


def main():
    arguments = sys.argv[1:]
    if len(arguments) == 3 and arguments[0] == "--same":
        return same(*arguments[1:])
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    page = PAGE.read_text(encoding="utf-8")
    new = BLOCK.sub(made, page)
    if arguments and new != page:
        sys.exit("figures: docs/figures.md differs from the results in docs/figures: run tests/figures.py")
    PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
