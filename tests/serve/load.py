#!/usr/bin/env python3
"""A server under load: clients that poll once a second, open event streams, jobs that wait, one that runs. Prints the times of GET, what memory they
take, and the server's own processor seconds beside those of a job.

    load.py BUILD [--short]"""

import argparse
import asyncio
import concurrent.futures
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from server import Server  # noqa: E402

POLLERS, STREAMS, QUEUED = 200, 50, 1000
MOST_P99_MS, MOST_MEMORY_MB, MOST_SHARE = 25, 60, 0.03


async def poll(port, id, seconds, delay, times):
    """Asks for one job once a second over one connection, as an SDK does."""
    await asyncio.sleep(delay)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = f"GET /v1/videos/{id} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n".encode()
    until = time.monotonic() + seconds
    while (begin := time.monotonic()) < until:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(length)
        times.append(time.monotonic() - begin)
        await asyncio.sleep(max(0, begin + 1 - time.monotonic()))
    writer.close()


async def listen(port, id, counts):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /v1/videos/{id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    try:
        while line := await reader.readline():
            counts[0] += line.startswith(b"data:")
    finally:
        writer.close()


async def load(server, ids, running, seconds):
    """Returns the times of all polls, and how many events came."""
    times, counts = [], [0]
    streams = [asyncio.create_task(listen(server.port, running if n % 2 else ids[n], counts)) for n in range(STREAMS)]
    await asyncio.gather(*(poll(server.port, ids[n % len(ids)] if n % 4 else running, seconds, n / POLLERS, times) for n in range(POLLERS)))
    for stream in streams:
        stream.cancel()
    await asyncio.gather(*streams, return_exceptions=True)
    return times, counts[0]


def quantile(times, share):
    return sorted(times)[min(len(times) - 1, int(share * len(times)))] * 1000


def measure(server, ids, running, seconds):
    cpu, begin = server.processor_seconds(), time.monotonic()
    times, events = asyncio.run(load(server, ids, running, seconds))
    return times, events, (server.processor_seconds() - cpu) / (time.monotonic() - begin)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("build")
    options.add_argument("--short", action="store_true")
    options = options.parse_args()
    seconds = 10 if options.short else 40
    with Server(options.build) as server:
        server.wait_ready()
        server.wait(server.create()["id"])
        idle = server.memory_kb()
        long = {"num_frames": 65, "num_inference_steps": 1000}
        running = server.create(**long)["id"]
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            ids = list(pool.map(lambda n: server.create(prompt=f"job {n}")["id"], range(QUEUED - 1)))
        made = time.monotonic() - begin
        while server.video(running)["status"] != "in_progress":
            time.sleep(0.1)
        times, events, with_job = measure(server, ids, running, seconds)
        first = server.memory_kb()
        more, _, _ = measure(server, ids, running, seconds)
        memory = server.memory_kb()
        # The server's own share is what it takes while no job computes: everything is held, and the same clients ask.
        server.ask("POST", f"/v1/videos/{running}/pause")
        for id in ids:
            server.ask("POST", f"/v1/videos/{id}/pause")
        time.sleep(2)
        quiet, _, alone = measure(server, ids, running, seconds)
        begin = time.monotonic()
        server.end(6)
        ended = time.monotonic() - begin
    p99 = quantile(times + more, 0.99)
    share = alone / max(with_job - alone, 1e-9)
    print(f"{POLLERS} pollers, {STREAMS} event streams, {len(ids)} jobs queued in {made:.1f} s, one running, {os.cpu_count()} processors, whose load is {os.getloadavg()[0]:.1f}")
    print(f"GET beside a job: p50 {quantile(times + more, 0.5):.1f} ms, p99 {p99:.1f} ms (at most {MOST_P99_MS}), {len(times + more)} of them; {events} events")
    print(f"GET without a job: p50 {quantile(quiet, 0.5):.1f} ms, p99 {quantile(quiet, 0.99):.1f} ms")
    print(f"memory: {(memory - idle) / 1000:.1f} MB over idle (at most {MOST_MEMORY_MB}), of which {(memory - first) / 1000:.1f} MB came in the second half")
    print(f"processor: {alone:.3f} s a second for the clients, {with_job:.2f} with the job, which are {100 * share:.1f} % of the job's (at most {100 * MOST_SHARE:.0f} %); ended in {ended:.1f} s")
    missed = p99 > MOST_P99_MS or memory - idle > MOST_MEMORY_MB * 1000 or share > MOST_SHARE
    return 1 if missed and not options.short else 0


if __name__ == "__main__":
    sys.exit(main())
