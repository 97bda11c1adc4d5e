#!/usr/bin/env python3
"""Checks what `pointsman siege --json FILE` wrote: the contract that scripts rely on, and that every case kept its limits."""

import json
import sys

FIELDS = ["requests", "lost", "violations", "recovery_ms", "memory_growth_mb", "log_bytes"]


def fail(message):
    sys.exit(f"check_siege: {message}")


def main():
    with open(sys.argv[1]) as file:
        report = json.load(file)
    if report["schema"] != 1:
        fail(f"schema is {report['schema']}, not 1")
    cases = report["cases"]
    if len(cases) < 12:
        fail(f"only {len(cases)} cases")
    for case in cases:
        for field in FIELDS:
            if isinstance(case[field], bool) or not isinstance(case[field], (int, float)):
                fail(f"{case['name']}: {field} is {case[field]!r}")
        if case["ok"] != (not case["broke"]):
            fail(f"{case['name']}: ok is {case['ok']}, broke is {case['broke']}")
        if case["requests"] < 100:
            fail(f"{case['name']}: only {case['requests']} requests")
        if "storm" in case:
            storm = case["storm"]
            if storm["faults"] < 6 or storm["changes"] < 20 or storm["connections"] < 1000:
                fail(f"{case['name']}: the storm did too little: {storm}")
            drifts = case["name"].startswith("members")
            if storm["registered"] < 10 or drifts and (storm["withdrawn"] < 4 or storm["members_compared"] < 30):
                fail(f"{case['name']}: too few members came and went: {storm}")
    if report["not_run"]:
        fail(f"not run: {', '.join(report['not_run'])}")
    broken = [f"{case['name']}: {', '.join(case['broke'])}" for case in cases if not case["ok"]]
    if broken:
        fail("limits are broken\n  " + "\n  ".join(broken))


main()
