#!/usr/bin/env python3
"""Tests tools/check_layers on small trees: forbidden includes and options in strings of src/ fail, the rest passes.

    check_layers_test.py PATH_OF_CHECK_LAYERS"""
import pathlib
import shutil
import subprocess
import sys
import tempfile


def run(tool, files):
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        (root / "tools").mkdir()
        shutil.copy(tool, root / "tools/check_layers")  # the tool checks the tree in which it lies
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        done = subprocess.run([root / "tools/check_layers"], capture_output=True, text=True)
        return done.returncode, done.stdout


def main():
    tool = pathlib.Path(sys.argv[1]).resolve()
    below = {"src/base/a.h": "", "src/tensor/b.h": '#include "base/a.h"\n'}
    assert run(tool, below)[0] == 0
    code, said = run(tool, below | {"src/base/c.cpp": '#include "tensor/b.h"\n'})
    assert code == 1 and "src/base/c.cpp: base may not include tensor (tensor/b.h)" in said, said
    assert run(tool, {"src/a.h": ""})[0] == 1

    for text in ('fail("--steps: too few");', 'fail("raise --max-vram");', 'fail("of \'--in\'");', "c = '\"'; fail(\"a --b\");"):
        code, said = run(tool, {"src/base/a.cpp": f"int a;\n{text}\n"})
        assert code == 1 and "src/base/a.cpp:2: an option of the command line" in said, text + said
        assert run(tool, {"apps/cli/a.cpp": text})[0] == 0, text
    for text in ("// --steps", "/* as \"--steps\" */", "for (; i; --i) f(\"`steps`\");", 'f("a--b -- c --4 ---");', 'f("`a`") - --b; "c"'):
        assert run(tool, {"src/base/a.cpp": text})[0] == 0, text

    module = below | {"src/ops/c.h": "", "python/bind/a.h": "", "python/bind/a.cpp": '#include "bind/a.h"\n#include "ops/c.h"\n#include <nanobind/nanobind.h>\n'}
    assert run(tool, module)[0] == 0, run(tool, module)
    code, said = run(tool, module | {"src/nn/d.h": "", "python/bind/d.cpp": '#include "nn/d.h"\n'})
    assert code == 1 and "python/bind/d.cpp: python may not include nn (nn/d.h)" in said, said
    for text, why in (("#include <torch/library.h>", "a header of torch"), ("#include <Python.h>", "a header of Python"),
                      ('#include "bind/a.h"', "tensor may not include python")):
        code, said = run(tool, module | {"src/tensor/e.cpp": text + "\n"})
        assert code == 1 and why in said, said

    for path in ("src/base/e.cpp", "src/base/os/e.h", "apps/cli/e.cpp", "python/bind/e.cpp"):
        for text, why in (("#include <unistd.h>", "a header of one system (unistd.h)"), ("# include <sys/mman.h>", "(sys/mman.h)"),
                          ("#include <signal.h>", "(signal.h)"), ("#include <Windows.h>", "(Windows.h)"), ('f("/proc/self/exe");', '("/proc/self/exe")'),
                          ('f("a", "b /dev/null");', "a path of one system"), ("::mkdtemp(name);", "a function or signal of one system (mkdtemp)"),
                          ("if (fileno(f))", "(fileno)"), ("std::aligned_alloc(64, n);", "(aligned_alloc)"), ("std::signal(SIGPIPE, f);", "(SIGPIPE)")):
            code, said = run(tool, {path: text + "\n"})
            assert code == 1 and f"{path}: " in said and why in said, path + text + said
            assert run(tool, {"src/base/os/posix/e.cpp": text + "\n"})[0] == 0, text
        for text in ("// /proc/self/exe, unistd.h, fileno(f)", "#include <csignal>\n#include <ctime>\n#include <cstdio>", 'f("usr/sys/a");',
                     "std::getline(in, line); std::signal(SIGINT, f); a.fileno(); file->realpath(); my_fileno(f);"):
            assert run(tool, {path: text + "\n"})[0] == 0, text
    os = {"src/base/os/file.h": "", "src/base/os/posix/calls.h": '#include "base/os/file.h"\n', "src/base/os/posix/file.cpp": '#include "base/os/posix/calls.h"\n'}
    assert run(tool, below | os)[0] == 0, run(tool, below | os)
    for path, text, why in (("src/base/os/a.h", '#include "base/a.h"', "base/os includes nothing of ours but itself"),
                            ("src/base/os/posix/a.cpp", '#include "base/a.h"', "base/os includes nothing of ours but itself"),
                            ("src/base/a.cpp", '#include "base/os/posix/calls.h"', "by its own files alone")):
        code, said = run(tool, below | os | {path: text + "\n"})
        assert code == 1 and why in said, said

    package = "python/tachyscope/"
    straight = {package + "__init__.py": "from . import _b\n", package + "_a.py": "import os\n", package + "_b.py": "from . import _a as x, os\n"}
    assert run(tool, straight)[0] == 0, run(tool, straight)
    for back in ("from . import _b\n", "def f():\n    from ._b import g\n"):
        code, said = run(tool, straight | {package + "_a.py": back})
        assert code == 1 and "include cycle: " in said and "_a.py" in said and "_b.py" in said, said
    print("check_layers_test: ok")


if __name__ == "__main__":
    main()
