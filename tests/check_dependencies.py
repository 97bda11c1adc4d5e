#!/usr/bin/env python3
"""Checks all dependencies against deny.toml: licences, banned packages, sources.

    python3 tests/check_dependencies.py [--self-test]"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def allowed(expression, licences):
    """Whether an SPDX expression can be met with these licences; `/` is the old way to write OR."""
    tokens = re.findall(r"\(|\)|\bAND\b|\bOR\b|/|[^\s()/]+(?: WITH [^\s()/]+)?", expression)

    def either():
        met = both()
        while tokens and tokens[0] in ("OR", "/"):
            tokens.pop(0)
            met = both() or met
        return met

    def both():
        met = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            met = one() and met
        return met

    def one():
        token = tokens.pop(0) if tokens else ""
        if token != "(":
            return token in licences
        met = either()
        return tokens[:1] == [")"] and tokens.pop(0) and met

    return bool(either() and not tokens)


def problems(package, rules):
    """What deny.toml forbids of a package."""
    licence, source = package["license"], package["source"]
    exceptions = [e["allow"] for e in rules["licenses"]["exceptions"] if e["crate"] == package["name"]]
    if not allowed(licence or "", sum(exceptions, rules["licenses"]["allow"])):
        yield f"licence {licence!r} is not in [licenses] allow"
    for ban in rules["bans"]["deny"]:
        if ban["crate"] == package["name"]:
            yield f"banned: {ban['reason']}"
    # A package without a source is part of this repository.
    if source and source.removeprefix("registry+") not in rules["sources"]["allow-registry"]:
        yield f"source {source} is not in [sources] allow-registry"


def packages():
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--manifest-path", str(ROOT / "Cargo.toml")]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["packages"]


def self_test(rules):
    for expression, expected in {
        "MIT": True,
        "GPL-3.0": False,
        "GPL-3.0 OR MIT": True,
        "MIT/GPL-3.0": True,
        "MIT AND GPL-3.0": False,
        "(MIT OR GPL-3.0) AND ISC": True,
        "(MIT OR ISC": False,
        "GPL-2.0 WITH Classpath-exception-2.0": False,
        "": False,
    }.items():
        if allowed(expression, ["MIT", "ISC"]) != expected:
            sys.exit(f"self-test: {expression!r}: not {expected}")
    bad = {"name": "openssl-sys", "license": None, "source": "git+https://example.org/x"}
    if len(list(problems(bad, rules))) != 3:
        sys.exit(f"self-test: {list(problems(bad, rules))}")
    print("check_dependencies: the self-test passes")


def main():
    rules = tomllib.loads((ROOT / "deny.toml").read_text())
    if sys.argv[1:] == ["--self-test"]:
        return self_test(rules)
    every = {p["id"]: p for p in packages()}
    found = [f"{p['name']} {p['version']}: {problem}" for p in every.values() for problem in problems(p, rules)]
    print("\n".join(found + [f"check_dependencies: {len(every)} packages, {len(found)} problems"]))
    sys.exit(bool(found))


main()
