#!/usr/bin/env python3
"""Checks the output of `pointsman demo --json FILE`: the contract that scripts rely on, and the demo's results.

A machine that is busy with other things makes the load generator late; such points prove nothing, and then only the
contract and the connections are judged.
"""

import json
import sys

POLICIES = ["server-only", "ecmp", "wrr", "p4mite"]


def fail(message):
    sys.exit(f"check_demo: {message}")


def number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_contract(report):
    if report["schema"] != 1:
        fail(f"schema is {report['schema']}, not 1")
    if not isinstance(report["seed"], int) or not isinstance(report["rack"], dict):
        fail("seed or rack is missing")
    names = [p["name"] for p in report["policies"]]
    if names != POLICIES:
        fail(f"policies are {names}, not {POLICIES}")
    for policy in report["policies"]:
        if not number(policy["sustained_rps"]) or not policy["points"]:
            fail(f"{policy['name']}: no sustained_rps or no points")
        for point in policy["points"]:
            for field in ["offered_rps", "sent", "answered", "lost", "p50_ms", "p99_ms"]:
                if not number(point[field]):
                    fail(f"{policy['name']}: {field} is {point[field]!r}")
            if point["sent"] != point["answered"] + point["lost"]:
                fail(f"{policy['name']} at {point['offered_rps']}: sent is not answered + lost")
            if point["answered"] and abs(sum(point["share"].values()) - 1) > 1e-6:
                fail(f"{policy['name']} at {point['offered_rps']}: shares do not add up")
    consistency = report["consistency"]
    if consistency["connections"] != 10_000:
        fail(f"{consistency['connections']} connections were checked, not 10000")
    if consistency["violations"] != 0:
        fail(f"{consistency['violations']} connections changed their device")
    for transfer in report["bulk"]:
        if not transfer["intact"] or transfer["bytes"] != 100_000_000:
            fail(f"the transfer is not intact: {transfer}")


def check_findings(report):
    policy = {p["name"]: p for p in report["policies"]}
    late = sum(p["verdict"] == "generator-late" for x in report["policies"] for p in x["points"])
    base, mite = policy["server-only"]["sustained_rps"], policy["p4mite"]["sustained_rps"]
    if late or base == 0:
        print(f"check_demo: loads not judged: this machine is busy ({late} points with a late generator)")
        return
    print(f"check_demo: p4mite sustains {mite / base:.2f} times what server-only does")
    if mite < base:
        fail(f"p4mite sustains {mite}/s, less than server-only's {base}/s")
    if policy["ecmp"]["sustained_rps"] > 0.7 * base:
        fail("ecmp sustains more than it can with a quarter of the load on each SmartNIC")
    for point in policy["p4mite"]["points"]:
        nics = sum(v for k, v in point["share"].items() if k.endswith("/nic"))
        if point["offered_rps"] < 0.5 * base and nics > 0.05:
            fail(f"p4mite uses SmartNICs at {point['offered_rps']}/s although CPUs are free")


with open(sys.argv[1]) as file:
    demo = json.load(file)
try:
    check_contract(demo)
    check_findings(demo)
except KeyError as missing:
    fail(f"the field {missing} is missing")
print("check_demo: good")
