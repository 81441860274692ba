// Reports of a bench for people, and two of them compared.
#pragma once

#include "inspect/bench.h"

namespace tachy::cli {

void print_report(const BenchReport& report);
// True when a line is slower.
bool print_comparison(const BenchReport& before, const BenchReport& after, bool as_json);
// True when a component, or the block, is beyond the factor (compare_relative).
bool print_relative(const BenchReport& before, const BenchReport& after, double factor, bool as_json);

}  // namespace tachy::cli
