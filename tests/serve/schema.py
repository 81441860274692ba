#!/usr/bin/env python3
"""Runs schemathesis against the server's own description: what it makes of /openapi.json is sent, and each answer must be one that is described there.

    schema.py BUILD [--short]"""

import argparse
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from server import Server  # noqa: E402

# A foreign Host or Origin, and a method that is not there, have answers of their own in limits.py and conformance.py.
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("build")
    options.add_argument("--short", action="store_true")
    options = options.parse_args()
    program = pathlib.Path(sys.executable).parent / "schemathesis"
    with Server(options.build) as server:
        server.wait_ready()
        # Event streams of jobs that wait do not end, so a stream is not asked for.
        done = subprocess.run([program, "run", f"{server.base}/openapi.json", "--checks", CHECKS, "--max-examples", "10" if options.short else "50",
                               "--request-timeout", "30", "--exclude-operation-id", "streamVideoEvents", "--seed", "7", "--no-color"])
        assert server.ask("GET", "/health").status == 200
        server.end(10)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
