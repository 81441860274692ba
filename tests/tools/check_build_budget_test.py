#!/usr/bin/env python3
"""Tests tools/check_build_budget: the fit finds the factors that made the times, and a build that costs more than
allowed fails."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import sys
import tempfile
import unittest

LOADER = importlib.machinery.SourceFileLoader("check_build_budget", sys.argv.pop(1))
TOOL = importlib.util.module_from_spec(importlib.util.spec_from_loader(LOADER.name, LOADER))
LOADER.exec_module(TOOL)


class Budget(unittest.TestCase):
    def test_the_fit_finds_the_factors(self):
        rows = [[1, 1000 * (i % 7 + 1), 50 * (i % 3)] for i in range(60)]
        found = TOOL.fit(rows, [1.5 + 2e-4 * lines + 3e-3 * own for _, lines, own in rows])
        for factor, expected in zip(found, [1.5, 2e-4, 3e-3]):
            self.assertAlmostEqual(factor, expected, places=9)

    def test_no_factor_is_negative(self):
        rows = [[1, 100 * i, 10 * (i % 5)] for i in range(40)]
        self.assertTrue(all(f >= 0 for f in TOOL.fit(rows, [2 + 0.01 * r[1] - 0.05 * r[2] for r in rows])))

    def run_with(self, count, budget):
        with tempfile.TemporaryDirectory() as folder:
            kept = pathlib.Path(folder) / "budget.json"
            kept.write_text(json.dumps({"factors": {"per_unit": 2, "per_line": 0, "per_optimised_line": 0}, "budget_seconds": budget}))
            said, TOOL.units = io.StringIO(), lambda build: [(f"{i}.o", [1, 10, 0]) for i in range(count)]
            real, TOOL.FILE = TOOL.FILE, Kept(kept)
            sys.argv = ["check_build_budget", "build"]
            try:
                with contextlib.redirect_stdout(said):
                    TOOL.main()
            except SystemExit as stop:
                return str(stop)
            finally:
                TOOL.FILE = real
            return said.getvalue()

    def test_a_tenth_above_the_budget_is_too_much(self):
        self.assertIn("estimated 200 s", self.run_with(100, 200))
        self.assertIn("estimated 218 s", self.run_with(109, 200))
        self.assertIn("more than a tenth above", self.run_with(111, 200))

    def test_kernels_are_measured_by_the_units_beside_them(self):
        for speed in (1, 3):  # the machine's speed, which must not matter
            took = {"a.cpp.o": 10 * speed, "b.cpp.o": 30 * speed, "c.cu.o": 60 * speed}
            self.assertEqual(TOOL.kernel_seconds(took, {"a.cpp.o": 5, "b.cpp.o": 15}, 1.5), 45)

    def kernels_of(self, architectures, seconds):
        """Returns the tool's output for a build whose log has 20 s of other units, estimated at 10, and `seconds` of kernels."""
        kept = {"kernels": {"seconds_of_one_estimated": 2, "budget_seconds": {"every build": 5, "90a": 20, "80": 10}}}
        log = [("src/a.cpp.o", 20), ("src/k.cu.o", seconds), ("bench/lab/x.cu.o", 1000)]
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "kernels.txt").write_text(f"{architectures}\n")
            (pathlib.Path(folder) / ".ninja_log").write_text("".join(f"0\t{1000 * s}\t0\t{name}\tx\n" for name, s in log))
            try:
                with contextlib.redirect_stdout(said):
                    TOOL.check_kernels(folder, {"src/a.cpp.o": 10}, kept)
            except SystemExit as stop:
                return str(stop)
        return said.getvalue()

    def test_each_architecture_has_a_line(self):
        self.assertIn("90a, 80: about 35 s of processor time; the budget is 35 s", self.kernels_of("90a;80", 35))
        self.assertIn("more than a tenth above", self.kernels_of("90a", 35))
        self.assertIn("77, which has no line", self.kernels_of("90a;77", 1))
        self.assertIn("has no kernels", self.kernels_of("none: no GPU was seen", 0))

    def test_a_build_that_is_not_made_is_no_proof(self):
        self.assertIn("build it first", self.run_with(3, 200))


class Kept:
    """A copy of the tool's file that stays elsewhere but takes the place of the tool's own."""

    def __init__(self, path):
        self.path = path

    def read_text(self):
        return self.path.read_text()

    def relative_to(self, root):
        return "tools/build_budget.json"


if __name__ == "__main__":
    unittest.main()
