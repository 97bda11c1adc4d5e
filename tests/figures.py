#!/usr/bin/env python3
"""Writes the tables of docs/figures.md and docs/validation.md that are made of results, or checks them.

    tests/figures.py                      # writes the tables
    tests/figures.py --check              # fails if a page differs from the results
    tests/figures.py --same A.json B.json # fails if claims of two result files differ, where both have them

In a page, a table is what lies between the lines `<!-- KIND FILE ... -->` and `<!-- end of KIND -->`. Files are in docs/figures:

    results FILE...           each claim with its numbers and its verdict, of results of `pointsman reproduce --json`. With several files, each
                              has its columns, and in front of its name their heading: `ours.json as_published=published.json`
    means FILE...             each claim that all these files have, with its mean alone
    verdicts FILE...          how many claims of each figure have which verdict
    distances FILE...         how far each curve is from the paper's
    curves FILE CHART COLUMN  a line for each curve of a chart, counted from 1, a column for each place of its x-axis: a column of
                              `pointsman reproduce --csv`
    lab FILE NAME=TEXT...     simulator and lab by `pointsman sim --lab --json`, in docs/validation: names of scenarios, and what the page calls them
"""

import csv
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "figures"
PAGES = [ROOT / "docs" / "figures.md", ROOT / "docs" / "validation.md"]
KINDS = "results|means|verdicts|distances|curves|lab"
BEGIN = re.compile(rf"<!-- ({KINDS}) ")
# Up to its own end, not that of the next one.
BLOCK = re.compile(rf"(<!-- ({KINDS}) (.*?) -->\n)(?:(?!<!-- ).)*(<!-- end of \2 -->)", re.S)
VERDICTS = "holds stronger weaker fails inconclusive".split()


def claims(path):
    """(figure, id) to claim, in the order of the file."""
    with open(path, encoding="utf-8") as file:
        figures = [json.loads(line) for line in file]
    for f in figures:
        # As `tuned_note` in crates/reproduce/src/chapter6/fast.rs puts it.
        if any("no evidence" in note for note in f["notes"]):
            sys.exit(f"figures: {path}: {f['figure']} is judged by seeds that chose its settings: run it with others, --seed 101")
    return {(f["figure"], c["id"]): c for f in figures for c in f["claims"]}


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
    return [((name or "ours").replace("_", " "), claims(RESULTS / file)) for name, file in files]


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


def seeds(columns):
    """How many the claims have."""
    return " or ".join(map(str, sorted({c["seeds"] for _, of in columns for c in of.values()})))


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
    return f"Means and 95 % intervals of {seeds(columns)} seeds:\n\n{lines(rows)}"


def means(columns):
    """Each claim that all files have, with its mean."""
    rows = [["figure", "claim", "claimed"] + [name for name, _ in columns]]
    rows.append(["---"] * len(rows[0]))
    for key, c in columns[0][1].items():
        if all(key in of for _, of in columns):
            rows.append([key[0], c["text"], number(c["paper"])] + [number(of[key]["ours"]) for _, of in columns])
    return f"Means of {seeds(columns)} seeds:\n\n{lines(rows)}"


def distances(*files):
    """A line for each published curve. Files have their headings as claims have."""
    files = [part.rpartition("=")[::2] for part in files]
    found = []
    for _, file in files:
        with open(RESULTS / file, encoding="utf-8") as opened:
            of = {(f["figure"], c["chart"], c["curve"]): c for f in map(json.loads, opened) for c in f["curves"]}
        found.append(of)
    rows = [["figure", "chart", "curve", "published points"]]
    for name, _ in files:
        name = name.replace("_", " ")
        rows[0] += [f"{name}: compared, within our interval".lstrip(": "), "times off, mean", "farthest: at, ours times the paper's"]
    rows.append(["---"] * len(rows[0]))
    for key, first in found[0].items():
        row = [*key, str(first["published_points"])]
        for of in found:
            c = of.get(key)
            if c is None or not c["compared"]:
                row += ["0" if c else "-", "-", "-"]
                continue
            row += [f"{c['compared']}, {c['within_ci95']}", number(c["factor"]), f"{c['worst_at']:g}, {number(c['worst_ratio'])}"]
        rows.append(row)
    return lines(rows)


def curves(file, chart, column):
    """A line for each curve, a column for each place of the x-axis."""
    with open(RESULTS / file, encoding="utf-8", newline="") as opened:
        table = [row for row in csv.DictReader(opened) if row["source"] == "ours"]
    titles = list(dict.fromkeys((row["figure"], row["chart"]) for row in table))
    table = [row for row in table if (row["figure"], row["chart"]) == titles[int(chart) - 1]]
    # The x-axis is the one column between the number of seeds and the statistics that has values.
    names = list(table[0])
    axes = names[names.index("seeds") + 1 : next(i for i, n in enumerate(names) if "_median" in n)]
    axis = next(n for n in axes if table[0][n])
    places = sorted({float(row[axis]) for row in table})
    value = {(row["curve"], float(row[axis])): row[column] for row in table}
    rows = [[axis.replace("_", " ")] + [f"{place:g}" for place in places]]
    rows.append(["---"] * len(rows[0]))
    for curve in dict.fromkeys(row["curve"] for row in table):
        found = [value.get((curve, place), "") for place in places]
        rows.append([curve] + [number(float(v)) if v else "-" for v in found])
    return f"{titles[int(chart) - 1][1]}, `{column}`, {table[0]['seeds']} seeds:\n\n{lines(rows)}"


def lab(file, *names):
    """Simulator, lab, and the difference."""
    names = dict(name.replace("_", " ").split("=") for name in names)
    rows = [["", "requests a second", "policy", "P50, ms: simulated, lab", "P99, ms: simulated, lab"]]
    rows.append(["---"] * len(rows[0]))
    with open(ROOT / "docs" / "validation" / file, encoding="utf-8") as opened:
        for point in map(json.loads, opened):
            row = [names.get(point["scenario"], point["scenario"]), point["point"]["rate_per_s"], point["point"]["policy"]]
            for what in ("p50", "p99"):
                simulated, real = (point[where][f"{what}_ms"]["mean"] for where in ("simulated", "lab"))
                row.append(f"{number(simulated)}, {number(real)} ({point['difference_percent'][what]:+.1f} %)")
            rows.append(row)
    return lines(rows)


def made(block):
    kind, of = block[2], block[3]
    if kind in ("curves", "distances", "lab"):
        text = {"curves": curves, "distances": distances, "lab": lab}[kind](*of.split())
    else:
        text = {"results": results, "means": means, "verdicts": verdicts}[kind](columns_of(of))
    return f"{block[1]}\n{text}\n{block[4]}"


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
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        new, tables = BLOCK.subn(made, page)
        if tables != len(BEGIN.findall(page)):
            sys.exit(f"figures: a table of {path.name} has no end of its own: `<!-- end of KIND -->` must come before the next one begins")
        if not arguments:
            path.write_text(new, encoding="utf-8")
        elif new != page:
            sys.exit(f"figures: docs/{path.name} differs from the results: run tests/figures.py")


if __name__ == "__main__":
    main()
