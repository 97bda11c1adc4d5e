#!/usr/bin/env python3
"""Compares `pointsman sim` with the independent simulator in tests/racks.py, on twelve conditions.

    tests/check_racks.py POINTSMAN [--only TEXT]
    tests/check_racks.py --self-test

Each condition is simulated by both, with several seeds. Means over seeds of P50 and P99 at one rate must agree within 5 %, and the
capacity within 2 %: the rate at which P99 reaches the condition's limit, found between three rates by linear interpolation of P99's
logarithm. Printed are both values, the difference, and its standard error, from the spread of the seeds.
"""

import contextlib
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from statistics import mean, stdev

import racks

WARMUP_S, PATIENCE_S = 2, 4
MEAN_MS = 10.0
# Percentiles vary with the phases of agents' reports: many short runs. Capacities vary with the length of runs. For several servers
# the measured part is shorter.
PERCENTILES = {"seeds": 40, "measured_s": 10}
CAPACITIES = {"seeds": 12, "measured_s": 20}
WITHIN = {"p50": 5.0, "p99": 5.0, "capacity": 2.0}


def devices(cpu_law, nic_law, workers=4):
    return [
        {"name": "cpu", "kind": "cpu", "weight": 5, "workers": workers, "law": cpu_law},
        {"name": "nic", "kind": "smartnic", "weight": 1, "workers": workers, "law": nic_law},
    ]


EXPONENTIAL = devices(["exponential", MEAN_MS], ["exponential", 5 * MEAN_MS])
FIXED = devices(["fixed", MEAN_MS], ["fixed", 5 * MEAN_MS])
LOG_NORMAL = devices(["log-normal", MEAN_MS, 0.5], ["log-normal", 5 * MEAN_MS, 0.5])
# The accelerator is half as fast as the processor, so that a policy that keeps both equally busy has a use for it.
NEAR = devices(["log-normal", MEAN_MS, 0.3], ["log-normal", 2 * MEAN_MS, 0.3])

POISSON = ["poisson"]
EVEN = ["near-constant", 0.3]
REPORTS = {"heartbeat_ms": 20, "sampling_ms": 20, "window_ms": 200, "hold_ms": 20, "delay_ms": 0}
OLD_REPORTS = {**REPORTS, "delay_ms": 50}
WAITING = {**REPORTS, "high": 10, "low": 7, "hold_ms": 5}

# Name, policy, devices, arrivals, the rate at which percentiles are compared, the three around the capacity, the P99 that is the
# capacity's limit, and the rest. Exponential services vary most, and need most seeds.
CONDITIONS = [
    ("server-only, exponential services", "server-only", EXPONENTIAL, POISSON, 260, (320, 340, 360), 90, {"seeds": 36}),
    ("server-only, even arrivals", "server-only", LOG_NORMAL, EVEN, 340, (390, 398, 406), 150, {}),
    ("ecmp", "ecmp", NEAR, POISSON, 280, (360, 380, 400), 150, {}),
    ("wrr, log-normal services", "wrr", LOG_NORMAL, POISSON, 320, (440, 455, 470), 200, {}),
    ("wrr, even arrivals", "wrr", FIXED, EVEN, 400, (476, 482, 488), 200, {}),
    ("wrr, two servers", "wrr", LOG_NORMAL, POISSON, 640, (860, 900, 940), 200, {"servers": 2}),
    ("p4mite", "p4mite", FIXED, POISSON, 420, (460, 470, 480), 200, {"agent": WAITING}),
    ("p4mite, late reports", "p4mite", FIXED, POISSON, 400, (360, 380, 400), 150, {"agent": {**WAITING, "delay_ms": 20}}),
    ("least connections", "least-connections", NEAR, POISSON, 440, (570, 585, 600), 150, {}),
    ("weighted least connections", "weighted-least-connections", LOG_NORMAL, POISSON, 340, (440, 460, 480), 200, {}),
    ("least-utilised, reports", "least-utilised", NEAR, POISSON, 1600, (2080, 2200, 2320), 200, {"agent": REPORTS, "servers": 4}),
    ("prt, old reports", "prt", NEAR, POISSON, 1600, (1440, 1600, 1760), 180, {"agent": OLD_REPORTS, "servers": 4}),
]


def duration_s(condition, length):
    """With the warm-up."""
    return WARMUP_S + length["measured_s"] / condition[7].get("servers", 1)


def law_toml(law):
    kind = {"fixed": "deterministic"}.get(law[0], law[0])
    sigma = f", sigma = {law[2]}" if law[0] == "log-normal" else ""
    return f'{{ distribution = "{kind}", mean_ms = {law[1]}{sigma} }}'


def toml(condition, rates, length):
    """The condition as a scenario of `pointsman sim`."""
    _, policy, units, arrivals, _, _, _, more = condition
    agent = more.get("agent", REPORTS)
    process = '"poisson"' if arrivals == POISSON else f'"near-constant", jitter = {arrivals[1]}'
    lines = [
        'name = "racks"',
        f"duration_s = {duration_s(condition, length)}",
        f"warmup_s = {WARMUP_S}",
        f"patience_s = {PATIENCE_S}",
        "[rack]",
        f"servers = {more.get('servers', 1)}",
        f'policy = "{policy}"',
        "[rack.agent]",
        "latency_ms = { high = 1000000, low = 900000 }",
        "repeat_ms = 0",
        *(f"{k} = {agent[k]}" for k in ("heartbeat_ms", "window_ms", "hold_ms")),
        *([f"outstanding = {{ high = {agent['high']}, low = {agent['low']} }}"] if "high" in agent else []),
        "[agents]",
        "tick_ms = 0.001",
        f"sampling_ms = {agent['sampling_ms']}",
        f"delay_ms = {agent['delay_ms']}",
    ]
    for unit in units:
        lines += [
            "[[device]]",
            *(f'{k} = "{unit[k]}"' for k in ("name", "kind")),
            *(f"{k} = {unit[k]}" for k in ("weight", "workers")),
            f"service_time = {law_toml(unit['law'])}",
        ]
    lines += [
        "[[client]]",
        f"arrivals = {{ process = {process}, rate_per_s = {rates[0]} }}",
        "[sweep]",
        f"rate_per_s = {list(rates)}",
    ]
    return "\n".join(lines) + "\n"


def theirs(pointsman, condition, rates, length):
    """Per rate, (P50, P99) of every seed by `pointsman sim`."""
    with tempfile.TemporaryDirectory() as folder:
        scenario, results = (os.path.join(folder, name) for name in ("racks.toml", "results.jsonl"))
        with open(scenario, "w", encoding="utf-8") as file:
            file.write(toml(condition, rates, length))
        command = [pointsman, "sim", scenario, "--seeds", str(length["seeds"]), "--json", results]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            sys.exit(f"{' '.join(command)} failed:\n{ran.stderr}{toml(condition, rates, length)}")
        found = {rate: [] for rate in rates}
        with open(results, encoding="utf-8") as file:
            for line in map(json.loads, file):
                r = line["requests"]
                found[float(line["point"]["rate_per_s"])].append((r["p50_ms"], r["p99_ms"]))
    return found


def run_own(job):
    condition, rate, length, seed = job
    _, policy, units, arrivals, _, _, _, more = condition
    spec = {"policy": policy, "devices": units, "arrivals": arrivals, "rate_per_s": rate, "duration_s": duration_s(condition, length),
            "warmup_s": WARMUP_S, "patience_s": PATIENCE_S, **more}
    return racks.Rack(spec, seed).run()


def own(pool, condition, rates, length):
    """The same by tests/racks.py."""
    jobs = [(condition, rate, length, seed) for rate in rates for seed in range(1, length["seeds"] + 1)]
    found = {rate: [] for rate in rates}
    for (_, rate, _, _), r in zip(jobs, pool.map(run_own, jobs, chunksize=4)):
        found[rate].append((r["p50_ms"], r["p99_ms"]))
    return found


def crossing(rates, p99s, limit):
    """The rate at which P99 reaches the limit; nothing if that is not between two of these."""
    for (r0, p0), (r1, p1) in zip(zip(rates, p99s), zip(rates[1:], p99s[1:])):
        low, high, at = math.log(p0), math.log(p1), math.log(limit)
        if low <= at <= high:
            return r0 + (r1 - r0) * (at - low) / (high - low)
    return None


def error_percent(values):
    """Standard error of the mean."""
    return 100 * stdev(values) / math.sqrt(len(values)) / mean(values) if len(values) > 1 else 0.0


def quantities(condition, simulate):
    """Name to (value, standard error in per cent). `simulate(rates, length)` gives (P50, P99) of each seed per rate."""
    rate, around, limit = float(condition[4]), [float(r) for r in condition[5]], condition[6]
    at_rate = simulate([rate], PERCENTILES)[rate]
    out = {name: (mean(v), error_percent(v)) for name, v in zip(("p50", "p99"), zip(*at_rate))}
    found = simulate(around, {**CAPACITIES, "seeds": condition[7].get("seeds", CAPACITIES["seeds"])})
    p99s = [[pair[1] for pair in found[r]] for r in around]
    each = [c for c in (crossing(around, of_seed, limit) for of_seed in zip(*p99s)) if c]
    out["capacity"] = (crossing(around, [mean(p) for p in p99s], limit), error_percent(each))
    return out


def compare(name, ours, others):
    """Prints a line for each quantity; the names of those that differ too much."""
    wrong = []
    for what, within in WITHIN.items():
        (a, error_a), (b, error_b) = ours[what], others[what]
        if a is None or b is None:
            print(f"{name:<36} {what:<9} P99 does not reach the limit between the rates of the condition")
            wrong.append(f"{name}: {what}")
            continue
        difference = 100 * (b / a - 1)
        bad = abs(difference) > within
        print(f"{name:<36} {what:<9} {a:9.2f} {b:9.2f} {difference:+6.2f} % (+- {math.hypot(error_a, error_b):.2f})"
              f"{'  differs' if bad else ''}", flush=True)
        wrong += [f"{name}: {what}"] * bad
    return wrong


def test_comparison():
    same = {"p50": (10.0, 0.1), "p99": (50.0, 1.0), "capacity": (400.0, 0.1)}
    assert compare("same", same, same) == []
    assert compare("P99 6 % higher", same, {**same, "p99": (53.0, 1.0)}) == ["P99 6 % higher: p99"]
    assert compare("capacity 3 % lower", same, {**same, "capacity": (388.0, 0.1)}) == ["capacity 3 % lower: capacity"]
    assert compare("not found", same, {**same, "capacity": (None, 0.0)}) == ["not found: capacity"]


def self_test():
    assert crossing([1, 2, 3], [10, 100, 1000], 100) == 2 and crossing([1, 2], [10, 20], 100) is None
    with contextlib.redirect_stdout(io.StringIO()):
        test_comparison()
    # M/M/1 at 60 %: the median of the time in the system is ln 2 / (mu - lambda), P99 ln 100 / (mu - lambda).
    spec = {"policy": "server-only", "devices": devices(["exponential", MEAN_MS], ["fixed", 1.0], workers=1), "arrivals": POISSON,
            "rate_per_s": 60, "duration_s": 2000, "warmup_s": 10, "patience_s": 60}
    got = racks.Rack(spec, 1).run()
    for percent, share in (("p50_ms", 2), ("p99_ms", 100)):
        theory = 1000 * math.log(share) / 40
        assert abs(got[percent] / theory - 1) < 0.04, (percent, got[percent], theory)


def main():
    arguments = sys.argv[1:]
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) not in (1, 3) or arguments[0].startswith("-") or arguments[1:2] not in ([], ["--only"]):
        sys.exit(__doc__)
    chosen = [c for c in CONDITIONS if arguments[-1] in c[0]] if len(arguments) == 3 else CONDITIONS
    if not chosen:
        sys.exit(f"no condition's name contains `{arguments[-1]}`: " + "; ".join(c[0] for c in CONDITIONS))
    began, wrong = time.monotonic(), []
    print(f"{'condition':<36} {'':<9} {'sim':>9} {'racks.py':>9} difference")
    with ProcessPoolExecutor() as pool:
        for condition in chosen:
            sim = quantities(condition, lambda rates, length: theirs(arguments[0], condition, rates, length))
            wrong += compare(condition[0], sim, quantities(condition, lambda rates, length: own(pool, condition, rates, length)))
    print(f"{time.monotonic() - began:.0f} s")
    if wrong:
        sys.exit("the two simulators differ: " + ", ".join(wrong))


if __name__ == "__main__":
    main()
