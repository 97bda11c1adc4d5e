#!/usr/bin/env python3
"""Checks ARCHITECTURE.md against the code: every crate has a row, no crate uses one that its row does not allow, every file
that the document names exists, and the files of the most likely changes have the examples that the document names.

    python3 tests/check_architecture.py [--self-test]"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def rows(text):
    """The table of crates: name to the names in its column "may use", or None for all."""
    found = {}
    for line in text.splitlines():
        cells = [c.strip() for c in line.split("|")]
        if len(cells) >= 6 and (name := re.fullmatch(r"`(\w+)`", cells[1])):
            uses = cells[3]
            found[name[1]] = None if uses == "all above" else set(re.findall(r"`(\w+)`", uses))
    return found


def closure(table, name):
    """The crates that a crate may use, with those that these may use; None: all."""
    seen, todo = set(), [name]
    while todo:
        uses = table.get(todo.pop(), set())
        if uses is None:
            return None
        todo += uses - seen
        seen |= uses
    return seen


def wrong_uses(table, crates):
    """Sentences about crates (name to the names of those that it depends on) that the table does not cover."""
    out = [f"crates/{name} has no row: add one" for name in sorted(crates.keys() - table.keys())]
    out += [f"`{name}` has a row and no folder: remove the row" for name in sorted(table.keys() - crates.keys())]
    for name, used in sorted(crates.items()):
        may = closure(table, name)
        if name in table and may is not None:
            # What tests need from the machine is for every crate.
            more = sorted(used - may - {"needs"})
            out += [f"`{name}` uses `{other}`, and its row does not say so" for other in more]
    return out


def named(text):
    """Paths in the section on likely changes: those in backticks with a slash, without a placeholder."""
    section = text.split("## Extension points", 1)[-1]
    return [p for p in re.findall(r"`([\w./-]+/[\w./-]+)`", section) if "<" not in p]


def place(path):
    """A path that exists, from the root or from the crates' folder, with or without `src`; or None."""
    first, _, rest = path.partition("/")
    places = [ROOT / path, ROOT / "crates" / path, ROOT / "crates" / first / "src" / rest]
    return next((q for p in places for q in (p, p.with_suffix(".rs")) if q.exists()), None)


def changes(text):
    """The table of the most likely changes: of each its name, its files and its example."""
    found = []
    for line in text.split("## Extension points", 1)[-1].splitlines():
        cells = [c.strip() for c in line.split("|")]
        if len(cells) == 5 and (example := re.fullmatch(r"`([\w.-]+)`", cells[3])):
            found.append((cells[1], named(cells[2]), example[1]))
    return found


def content(path):
    """The text of a file, or of all files in a folder."""
    where = place(path)
    files = sorted(where.rglob("*")) if where.is_dir() else [where]
    return "\n".join(f.read_text(errors="replace") for f in files if f.is_file())


def without_example(found, content):
    """Sentences about files of changes that do not have the change's example as a word. `content` gives the text of a path."""
    out = [] if len(found) == 5 else [f"the table of likely changes has {len(found)} rows with an example, not 5"]
    for change, paths, example in found:
        word = re.compile(rf"(?<![a-z0-9]){re.escape(example)}s?(?![a-z0-9])", re.IGNORECASE)
        out += [f"{change}: `{p}` does not mention `{example}`" for p in paths if not word.search(content(p))]
    return out


def self_test():
    table = rows("| crate | contents | may use | invariants |\n| `a` | x | - | y |\n| `b` | x | `a` | y |\n| `c` | x | `b`'s z | y |\n")
    assert table == {"a": set(), "b": {"a"}, "c": {"b"}}, table
    good = {"a": set(), "b": {"a"}, "c": {"a", "b"}}
    assert wrong_uses(table, good) == []
    assert wrong_uses(table, good | {"b": {"c"}}) == ["`b` uses `c`, and its row does not say so"]
    assert wrong_uses(table, good | {"d": set()}) == ["crates/d has no row: add one"]
    assert len(wrong_uses(table, {"a": set(), "b": set()})) == 1
    assert named("`x/y`\n## Extension points\n`v1model/src/switch/path.rs` and `Port`") == ["v1model/src/switch/path.rs"]
    assert place("v1model/src/switch/path.rs") and not place("v1model/src/none.rs")
    table = "## Extension points\n| change | files | example |\n|---|---|---|\n| a kind | `a/b.rs`, `c/d.rs` | `exact` |\n"
    assert changes(table) == [("a kind", ["a/b.rs", "c/d.rs"], "exact")]
    five = changes(table) * 5
    assert without_example(five, {"a/b.rs": "Kind::Exact,", "c/d.rs": "is_exact()"}.get) == []
    moved = without_example(five, {"a/b.rs": "Kind::Exact,", "c/d.rs": "exactly, inexact"}.get)
    assert moved == ["a kind: `c/d.rs` does not mention `exact`"] * 5, moved
    assert without_example(five[:4], {"a/b.rs": "exact", "c/d.rs": "EXACT"}.get) != []
    print("check_architecture: self-test passed")


def main():
    if "--self-test" in sys.argv:
        return self_test()
    text = (ROOT / "ARCHITECTURE.md").read_text()
    crates = {}
    for manifest in sorted((ROOT / "crates").glob("*/Cargo.toml")):
        needs = tomllib.loads(manifest.read_text()).get("dependencies", {})
        crates[manifest.parent.name] = {n.removeprefix("pointsman-") for n in needs if n.startswith("pointsman-")}
    wrong = wrong_uses(rows(text), crates)
    paths = named(text)
    missing = [p for p in paths if not place(p)]
    wrong += [f"`{p}` does not exist" for p in missing]
    likely = [(change, [p for p in files if p not in missing], example) for change, files, example in changes(text)]
    wrong += without_example(likely, content)
    for line in wrong:
        print(f"ARCHITECTURE.md: {line}")
    print(f"check_architecture: {len(crates)} crates, {len(paths)} paths, {len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


main()
