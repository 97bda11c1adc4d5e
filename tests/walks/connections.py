#!/usr/bin/env python3
"""TCP connections that stay open, for walks.

    connections.py serve NAME ADDRESS PORT    # answers each request with its name
    connections.py ask COUNT ADDRESS PORT     # opens connections, sends a request over each every second, until SIGTERM

At its end `ask` prints one line of JSON: connections, how many are `broken` (an error, an end, or no answer to the last request within
four seconds), how many were `moved` (an answer from another server than the first one), `requests` and `answers`, the `longest` time
between request and answer in seconds, and the connections `by` server.
"""

import json
import selectors
import signal
import socket
import sys
import time

PATIENCE = 4.0


def serve(name, address, port):
    listener = socket.create_server((address, port), backlog=4096)
    listener.setblocking(False)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            try:
                if key.fileobj is listener:
                    connection = listener.accept()[0]
                    connection.setblocking(False)
                    selector.register(connection, selectors.EVENT_READ)
                elif requests := key.fileobj.recv(1000):
                    key.fileobj.send((name + "\n").encode() * len(requests))
                    continue
                else:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
            except OSError:
                if key.fileobj is not listener:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()


class Connection:
    def __init__(self, address, port, next_at):
        self.socket = socket.create_connection((address, port), timeout=10)
        self.socket.setblocking(False)
        self.next_at = next_at
        self.asked = []  # when, of requests without an answer
        self.server = None
        self.is_moved = False
        self.trouble = None


def ask(count, address, port):
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(time.monotonic()))
    selector = selectors.DefaultSelector()
    start = time.monotonic()
    all_of_them = [Connection(address, port, 0.0) for _ in range(count)]
    for n, c in enumerate(all_of_them):
        c.next_at = time.monotonic() + n / count
        selector.register(c.socket, selectors.EVENT_READ, c)
    print(f"{count} connections after {time.monotonic() - start:.1f} s", flush=True)
    requests = answers = 0
    longest = 0.0
    # After the signal, what was asked has time to be answered.
    while not ended or time.monotonic() < ended[0] + PATIENCE:
        now = time.monotonic()
        for c in all_of_them:
            if not ended and c.next_at <= now and c.trouble is None:
                c.next_at += 1.0
                c.asked.append(now)
                requests += 1
                try:
                    c.socket.send(b"?")
                except OSError as e:
                    c.trouble = str(e)
        for key, _ in selector.select(0.01):
            c = key.data
            try:
                text = key.fileobj.recv(1000).decode()
                if not text:
                    c.trouble = "closed"
            except OSError as e:
                text, c.trouble = "", str(e)
            if c.trouble is not None:
                selector.unregister(key.fileobj)
                continue
            for name in text.split():
                c.server = c.server or name
                c.is_moved |= c.server != name
                answers += 1
                longest = max(longest, time.monotonic() - c.asked.pop(0))
    by = {}
    for c in all_of_them:
        by[c.server] = by.get(c.server, 0) + 1
    broken = [c.trouble or "no answer" for c in all_of_them if c.trouble or c.asked]
    print(
        json.dumps(
            {
                "connections": count,
                "broken": len(broken),
                "why": sorted(set(broken)),
                "moved": sum(c.is_moved for c in all_of_them),
                "requests": requests,
                "answers": answers,
                "longest": round(longest, 3),
                "by": {str(name): n for name, n in sorted(by.items(), key=str)},
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        ask(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
