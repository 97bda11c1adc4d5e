#!/usr/bin/env python3
"""Checks ARCHITECTURE.md against the code: every crate has a row, no crate uses one that its row does not allow, and every file
that the document names exists.

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


def exists(path):
    """Whether a path exists, from the root or from the crates' folder, with or without `src`."""
    first, _, rest = path.partition("/")
    places = [ROOT / path, ROOT / "crates" / path, ROOT / "crates" / first / "src" / rest]
    return any(p.exists() or p.with_suffix(".rs").exists() for p in places)


def self_test():
    table = rows("| crate | contents | may use | invariants |\n| `a` | x | - | y |\n| `b` | x | `a` | y |\n| `c` | x | `b`'s z | y |\n")
    assert table == {"a": set(), "b": {"a"}, "c": {"b"}}, table
    good = {"a": set(), "b": {"a"}, "c": {"a", "b"}}
    assert wrong_uses(table, good) == []
    assert wrong_uses(table, good | {"b": {"c"}}) == ["`b` uses `c`, and its row does not say so"]
    assert wrong_uses(table, good | {"d": set()}) == ["crates/d has no row: add one"]
    assert len(wrong_uses(table, {"a": set(), "b": set()})) == 1
    assert named("`x/y`\n## Extension points\n`v1model/src/switch/path.rs` and `Port`") == ["v1model/src/switch/path.rs"]
    assert exists("v1model/src/switch/path.rs") and not exists("v1model/src/none.rs")
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
    wrong += [f"`{p}` does not exist" for p in paths if not exists(p)]
    for line in wrong:
        print(f"ARCHITECTURE.md: {line}")
    print(f"check_architecture: {len(crates)} crates, {len(paths)} paths, {len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


main()
