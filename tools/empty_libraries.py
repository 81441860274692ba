#!/usr/bin/env python3
"""Makes empty shared libraries in place of those that FFmpeg's libraries load and this project never uses, for packages that carry their libraries
(tools/make_wheel).

A distribution's FFmpeg is linked with libraries for everything: network protocols, audio codecs, encoders, displays. These libraries, and those that
they load in turn, are loaded at each start and would be two thirds of the libraries' size in a package, but a program that reads and writes H.264,
VP9, Opus, WebP and JPEG calls none of them. An empty library has the same name, versions and symbols; its functions return 0, which FFmpeg takes as
"no such thing" (null, or a probe that failed), and its data are zeros. libgme cannot be replaced, since FFmpeg uses its answer without a check.

    tools/empty_libraries.py BUILD      the tests of media/ and a film with the empty libraries in front of the real ones"""

import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# The libraries that libavcodec, libavformat and libavutil load, and why they are not missed.
LEFT_OUT = {
    "codecs of audio": ["libcodec2", "libgsm", "libmp3lame", "libshine", "libspeex", "libtwolame", "libvorbis",
                        "libvorbisenc", "libopenmpt", "libchromaprint"],
    "encoders of other codecs": ["libx265", "libxvidcore", "librav1e", "libSvtAv1Enc", "libtheoraenc", "libtheoradec"],
    "decoders that are not the first for their codec, and pictures that are no video": [
        "libaom", "libjxl", "libjxl_threads", "librsvg-2", "libcairo", "libgobject-2.0", "libglib-2.0", "libzvbi"],
    "protocols and discs": ["libxml2", "libbluray", "libgnutls", "librabbitmq", "librist", "libsrt-gnutls", "libssh-gcrypt", "libzmq"],
    "displays and other devices": ["libva", "libva-drm", "libva-x11", "libvdpau", "libX11", "libdrm", "libmfx", "libvpl"],
}
NAMES = {name for names in LEFT_OUT.values() for name in names}
SYMBOL = re.compile(r"^\s*\d+:\s+\w+\s+(\w+)\s+(\w+)\s+(GLOBAL|WEAK)\s+\w+\s+(\S+)\s+(\S+)")


def left_out(soname):
    return soname.split(".so")[0] in NAMES


def run(*command):
    return subprocess.run([str(c) for c in command], check=True, text=True, stdout=subprocess.PIPE).stdout


def needed(file):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-dW", file))


def symbols(file):
    """Returns (name, version, kind, size) of each symbol that the file defines, and the (name, version) pairs that it looks for."""
    defined, wanted = {}, set()
    for line in run("readelf", "--dyn-syms", "-W", file).splitlines():
        match = SYMBOL.match(line)
        if match:
            size, kind, _, place, name = match.groups()
            name, _, version = name.replace("@@", "@").partition("@")
            if place == "UND":
                wanted.add((name, version))
            else:
                defined[name] = (version, kind, int(size, 0))
    return defined, wanted


def closure(binary):
    """Returns {soname: file} of the libraries that the binary loads (as this machine's loader finds them), except those that only a left-out library
    loads, and the sonames that are left out."""
    where = dict(re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", binary), re.M))
    kept, without, queue = {}, {}, needed(binary)
    for soname in queue:
        if soname in kept or soname in without or soname not in where:
            continue
        if left_out(soname):
            without[soname] = pathlib.Path(where[soname])
        else:
            kept[soname] = pathlib.Path(where[soname])
            queue += needed(where[soname])
    return kept, without


def make_empty(soname, file, wanted, folder, compiler="cc"):
    """Makes folder/soname with every symbol of `file` that is wanted."""
    defined, _ = symbols(file)
    code, versions = ["long tachy_nothing(void) { return 0; }"], collections.defaultdict(list)
    for name in sorted({name for name, _ in wanted} & set(defined)):
        version, kind, size = defined[name]
        if kind == "OBJECT":
            code.append(f"char {name}[{max(size, 8)}] __attribute__((aligned(16)));")
        else:
            code.append(f'long {name}(void) __attribute__((alias("tachy_nothing")));')
        if version:
            versions[version].append(name)
    source, script = folder / f"{soname}.c", folder / f"{soname}.map"
    source.write_text("\n".join(code) + "\n")
    script.write_text("".join(f"{v} {{ global: {'; '.join(names)}; }};\n" for v, names in sorted(versions.items())))
    script_option = [f"-Wl,--version-script={script}"] if versions else []
    run(compiler, "-shared", "-fPIC", "-nostdlib", "-fno-builtin", "-w", "-s", f"-Wl,-soname,{soname}", *script_option,
        "-o", folder / soname, source)
    source.unlink()
    script.unlink()


def make_all(binary, folder):
    """Makes empty libraries for everything that the binary can do without; returns the libraries that it still loads."""
    folder.mkdir(parents=True, exist_ok=True)
    kept, without = closure(binary)
    wanted = set().union(*(symbols(file)[1] for file in [binary, *kept.values()]))
    for soname, file in without.items():
        make_empty(soname, file, wanted, folder)
    return kept


def main(build):
    """Runs the tests and programs that read and write films, damaged ones included, with the empty libraries; shows the output of those that fail."""
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work) / "empty"
        test = build / "tests/unit/media/media_test"
        for binary in (build / "tachyscope", test):
            kept = make_all(binary, folder)
        environment = os.environ | {"LD_LIBRARY_PATH": str(folder)}
        film = [build / "tachyscope", "generate", "a red ball", "--frames", "5", "--steps", "1", "-o", f"{work}/film.mp4"]
        for command in ([test], film):
            done = subprocess.run([str(c) for c in command], env=environment, text=True, capture_output=True)
            if done.returncode:
                sys.exit(f"{done.stdout}{done.stderr}\nempty_libraries: {command[0]} fails with {done.returncode}")
        print(f"empty_libraries: {len(list(folder.iterdir()))} empty ones beside {len(kept)} real ones: passed")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]).resolve())
