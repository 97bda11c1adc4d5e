"""A second simulator of racks, independent of `pointsman sim`: standard library only, no code shared, other random numbers.

It has no packets, no switch and no calendar. A device is `workers` parallel places with one queue, first come, first served, so the
end of a request is known when it arrives: the earliest place to be free takes it. Between two arrivals only departures and the
agents' timers happen. Times are in milliseconds.

    python3 tests/racks.py SCENARIO.json [SEED]     # prints the results of one run
"""

import heapq
import json
import math
import random
import sys


def service_law(spec, dice):
    """A function that draws a service time. `spec`: ["fixed", mean], ["exponential", mean], ["log-normal", mean, sigma]."""
    kind, mean = spec[0], spec[1]
    if kind == "fixed":
        return lambda: mean
    if kind == "exponential":
        return lambda: dice.expovariate(1.0 / mean)
    if kind == "log-normal":
        sigma = spec[2]
        middle = math.log(mean) - sigma * sigma / 2
        return lambda: dice.lognormvariate(middle, sigma)
    raise ValueError(f"unknown law {kind}")


def gap_law(spec, rate_per_s, dice):
    """A function that draws the time to the next arrival. `spec`: ["poisson"] or ["near-constant", jitter]."""
    mean = 1000.0 / rate_per_s
    if spec[0] == "poisson":
        return lambda: dice.expovariate(1.0 / mean)
    jitter = spec[1]
    return lambda: mean * dice.uniform(1.0 - jitter, 1.0 + jitter)


class Device:
    """Places, the requests that are there, and its agent."""

    def __init__(self, spec, dice):
        self.weight = spec["weight"]
        self.places = [0.0] * spec["workers"]
        self.draw = service_law(spec["law"], dice)
        self.there = []  # (end, start) of every request that has not left
        self.work_done = 0.0  # service time of those that have
        # The agent: smoothed use, and whether it calls the device busy.
        self.sampled = None
        self.use = None
        self.busy = False
        self.hold_until = 0.0
        # What the switch knows.
        self.reported = 0
        self.since_report = 0
        self.open = False
        self.out = False

    def take(self, now):
        start = max(now, self.places[0])
        end = start + self.draw()
        heapq.heapreplace(self.places, end)
        heapq.heappush(self.there, (end, start))
        self.since_report += 1
        return end

    def leave(self):
        end, start = heapq.heappop(self.there)
        self.work_done += end - start

    def worked(self, now):
        """Time that its places have worked, summed over them."""
        return self.work_done + sum(now - start for _, start in self.there if start < now)

    def sample(self, now, window):
        """Use of the places since the last sample, forgotten exponentially over the window."""
        worked = self.worked(now)
        if self.sampled:
            at, before = self.sampled
            used = 100.0 * (worked - before) / ((now - at) * len(self.places))
            self.use = used if self.use is None else self.use + (1 - math.exp((at - now) / window)) * (used - self.use)
        self.sampled = (now, worked)


class Server:
    """The devices of a server, by priority, and what a policy keeps about them."""

    def __init__(self, specs, dice):
        self.devices = [Device(spec, dice) for spec in specs]
        self.credit = [0] * len(specs)


# A policy chooses one of a server's devices.


def first(server, _):
    return server.devices[0]


def any_device(server, dice):
    return dice.choice(server.devices)


def in_turns(server, _):
    """Smooth weighted round robin: everyone earns its weight, the richest pays for all."""
    total = 0
    for i, device in enumerate(server.devices):
        server.credit[i] += device.weight
        total += device.weight
    best = max(range(len(server.credit)), key=lambda i: (server.credit[i], -i))
    server.credit[best] -= total
    return server.devices[best]


def first_open(server, _):
    return next((d for d in server.devices if d.open), server.devices[0])


def least(value):
    def choose(server, dice):
        values = [value(d) for d in server.devices]
        low = min(values)
        tied = [d for d, v in zip(server.devices, values) if v == low]
        return tied[0] if len(tied) == 1 else dice.choice(tied)

    return choose


def first_below(high, low):
    def choose(server, _):
        for d in server.devices:
            d.out = (d.out or d.reported >= high) and d.reported > low
        return next((d for d in server.devices if not d.out), server.devices[0])

    return choose


def policy_of(name, tuning):
    return {
        "server-only": first,
        "ecmp": any_device,
        "wrr": in_turns,
        "p4mite": first_open,
        "least-connections": least(lambda d: len(d.there)),
        "weighted-least-connections": least(lambda d: (len(d.there) + 1) / d.weight),
        "least-utilised": least(lambda d: d.reported + tuning.get("step", 1) * d.since_report),
        "prt": first_below(tuning.get("high", 90), tuning.get("low", 80)),
    }[name]


class Rack:
    """A run. `c`: servers, devices, policy, tuning, arrivals, rate_per_s, duration_s, warmup_s, patience_s, agent (heartbeat_ms,
    sampling_ms, window_ms, delay_ms, hold_ms, high and low of requests that wait)."""

    def __init__(self, c, seed):
        self.c = c
        self.dice = random.Random(seed)
        self.servers = [Server(c["devices"], self.dice) for _ in range(c.get("servers", 1))]
        self.devices = [d for s in self.servers for d in s.devices]
        self.choose = policy_of(c["policy"], c.get("tuning", {}))
        self.agent = c.get("agent")
        self.counts_waiting = bool(self.agent) and "high" in self.agent
        self.timers = []
        self.serial = 0
        if self.agent:
            for d in self.devices:
                first = self.dice.random() * self.agent["heartbeat_ms"]
                if not self.counts_waiting:
                    reading = self.dice.random() * self.agent["sampling_ms"]
                    self.at(reading, self.sample, d)
                    # The first input of an agent is also its first report, so that half of them report what they have just read.
                    first = min(first, reading)
                self.at(first, self.heartbeat, d)

    def at(self, when, what, *arguments):
        self.serial += 1
        heapq.heappush(self.timers, (when, self.serial, what, arguments))

    # Agents.

    def report(self, now, d):
        use = 0 if d.use is None else int(min(max(d.use, 0.0), 100.0))
        self.at(now + self.agent.get("delay_ms", 0), self.arrives, d, use, not d.busy)

    def arrives(self, _, d, use, is_open):
        d.reported, d.open, d.since_report = use, is_open, 0

    def heartbeat(self, now, d):
        self.report(now, d)
        self.at(now + self.agent["heartbeat_ms"], self.heartbeat, d)

    def sample(self, now, d):
        d.sample(now, self.agent["window_ms"])
        self.at(now + self.agent["sampling_ms"], self.sample, d)

    def judge(self, now, d):
        """Whether the device is busy, by the number of its requests, with hysteresis and a hold time."""
        waiting = len(d.there)
        if d.busy:
            if now < d.hold_until or waiting > self.agent["low"]:
                return
            d.busy = False
        else:
            if waiting < self.agent["high"]:
                return
            d.busy = True
            d.hold_until = now + self.agent["hold_ms"]
            self.at(d.hold_until, self.judge, d)
        self.report(now, d)

    # Time.

    def until(self, now):
        """All departures and timers before this moment, in order."""
        while True:
            leaver = min((d for d in self.devices if d.there), key=lambda d: d.there[0][0], default=None)
            leaves = leaver.there[0][0] if leaver else math.inf
            ticks = self.timers[0][0] if self.timers else math.inf
            if min(leaves, ticks) > now:
                return
            if leaves <= ticks:
                leaver.leave()
                if self.counts_waiting:
                    self.judge(leaves, leaver)
            else:
                when, _, what, arguments = heapq.heappop(self.timers)
                what(when, *arguments)

    def run(self):
        c = self.c
        gap = gap_law(c["arrivals"], c["rate_per_s"], self.dice)
        end, warmup, patience = (1000.0 * c[k] for k in ("duration_s", "warmup_s", "patience_s"))
        # Agents were there before the clients.
        now = begin = 1000.0
        latencies, lost = [], 0
        while True:
            now += gap()
            if now >= begin + end:
                break
            self.until(now)
            server = self.servers[0] if len(self.servers) == 1 else self.dice.choice(self.servers)
            device = self.choose(server, self.dice)
            latency = device.take(now) - now
            if self.counts_waiting:
                self.judge(now, device)
            if now < begin + warmup:
                continue
            # A lost request counts as its time-out.
            lost += latency > patience
            latencies.append(min(latency, patience))
        latencies.sort()
        n = len(latencies)

        def percentile(p):
            return latencies[max(math.ceil(n * p / 100), 1) - 1]

        return {"sent": n, "lost": lost, "p50_ms": percentile(50), "p99_ms": percentile(99)}


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        print(json.dumps(Rack(json.load(file), int(sys.argv[2]) if len(sys.argv) == 3 else 1).run()))
