#!/usr/bin/env python3
"""Compares a network scenario with flows in `pointsman sim` and in ns-3 (fabric.cc in this folder): equal flows, ECMP, DCTCP.

Needs g++ and Debian's libns3-dev. Takes minutes: ns-3 is the slow one.

    python3 tests/ns3/ns3.py target/release/pointsman scenarios/fabric-10g.toml --duration 0.02 --seeds 5"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARIES = ["core", "internet", "network", "point-to-point", "traffic-control"]


def processor_s():
    """Processor time of all programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command, text=""):
    """The output of a command, and its processor time."""
    before = processor_s()
    done = subprocess.run([str(c) for c in command], input=text, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {command[0]}: {done.stderr.strip()}")
    return done.stdout, processor_s() - before


def nearest_rank(values, percent):
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def in_ns3(program, scenario, flows, seed):
    """Completion times in ms by bytes, the packets that switches received, processor time."""
    net, tcp = scenario["network"]["leaf_spine"], scenario["flows"]["tcp"]
    if tcp["algorithm"] != "dctcp" or scenario.get("scheme", {}).get("name", "ecmp") != "ecmp":
        sys.exit("error: only scenarios with ECMP and DCTCP can be compared")
    host, fabric = net["host_link"], net["fabric_link"]
    ends = max(float(line.split(",")[0]) for line in flows) + scenario["patience_s"]
    sizes = [net["leaves"], net["spines"], net["hosts_per_leaf"], host["rate_gbit_s"], fabric["rate_gbit_s"], host["delay_us"]]
    queues = [host["queue_kib"], fabric["queue_kib"], scenario.get("scheme", {}).get("ecn_kib", 0)]
    text, used = run([program, *sizes, *queues, seed, ends], "\n".join(flows))
    *rows, last = text.split()
    return [(int(b), float(ms)) for b, ms in (r.split(",") for r in rows)], int(last.split(",")[1]), used


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pointsman")
    parser.add_argument("scenario")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--duration", type=float, help="seconds, instead of the scenario's")
    args = parser.parse_args()
    folder = tempfile.TemporaryDirectory()
    work = Path(folder.name)
    text = Path(args.scenario).read_text()
    scenario = tomllib.loads(text)
    if args.duration:
        lines = text.splitlines()
        lines = [f"duration_s = {args.duration}" if line.startswith("duration_s") else line for line in lines]
        text = "\n".join(lines)
    file, program = work / "scenario.toml", work / "fabric"
    file.write_text(text)
    libraries = [f"-lns3-{name}" for name in LIBRARIES]
    run(["g++", "-std=c++17", "-O2", "-o", program, HERE / "fabric.cc", "-Wl,--allow-shlib-undefined", *libraries])
    rates, found = [], {}
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        run([args.pointsman, "sim", file, "--seed", seed, "--flows", work / "flows.csv"])
        flows = (work / "flows.csv").read_text().split()[1:]
        line, used = run([args.pointsman, "sim", file, "--seed", seed, "--threads", 1, "--json", "-"])
        ours = json.loads(line.splitlines()[0])
        if ours["checks"]["violations"]:
            sys.exit(f"error: seed {seed}: {ours['checks']['first']}")
        theirs, packets, ns3_used = in_ns3(program, scenario, flows, seed)
        rates.append((ours["packets"] / used) / (packets / ns3_used))
        classes = {c["class"]: c for c in ours["fabric"]["fct"]}
        by_size = sorted(theirs)
        n_short = classes["short"]["n"]
        parts = {"short": by_size[:n_short], "large": by_size[n_short:], "all": by_size}
        for name, part in parts.items():
            times = [ms for _, ms in part]
            for label, mine, other in [
                ("mean", classes[name]["mean_ms"], statistics.fmean(times)),
                ("P50", classes[name]["p50_ms"], nearest_rank(times, 50)),
                ("P99", classes[name]["p99_ms"], nearest_rank(times, 99)),
            ]:
                found.setdefault((name, label), []).append((mine, other))
        print(f"seed {seed}: {len(flows)} flows, switches received {ours['packets']} packets, {packets} in ns-3; "
              f"{rates[-1]:.1f} times as many in a second of processor time", flush=True)
    for (name, label), values in found.items():
        mine, other = (statistics.median(v[i] for v in values) for i in (0, 1))
        ratio = statistics.median(a / b for a, b in values)
        each = ", ".join(f"{a / b:.2f}" for a, b in values)
        print(f"{name} {label}: {mine:.3f} ms, ns-3 {other:.3f} ms (medians over seeds); ratio {ratio:.2f} ({each})")
    print(f"packets in a second of processor time: {statistics.median(rates):.1f} times those of ns-3")


if __name__ == "__main__":
    main()
