#!/usr/bin/env python3
"""Tests tools/check_sizes on small trees: a file with too many lines fails.

    check_sizes_test.py PATH_OF_CHECK_SIZES"""
import pathlib
import subprocess
import sys
import tempfile


def run(tool, files):
    with tempfile.TemporaryDirectory() as name:
        for path, text in files.items():
            file = pathlib.Path(name) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        done = subprocess.run([tool, "--list", name], capture_output=True, text=True)
        return done.returncode, done.stdout


def function(head, lines, statement="  call();"):
    return "\n".join([head + " {"] + [statement] * (lines - 2) + ["}"]) + "\n"


def main():
    tool = pathlib.Path(sys.argv[1]).resolve()
    short = "void f() { call(); }\n" * 200

    assert run(tool, {"src/a.cpp": "int f() { return 1; }" + "\n" * 250}) == (0, "check_sizes: 1 functions, 0 long\n")
    code, said = run(tool, {"apps/a.h": "\n" * 251, "src/b.cpp": short})
    assert code == 1 and "apps/a.h: 251 lines, at most 250" in said, said
    assert run(tool, {"src/a.cu": "\n" * 400, "src/b.cpp": short})[0] == 0
    assert run(tool, {"src/a.cu": "\n"})[0] == 1, "a folder without sources"

    assert run(tool, {"src/a.cpp": function("void g()", 60)})[1] == "check_sizes: 1 functions, 0 long\n"
    code, said = run(tool, {"src/a.cpp": function("void g()", 61)})
    assert code == 1 and "1 of 1 functions" in said and "src/a.cpp:1: 61 lines: void g()" in said, said
    assert run(tool, {"src/a.cpp": function("void g()", 61), "src/b.cpp": short})[0] == 0, "one of 201"
    code, said = run(tool, {"src/stages/a.cpp": function("int C::g(A a) const", 81), "src/b.cpp": short})
    assert code == 1 and "81 lines, at most 80: int C::g(A a) const" in said, said

    full = {f"src/a/{i}.{end}": "\n" for i in range(32) for end in ("h", "cpp")} | {"src/b.cpp": short}
    assert run(tool, full | {"src/a/b/c.h": "\n", "src/a/d.cu": "\n"})[0] == 0, "64 of its own"
    code, said = run(tool, full | {"src/a/CMakeLists.txt": "\n"})
    assert code == 1 and "src/a: 65 files, at most 64" in said, said

    # Braces that are not code's, a constructor that initialises with braces, members, and functions within functions.
    tricky = "const char* const kText = \"{\";  // {\nconst char kOpen = '{';\n#define OPEN {\nenum class E { a, b };\n"
    whole = function("C::C(int a) : a_{a}, b_(a)", 30, "  const auto f = [&](int i) { return '}' + i; };")
    members = "struct S {\n  int a() const { return 1; }\n  int b = 2;\n};\n"
    code, said = run(tool, {"src/a.cpp": tricky + whole + members})
    assert (code, said) == (0, "check_sizes: 2 functions, 0 long\n"), said
    code, said = run(tool, {"src/a.cpp": function("C::C(int a) : a_{a}, b_(a)", 61)})
    assert code == 1 and "src/a.cpp:1: 61 lines: C::C(int a) : a_{a}, b_(a)" in said, said


if __name__ == "__main__":
    main()
