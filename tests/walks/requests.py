#!/usr/bin/env python3
"""A device's service and its clients, for walks.

requests.py serve ADDRESS,... PORT NAME   answers each connection's line with NAME
requests.py send ADDRESS PORT RATE        sends RATE requests a second, each on a new connection, until it is killed

A line of the sender's standard output is a request that has ended: its number, from 0; when it began (seconds since 1970); how long it
took; and the name in the answer, or LOST and why, or STALLED. A request without an answer after five seconds is lost, unless this program
itself got no processor for a second: then it is stalled, which says nothing about the service.
"""
import asyncio
import sys
import time

PATIENCE_S = 5.0
STALL_S = 1.0


async def serve(address, port, name):
    async def answer(reader, writer):
        try:
            await reader.readline()
            writer.write(name.encode() + b"\n")
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        except ConnectionError:
            pass

    server = await asyncio.start_server(answer, address.split(","), port, backlog=1024)
    await server.serve_forever()


async def request(address, port):
    reader, writer = await asyncio.open_connection(address, port)
    try:
        writer.write(b"hello\n")
        line = await reader.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError("the connection ended before the answer")
        return line.decode().strip()
    finally:
        writer.transport.abort() if sys.exc_info()[0] else writer.close()


async def account(number, address, port):
    began, start = time.time(), time.monotonic()
    try:
        result = await asyncio.wait_for(request(address, port), PATIENCE_S)
    except asyncio.TimeoutError:
        stalled = time.monotonic() - start > PATIENCE_S + STALL_S
        result = "STALLED" if stalled else f"LOST no answer after {PATIENCE_S} s"
    except (OSError, ValueError) as e:
        result = f"LOST {e}"
    print(f"{number} {began:.3f} {time.monotonic() - start:.3f} {result}", flush=True)


async def send(address, port, rate):
    start, tasks = time.monotonic(), set()
    for number in range(1 << 62):
        await asyncio.sleep(max(0.0, start + number / rate - time.monotonic()))
        task = asyncio.create_task(account(number, address, port))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


def main():
    mode, address, port, last = sys.argv[1:]
    if mode == "serve":
        asyncio.run(serve(address, int(port), last))
    else:
        asyncio.run(send(address, int(port), float(last)))


if __name__ == "__main__":
    main()
