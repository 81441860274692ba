"""Finds the licences of the libraries that a package carries (tools/package, tools/make_wheel) in Debian's copyright files."""

import pathlib
import re
import shutil
import subprocess
import sys


def run(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def packages_of(files):
    """Returns {library file: (package, version)}, reading dpkg's lists once; /lib may be a link to /usr/lib."""
    wanted = {str(f): f for f in files} | {str(f).removeprefix("/usr"): f for f in files}
    owner = {}
    for listing in pathlib.Path("/var/lib/dpkg/info").glob("*.list"):
        for line in listing.read_text().splitlines():
            if line in wanted:
                owner[wanted[line]] = listing.name.removesuffix(".list").split(":")[0]
    versions = dict(line.split("\t") for line in run("dpkg-query", "-W", "-f", "${Package}\t${Version}\n").splitlines())
    missing = [str(f) for f in files if f not in owner]
    if missing:
        sys.exit("libraries of no Debian package, so of unknown licence: " + ", ".join(missing))
    return {f: (owner[f], versions[owner[f]]) for f in files}


def licences_of(text):
    names = []
    for name in re.findall(r"^License:[ \t]*(\S.*)$", text, re.M):
        if name not in names:
            names.append(name)
    for name in re.findall(r"/usr/share/common-licenses/([\w.-]*\w)", text):
        if not names or (name not in names and not any(name in n for n in names)):
            names.append(name)
    return names or ["see its copyright file"]


def write_licences(root, libraries, first, whose, what):
    """Writes root/LICENCES.txt and root/licences: for each library ({soname: file}) they tell the Debian package, version and licences (the GPL is
    marked), and contain the licence texts. `first`, `whose` and `what` are words about the package."""
    owners = packages_of(sorted({pathlib.Path(f).resolve() for f in libraries.values()}))
    (root / "licences/common").mkdir(parents=True)
    lines = [first,
             f"{whose}; their sources: https://snapshot.debian.org, or `apt-get source PACKAGE`.",
             "Debian builds FFmpeg's libraries (libavcodec …) with parts under the GPL (libx264, libx265 …). As a whole this " + what,
             "therefore falls under the GPL, version 3 or later. The libraries that name the GPL are marked with *, also where it covers",
             "only their build scripts or tools; their copyright files in licences/ tell which. Where those refer to a text in",
             "/usr/share/common-licenses, it lies in licences/common.", ""]
    by_package = {}
    for soname, file in libraries.items():
        by_package.setdefault(owners[pathlib.Path(file).resolve()], []).append(soname)
    for (package, release), sonames in sorted(by_package.items()):
        source = pathlib.Path("/usr/share/doc") / package / "copyright"
        text = source.read_text(errors="replace") if source.exists() else ""
        if not text:
            sys.exit(f"{source} is missing: install {package} with its documentation")
        (root / "licences" / f"{package}.txt").write_text(text)
        for common in set(re.findall(r"/usr/share/common-licenses/[\w.-]*\w", text)):
            if pathlib.Path(common).exists():
                shutil.copy(common, root / "licences/common")
        names = licences_of(text)
        gpl = any(re.match(r"(A?GPL)", n) for n in names)
        lines.append(f"{'*' if gpl else ' '} {package} {release}: {', '.join(sorted(sonames))}\n      {', '.join(names)}")
    (root / "LICENCES.txt").write_text("\n".join(lines) + "\n")
