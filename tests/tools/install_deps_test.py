#!/usr/bin/env python3
"""Tests tools/install_deps with stand-ins for apt-get and the programs that it asks: it waits for locks, says so once each, and fails for anything
else.

    install_deps_test.py PATH_OF_INSTALL_DEPS"""
import os
import pathlib
import subprocess
import sys
import tempfile

APT = """#!/bin/sh
echo "$*" >> "$CALLS"
line=$(sed -n "$(wc -l < "$CALLS")p" "$SCRIPT")
[ -z "$line" ] && exit 0
echo "$line" >&2
exit 100
"""


def run(install_deps, *script):
    """script: the message with which each call of apt-get fails; with "" it succeeds, and so does every later call."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for tool, text in {"apt-get": APT, "dpkg-query": "#!/bin/sh\nexit 1\n", "sleep": "#!/bin/sh\n", "id": "#!/bin/sh\necho 0\n"}.items():
            (folder / tool).write_text(text)
            (folder / tool).chmod(0o755)
        (folder / "script").write_text("\n".join(script) + "\n")
        (folder / "calls").touch()
        environment = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}", CALLS=str(folder / "calls"), SCRIPT=str(folder / "script"))
        done = subprocess.run([install_deps, "tree"], env=environment, capture_output=True, text=True)
        return done, (folder / "calls").read_text().splitlines()


def main():
    install_deps = pathlib.Path(sys.argv[1]).resolve()
    lists = "E: Could not get lock /lists. It is held by process 7 (apt-get)"
    dpkg = "E: Could not get lock /dpkg. It is held by process 8 (dpkg)"

    done, calls = run(install_deps)
    assert done.returncode == 0 and [call.split()[0] for call in calls] == ["update", "install"], (done, calls)
    assert " tree" in calls[1] and "waiting" not in done.stderr, (done, calls)

    done, calls = run(install_deps, lists, lists, "", dpkg)
    assert done.returncode == 0 and [call.split()[0] for call in calls] == ["update"] * 3 + ["install"] * 2, (done, calls)
    assert done.stderr.count("waiting for another apt") == 2, done
    assert "process 7 (apt-get)" in done.stderr and "process 8 (dpkg)" in done.stderr, done

    done, calls = run(install_deps, "", "E: Unable to locate package tree")
    assert done.returncode == 100 and len(calls) == 2 and "Unable to locate" in done.stderr, (done, calls)


main()
