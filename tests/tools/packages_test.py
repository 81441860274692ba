#!/usr/bin/env python3
"""Tests the tools that make packages: the tag and the limits of wheels, the completions and the manual page of a program that exists, and what
joins kernels with programs.

    packages_test.py TOOLS_FOLDER PROGRAM"""

import base64
import hashlib
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

TOOLS, PROGRAM = (pathlib.Path(p).resolve() for p in (sys.argv.pop(1), sys.argv.pop(1)))


def tool(name):
    loader = importlib.machinery.SourceFileLoader(name, str(TOOLS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


WHEELS, SEAM = tool("make_data_wheels"), tool("kernel_seam")


def compile_c(folder, name, text, *options):
    (folder / f"{name}.cpp").write_text(text)
    subprocess.run(["g++", "-std=c++20", "-fPIC", *options, folder / f"{name}.cpp", "-o", folder / name], check=True)
    return folder / name


class Wheels(unittest.TestCase):
    def test_the_tag_is_what_the_symbols_ask_for(self):
        machine = WHEELS.platform.machine()
        for newest, tag in (({"GLIBC": (2, 17)}, "2_17"), ({"GLIBC": (2, 27), "GLIBCXX": (3, 4, 24)}, "2_28"), ({"GLIBC": (2, 34), "GLIBCXX": (3, 4, 30)}, "2_35"),
                            ({"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13)}, "2_34"), ({"GLIBC": (2, 36), "GCC": (3, 3, 1)}, "2_36")):
            self.assertEqual(WHEELS.manylinux(newest), f"manylinux_{tag}_{machine}", newest)

    def test_a_library_that_loads_another_is_refused(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            plain = compile_c(folder, "libplain.so", "#include <string>\nstd::string f(const char* s) { return std::string(s) + 'a'; }", "-shared")
            asked = WHEELS.asked_of_the_system([plain])
            self.assertGreaterEqual(asked["GLIBC"], (2, 2, 5))
            self.assertGreaterEqual(asked["GLIBCXX"], (3, 4))
            other = compile_c(folder, "libother.so", "int gzopen(); int f() { return gzopen(); }", "-shared", "-Wl,--no-as-needed", f"-L{folder}", "-l:libplain.so")
            with self.assertRaisesRegex(SystemExit, "loads .*libplain.so, which a wheel may not expect"):
                WHEELS.asked_of_the_system([other])

    def test_a_wheel_is_one(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "a.so").write_bytes(b"abc")
            wheel = WHEELS.write(folder, "tachyscope-thing", "py3-none-any", [("thing/a.so", folder / "a.so")], "A thing", ["numpy>=1"], "words")
            with zipfile.ZipFile(wheel) as archive:
                self.assertEqual(archive.read("thing/a.so"), b"abc")
                info = f"tachyscope_thing-{WHEELS.version()}.dist-info"
                record = archive.read(f"{info}/RECORD").decode()
                digest = base64.urlsafe_b64encode(hashlib.sha256(b"abc").digest()).rstrip(b"=").decode()
                self.assertIn(f"thing/a.so,sha256={digest},3\n", record)
                self.assertEqual(sorted(line.split(",")[0] for line in record.splitlines()), sorted(archive.namelist()))
                self.assertIn("Requires-Dist: numpy>=1\n", archive.read(f"{info}/METADATA").decode())
                self.assertIn("Root-Is-Purelib: true\n", archive.read(f"{info}/WHEEL").decode())

    def test_models_come_with_the_files_of_their_neighbours(self):
        names = [path for path, _ in WHEELS.model_files()]
        self.assertIn("tachyscope_models/models/sprites-fast/text_encoder/config.json", names)
        self.assertIn("tachyscope_models/models/world/config.json", names)
        self.assertFalse([n for n in names if n.startswith("tachyscope_models/models/sprites/")])


class Seam(unittest.TestCase):
    def seam(self, side, listed, *files):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "list").write_text(listed)
            objects = [compile_c(folder, f"{i}.o", text, "-c") for i, text in enumerate(files)]
            done = subprocess.run([TOOLS / "kernel_seam", side, "--out", folder / "out.S", "--list", folder / "list", "--files", *objects], capture_output=True, text=True)
            return done.returncode, done.stderr + done.stdout, (folder / "out.S").read_text() if (folder / "out.S").exists() else ""

    KERNELS = "namespace tachy { int host(int); int kernel(int x) { return host(x) + 1; } }"

    def test_what_kernels_need_has_to_be_listed(self):
        code, said, _ = self.seam("library", "# nothing\n", self.KERNELS)
        self.assertEqual(code, 1)
        self.assertIn("tachy::host(int)", said)
        code, said, text = self.seam("library", "_ZN5tachy4hostEi  # a word\n", self.KERNELS)
        self.assertEqual(code, 0, said)
        self.assertIn(".type _ZN5tachy4hostEi, %function", text)
        self.assertIn('.asciz "_ZN5tachy6kernelEi"', text)
        self.assertEqual(self.seam("check", "_ZN5tachy4hostEi\n", self.KERNELS)[0], 0)

    def test_a_program_needs_what_it_calls_and_does_not_define(self):
        code, said, text = self.seam("program", "?_ZN5tachy4hostEi\n", "namespace tachy { int kernel(int); int f() { return kernel(2); } }", "namespace tachy { int g(); int f(); int h() { return f(); } }")
        self.assertEqual(code, 0, said)
        self.assertIn(".type _ZN5tachy6kernelEi, %function", text)
        self.assertIn(".weak _ZN5tachy4hostEi", text)
        self.assertNotIn("_ZN5tachy1fEv", text)

    def test_data_does_not_cross(self):
        code, said, _ = self.seam("program", "", "namespace tachy { struct A { virtual ~A(); virtual int f(); }; struct B : A { int f() override; }; A* make() { return new B; } }")
        self.assertEqual(code, 1)
        self.assertIn("vtable for tachy::B", said)

    def test_kernels_of_hopper_may_be_left_out(self):
        self.assertEqual(self.seam("library", "", "namespace tachy { void flash_sm90(); void f() { flash_sm90(); } }")[0], 0)

    def test_the_stamp_follows_the_headers(self):
        with tempfile.TemporaryDirectory() as name:
            file = pathlib.Path(name) / "a.h"
            file.write_text("struct A { int a; };")
            first = SEAM.stamp_of([file])
            file.write_text("struct A { long a; };")
            self.assertNotEqual(first, SEAM.stamp_of([file]))
            self.assertRegex(first, r"^\d+\.\d+\.\d+-[0-9a-f]{12}$")


class Options(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        subprocess.run([TOOLS / "describe_options", PROGRAM, cls.folder.name], check=True, stdout=subprocess.PIPE)
        cls.share = pathlib.Path(cls.folder.name) / "share"

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def completed(self, *words):
        script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tachyscope 2> /dev/null; printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", script, "-", self.share / "bash-completion/completions/tachyscope", *words], capture_output=True, text=True, check=True)
        return done.stdout.split()

    def test_bash_completes_commands_options_and_values(self):
        self.assertEqual(self.completed("tachyscope", "gene"), ["generate"])
        self.assertIn("--steps", self.completed("tachyscope", "generate", "--st"))
        self.assertIn("--database", self.completed("tachyscope", "serve", "--da"))
        self.assertIn("cuda:0", self.completed("tachyscope", "doctor", "--device", "cu"))
        self.assertEqual(self.completed("tachyscope", "validate", "--no-such"), [])

    def test_each_option_of_each_command_is_there(self):
        manual = subprocess.run(["zcat", self.share / "man/man1/tachyscope.1.gz"], check=True, capture_output=True, text=True).stdout
        zsh = (self.share / "zsh/vendor-completions/_tachyscope").read_text()
        for command in ("generate", "talk", "world", "convert", "validate", "bench", "serve"):
            said = subprocess.run([PROGRAM, command, "--help-all"], check=True, capture_output=True, text=True).stdout
            names = [line.split()[0].split(",") for line in said.splitlines() if line.startswith("  -")]
            self.assertGreater(len(names), 5, command)
            offered = self.completed("tachyscope", command, "--")
            for spellings in names:
                long = next((n for n in spellings if n.startswith("--")), None)
                if long:
                    self.assertIn(long, offered, command)
                    self.assertIn(long, zsh)
                    self.assertIn(long.replace("-", "\\-"), manual)


if __name__ == "__main__":
    unittest.main()
