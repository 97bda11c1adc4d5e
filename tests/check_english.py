#!/usr/bin/env python3
"""Finds habits of expression that tests/english.txt lists, each with what to write instead, in the project's prose: Markdown, the
comments and string literals of Rust (with the texts of --help), comments of P4, TOML and shell, Python, and dashboards.

    python3 tests/check_english.py [FILE...]         all files of the repository by default
    python3 tests/check_english.py --self-test       checks this script

Text is read without line breaks, so a phrase is also found where a line ends in the middle of it."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HABITS = ROOT / "tests/english.txt"
# Frozen inputs of the fuzzer, texts of others, and the list itself.
EXCLUDED = ("fuzz/seeds/", "LICENSE", "Cargo.lock", "tests/english.txt", "tests/check_english.py")

C_LIKE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(?P<hash>\#*)"(?P<raw>.*?)"(?P=hash)|"(?P<text>(?:\\.|[^"\\])*)"|'(?:\\.[^']*|[^'\\])'""",
    re.DOTALL | re.VERBOSE,
)
MARKS = re.compile(r"(?m)^[ \t]*(//[/!]?|\#+|\*(?!\*))|/\*|\*/|\\\n|//[/!]?")
HASH_COMMENT = re.compile(r"(?:^|(?<=\s))#(?P<text>[^\n]*)")


def whole(text):
    """The entire file, by paragraphs."""
    start = 0
    for match in re.finditer(r"\n\s*\n|\Z", text):
        yield start, text[start : match.start()]
        start = match.end()


def joined(pieces, text):
    """Comments on successive lines are one text."""
    block = None
    for start, piece in pieces:
        if block and not text[block[0] + len(block[1]) : start].strip():
            block = (block[0], text[block[0] : start] + piece)
        else:
            if block:
                yield block
            block = (start, piece)
    if block:
        yield block


def c_like(text, strings):
    comments = []
    for match in C_LIKE.finditer(text):
        if match[0].startswith("/"):
            comments.append((match.start(), match[0]))
        elif strings and not match[0].startswith("'"):
            yield match.start(), match[0]
    yield from joined(comments, text)


def hash_comments(text):
    yield from joined([(m.start(), m[0]) for m in HASH_COMMENT.finditer(text)], text)


def prose(path, text):
    """The parts of a file that are prose, each with its offset."""
    if path.endswith(".rs"):
        return c_like(text, strings=True)
    if path.endswith((".p4", ".stf")):
        return c_like(text, strings=False)
    if path.endswith(".toml") or path == ".ci/run" or path.endswith("/run"):
        return hash_comments(text)
    return whole(text)


def plain(piece):
    """A piece without comment marks, with single blanks, and the offset of each of its characters in the piece."""
    piece = MARKS.sub(lambda match: " " * len(match[0]), piece)
    offsets = [i for i, c in enumerate(piece) if not c.isspace() or i and not piece[i - 1].isspace()]
    return "".join(" " if piece[i].isspace() else piece[i] for i in offsets), offsets


def read_habits():
    habits = []
    for number, line in enumerate(HABITS.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        pattern, arrow, instead = line.partition(" => ")
        if not arrow:
            sys.exit(f"{HABITS}:{number}: write PATTERN => INSTEAD")
        habits.append((re.compile(pattern, re.IGNORECASE), instead))
    return habits


def findings(path, text, habits):
    for start, piece in prose(path, text):
        shown, offsets = plain(piece)
        for pattern, instead in habits:
            for match in pattern.finditer(shown):
                line = text.count("\n", 0, start + offsets[match.start()]) + 1
                yield f'{path}:{line}: "{match[0]}": write {instead}'


def self_test(habits):
    cases = {
        "a.rs": '/// A packet that nobody\n/// wants.\nfn nobody() { f("is no\\\n    port", \'"\', r#"of before"#); }',
        "a.p4": "// it lies\n// over it\nbit<8> nobody;",
        "a.toml": "anew = 1 # started anew",
        "a.md": "It stands\nin the file.",
    }
    expected = {"a.rs": [1, 3, 4], "a.p4": [1], "a.toml": [1], "a.md": [1]}
    for path, text in cases.items():
        lines = [int(f.split(":")[1]) for f in findings(path, text, habits)]
        if sorted(lines) != expected[path]:
            sys.exit(f"self-test: {path}: lines {lines}, not {expected[path]}")
    print("check_english: the self-test passes")


def main(arguments):
    habits = read_habits()
    if arguments == ["--self-test"]:
        return self_test(habits)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    kinds = (".md", ".rs", ".p4", ".stf", ".toml", ".py", "dashboards/pointsman.json", ".ci/run", "fuzz/run")
    paths = arguments or [p for p in listed.split("\0") if p.endswith(kinds) and not p.startswith(EXCLUDED)]
    found = [f for p in paths for f in findings(p, (ROOT / p).read_text(errors="replace"), habits)]
    print("\n".join(found + [f"check_english: {len(paths)} files, {len(found)} findings"]))
    sys.exit(bool(found))


if __name__ == "__main__":
    main(sys.argv[1:])
