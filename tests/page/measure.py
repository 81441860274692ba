#!/usr/bin/env python3
"""Measures a long visit to the drawn world in a headless browser: frames per second, the time from key to canvas, memory of server and page.

    tests/page/run BUILD --collect-only -q > /dev/null      makes the environment
    DRAWN_WORLD=BUILD/tests/page/drawn_world TACHY_BROWSER=/usr/bin/chromium-headless-shell \\
      .venv-page/bin/python tests/page/measure.py [--seconds 600] [--size 160x96] [--fps 12] [--block-seconds 0]
    … tests/page/measure.py --url http://127.0.0.1:8190/ [--seconds 60]      a page that is served already, of any world with the key D

A key is pressed or released every 0.3 to 1.1 seconds."""

import argparse
import os
import random
import time

from conftest import Page, Server
from playwright.sync_api import sync_playwright


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--size", default="160x96")
    parser.add_argument("--fps", type=float, default=12)
    parser.add_argument("--block-seconds", type=float, default=0, help="what a block of the world takes")
    parser.add_argument("--url", help="of a page that is served already, in place of the drawn world's")
    args = parser.parse_args()
    width, height = args.size.split("x")
    server = None if args.url else Server(width=width, height=height, fps=args.fps, block_seconds=args.block_seconds)
    resident = lambda: server.resident_kb() / 1024 if server else 0  # the memory of a server started elsewhere is unknown
    draw = random.Random(1)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ["TACHY_BROWSER"], args=["--no-sandbox"])
        page = Page(browser.new_page())
        page.open(args.url or server.url)
        begin, warm, latencies, down = time.monotonic(), None, [], False
        drawn = page.drawn()
        heap = lambda: page.page.evaluate("performance.memory.usedJSHeapSize") / 1e6
        while time.monotonic() - begin < args.seconds:
            time.sleep(draw.uniform(0.3, 1.1))
            down = not down
            (page.page.keyboard.down if down else page.page.keyboard.up)("d")
            latencies += page.page.evaluate("window.worldPage.latencies.splice(0)")
            if warm is None and time.monotonic() - begin > min(60, args.seconds / 4):
                warm = resident(), heap()
        seconds = time.monotonic() - begin
        latencies.sort()
        share = lambda part: latencies[min(len(latencies) - 1, int(part * len(latencies)))]
        print(f"{args.size}, {args.fps:g} frames a second asked for, {seconds:.0f} s: {(page.drawn() - drawn) / seconds:.2f} drawn a second, "
              f"{page.page.inner_text('#dropped')} dropped")
        print(f"key to canvas, {len(latencies)} keys: median {share(0.5):.0f} ms, P95 {share(0.95):.0f} ms, most {latencies[-1]:.0f} ms")
        if server:
            print(f"server's resident memory: {warm[0]:.1f} MiB when warm, {resident():.1f} MiB in the end")
        print(f"the page's heap: {warm[1]:.1f} and {heap():.1f} MB; load of the machine {os.getloadavg()[0]:.1f}")
        browser.close()
    if server:
        server.stop()


if __name__ == "__main__":
    main()
