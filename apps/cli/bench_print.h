// Prints reports of a bench for people, and comparisons of two of them.
#pragma once

#include "inspect/bench.h"

namespace tachy::cli {

void print_report(const BenchReport& report);
// Returns true if a line is slower.
bool print_comparison(const BenchReport& before, const BenchReport& after, bool as_json);
// Returns true if a component, or the block, exceeds the factor (compare_relative).
bool print_relative(const BenchReport& before, const BenchReport& after, double factor, bool as_json);

}  // namespace tachy::cli
