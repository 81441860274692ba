#!/usr/bin/env python3
"""Checks a server of /v1/videos with the unmodified openai client, and where the client hides what comes back, in plain HTTP.

    conformance.py BUILD                       starts the server of this build and checks it
    conformance.py --url URL [--key KEY]       checks a server that runs, of whatever kind
    … --only TEXT                              only checks whose name contains the text
    … --database                               the server's table is in a PostgreSQL of its own
    … --client                                 only what the client itself needs, without what is this server's own

Prints a line for each check; the exit code is 0 if all have passed."""

import argparse
import contextlib
import os
import sys
import time
import traceback
import warnings

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import openai  # noqa: E402

import checks_client  # noqa: E402
import checks_own  # noqa: E402
import checks_wire  # noqa: E402
from server import SMALL, Server, options_of_table  # noqa: E402
from site_under_test import Missed, Site  # noqa: E402


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("build", nargs="?")
    options.add_argument("--url")
    options.add_argument("--key", default="none")
    options.add_argument("--model", default="")
    options.add_argument("--only", default="")
    options.add_argument("--client", action="store_true")
    options.add_argument("--database", action="store_true")
    options = options.parse_args()
    warnings.simplefilter("ignore")  # every method of the client's videos is marked as deprecated
    assert options.build or options.url, "give a build folder or --url"
    beside = contextlib.ExitStack()
    table = beside.enter_context(options_of_table(options.database))
    server = None if options.url else Server(options.build, *table).wait_ready()
    site = Site(options.url or server.base, options.key, options.model, SMALL)
    checks = checks_client.CHECKS + ([] if options.client else checks_wire.CHECKS + checks_own.CHECKS)
    missed, begin = [], time.monotonic()
    try:
        for check in checks:
            if options.only not in check.__name__:
                continue
            name = check.__name__.replace("_", " ")
            try:
                check(site)
                print(f"ok      {name}", flush=True)
            except (Missed, AssertionError, openai.OpenAIError, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
                missed.append(name)
                place = traceback.extract_tb(error.__traceback__)
                line = next((f.line for f in reversed(place) if "checks_" in f.filename), "")
                print(f"MISSED  {name}: {type(error).__name__}: {str(error)[:300]}  [{line}]", flush=True)
    finally:
        site.close()
        if server:
            server.close()
        beside.close()
    print(f"{len(checks) - len(missed)} of {len(checks)} checks passed, openai {openai.__version__}, {time.monotonic() - begin:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
